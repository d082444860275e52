"""triples: facts of a knowledge graph, (head, relation, tail), become a relation each.

Facts are sorted by relation through a spool, so only the names of the relations are in memory.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.convert.spool import Spool
from foregather.graph.convert.typed.description.triple_spec import TripleSpec
from foregather.graph.convert.typed.edges import Ends
from foregather.graph.convert.typed.reader import Reader
from foregather.graph.convert.typed.values import times_of
from foregather.graph.hetero.columns import check_times
from foregather.graph.hetero.names import check_name
from foregather.graph.on_disk.writer import FolderWriter

__all__ = ["read_facts", "relation_names"]

_MOST_RELATIONS = 100_000
_FACT = [("relation", "<u4"), ("head", "<i8"), ("tail", "<i8")]


def relation_names(spec: TripleSpec, reader: Reader) -> list[str]:
    """The relations in the order in which they first come; they are called as in the file.

    Raises:
        InputError: a row has none, or there are absurdly many.
    """
    numbers: dict[str, int] = {}
    row = 0
    for batch in reader.batches(spec.file, [spec.relation], [spec.relation]):
        column = batch[spec.relation].dictionary_encode()
        names = [str(name) for name in column.dictionary.to_pylist()]
        if column.null_count or "" in names:
            at = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            gone = [-1, *(place for place, name in enumerate(names) if name == "")]
            raise _gone(spec, row + int(np.argmax(np.isin(at, gone))))
        for name in names:
            numbers.setdefault(check_name(name, "relation"), len(numbers))
        if len(numbers) > _MOST_RELATIONS:
            raise InputError(
                f"column {spec.relation!r} of {spec.file.name} names more than {_MOST_RELATIONS} "
                "relations; check that it is the right column"
            )
        row += len(column)
    return list(numbers)


def _gone(spec: TripleSpec, row: int) -> InputError:
    return InputError(
        f"{spec.file.name} has no head, relation or tail in row {row + 1}, or one that is no node "
        f"of type {spec.type!r}"
    )


def read_facts(
    spec: TripleSpec,
    names: list[str],
    ends: Sequence[Ends],
    reader: Reader,
    writer: FolderWriter,
    memory: int,
    threads: int,
) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """The facts relation by relation, those of one in the order of the file, maybe in pieces.

    Yields:
        A relation, and records of `head`, `tail` and, where facts have one, `time`.

    Raises:
        InputError: a row lacks something.
    """
    fields = _FACT + ([("time", "<i8")] if spec.time is not None else [])
    spool = Spool(
        writer.scratch("facts"), np.dtype(fields), memory // 8, ("relation",), threads=threads
    )
    writer.defer(spool.close)
    numbers = {name: place for place, name in enumerate(names)}
    wanted = [spec.head, spec.relation, spec.tail] + ([spec.time] if spec.time else [])
    text = [spec.relation] + ([spec.head, spec.tail] if ends[0].kind == "text" else [])
    row = 0
    for batch in reader.batches(spec.file, wanted, text):
        records = np.empty(len(batch[spec.head]), spool.dtype)
        for field, name, end in zip(("head", "tail"), (spec.head, spec.tail), ends, strict=True):
            records[field] = end.find(batch[name], f"column {name!r} of {spec.file.name}")
        lost = (records["head"] < 0) | (records["tail"] < 0)
        if lost.any():
            raise _gone(spec, row + int(np.argmax(lost)))
        column = batch[spec.relation].dictionary_encode()
        known = [numbers.get(str(name), -1) for name in column.dictionary.to_pylist()]
        if -1 in known:
            raise InputError(f"{spec.file.name} changed while it was read; convert it again")
        at = column.indices.to_numpy(zero_copy_only=False)
        records["relation"] = np.array(known, np.uint32)[at]
        if spec.time is not None:
            times = times_of(batch[spec.time], f"column {spec.time!r} of its table", row)
            check_times(times, "time", row)
            records["time"] = times
        spool.append(records)
        row += len(records)
    for group in spool.groups(memory // 8):
        records = group.records[np.argsort(group.records["relation"], kind="stable")]
        borders = np.flatnonzero(np.diff(records["relation"])) + 1
        for part in np.split(records, borders):
            if len(part):
                yield names[int(part["relation"][0])], part
    spool.close()
