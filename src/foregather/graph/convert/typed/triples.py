"""triples: facts of a knowledge graph, (head, relation, tail), become a relation each."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.convert.typed.ids import IdIndex
from foregather.graph.convert.typed.spec import TripleSpec
from foregather.graph.convert.typed.tables import Batch
from foregather.graph.convert.typed.values import times_of
from foregather.graph.hetero.names import EdgeType, check_name
from foregather.graph.hetero.relation import Relation
from foregather.graph.hetero.text_ids import TextIds

__all__ = ["read_triples"]

_MOST_RELATIONS = 100_000


def read_triples(
    spec: TripleSpec,
    index: IdIndex,
    read: Callable[[Path, Sequence[str], Sequence[str]], Iterator[Batch]],
    threads: int,
) -> dict[EdgeType, Relation]:
    """Reads the facts; relations are called as in the file, in text.

    Args:
        spec: where they are.
        index: the entities.
        read: reads columns of a table.
        threads: 0 uses all cores.

    Raises:
        InputError: a row lacks something, or there are absurdly many relations.
    """
    wanted = [spec.head, spec.relation, spec.tail] + ([spec.time] if spec.time else [])
    text = [spec.relation]
    if isinstance(index.original(), TextIds):
        text += [spec.head, spec.tail]
    numbers: dict[str, int] = {}
    parts: list[list[npt.NDArray[np.int64]]] = []
    row = 0
    for batch in read(spec.file, wanted, text):
        ends = [
            index.find(batch[name], f"column {name!r} of {spec.file.name}")
            for name in (spec.head, spec.tail)
        ]
        kinds = []
        for place, name in enumerate(map(str, batch[spec.relation].to_pylist())):
            if ends[0][place] < 0 or ends[1][place] < 0 or name in ("", "None"):
                raise InputError(
                    f"{spec.file.name} has no head, relation or tail in row {row + place + 1}, or "
                    f"one that is no node of type {spec.type!r}"
                )
            kinds.append(numbers.setdefault(name, len(numbers)))
        if len(numbers) > _MOST_RELATIONS:
            raise InputError(
                f"column {spec.relation!r} of {spec.file.name} names more than {_MOST_RELATIONS} "
                "relations; check that it is the right column"
            )
        part = [*ends, np.array(kinds, np.int64)]
        if spec.time is not None:
            part.append(times_of(batch[spec.time], f"column {spec.time!r} of its table", row))
        parts.append(part)
        row += len(kinds)
    columns = [np.concatenate(one) for one in zip(*parts, strict=True)]
    order = np.argsort(columns[2], kind="stable")
    columns = [values[order] for values in columns]
    borders = np.searchsorted(columns[2], np.arange(len(numbers) + 1))
    found: dict[EdgeType, Relation] = {}
    for name, number in numbers.items():
        mine = slice(int(borders[number]), int(borders[number + 1]))
        time = columns[3][mine] if spec.time is not None else None
        found[spec.type, check_name(name, "relation"), spec.type] = Relation.of(
            np.stack([columns[0][mine], columns[1][mine]]),
            index.count,
            index.count,
            time=time,
            threads=threads,
        )
    return found
