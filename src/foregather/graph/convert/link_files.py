"""link_files: links that come divided already: a file for each list, and for its negatives.

Files name nodes as the source does. Lists of links are held in memory: they are refused where they
would not fit into the budget.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import BudgetError, InputError, StorageError
from foregather.graph.convert.detect import open_source
from foregather.graph.convert.read_options import ReadOptions
from foregather.graph.convert.source import EdgeChunk
from foregather.graph.graph import Graph
from foregather.graph.links.known import KnownLinks
from foregather.graph.links.links import Links
from foregather.graph.links.rule import NAMES, Which
from foregather.graph.names import check_name
from foregather.graph.original_ids import find_nodes, id_kind
from foregather.units import format_bytes

__all__ = ["LinkFiles", "other_names", "read_link_files", "repeated_edges"]

Int = npt.NDArray[np.int64]
_NEGATIVES = "_negatives"
_EACH = 48  # bytes that a link needs while it is read
_STEP = 1 << 18


@dataclass(frozen=True, slots=True)
class LinkFiles:
    """Files of links by name.

    Attributes:
        links: name, such as train, valid or test, and file.
        negatives: the same for pairs that are no links, which all links of that name are compared
            with.
        relation: the edge type of the links, of a typed graph; None where there is one; "*" where
            files hold facts, which name their relations.
    """

    links: dict[str, Path]
    negatives: dict[str, Path]
    relation: Which = None

    def __post_init__(self) -> None:
        if not self.links:
            raise InputError("no links are given; write --links train=train.csv valid=valid.csv")
        for name, path in (*self.links.items(), *self.negatives.items()):
            check_name(name, "list of links")
            if not path.exists():
                raise StorageError(f"{path.name} does not exist; check the files of links")
        lost = sorted(self.negatives.keys() - self.links.keys())
        if lost:
            raise InputError(
                f"there are negatives for the links {lost[0]!r}, but no links of that name; give "
                f"{lost[0]}=FILE as well"
            )

    @staticmethod
    def of(given: Sequence[str], relation: Which = None) -> "LinkFiles":
        """Reads `name=FILE` and `name_negatives=FILE`.

        Raises:
            InputError: one of them is something else, or comes twice.
        """
        links: dict[str, Path] = {}
        negatives: dict[str, Path] = {}
        for one in given:
            name, sign, file = one.partition("=")
            if not sign or not name or not file:
                raise InputError(f"--links has {one[:80]!r}, expected NAME=FILE")
            into, short = links, name
            if name.endswith(_NEGATIVES):
                into, short = negatives, name.removesuffix(_NEGATIVES)
            if short in into:
                raise InputError(f"--links has {name!r} twice; leave one out")
            into[short] = Path(file)
        return LinkFiles(links, negatives, relation)


def read_link_files(
    graph: Graph, files: LinkFiles, reading: ReadOptions, work: int
) -> dict[str, Links]:
    """The links of a plain graph's files, whose columns are those of its edges.

    Args:
        graph: the graph that was converted.
        files: what to read.
        reading: how the edges were read; columns, weights (as labels) and header apply.
        work: bytes that may be used.

    Raises:
        InputError: a node does not exist; names the file and the row.
        BudgetError: the links do not fit.
    """
    if files.relation is not None:
        raise InputError(
            f"a relation is named for links, {files.relation}, but the graph has no types; leave "
            "it out"
        )
    kind = {"same": "dense", "integers": "sparse", "text": "string"}[id_kind(graph)]
    asked = ReadOptions(kind, columns=reading.columns, weight=reading.weight, header=reading.header)
    bare = ReadOptions(kind, columns=reading.columns, header=reading.header)
    made = {}
    left = work // 2 - 16 * graph.num_nodes  # the table of ids
    for name, path in files.links.items():
        index, labels = _read(graph, path, asked, left)
        negatives = None
        if name in files.negatives:
            negatives, _ = _read(graph, files.negatives[name], bare, left)
        made[name] = Links.of(
            index, graph.num_nodes, graph.num_nodes, labels=labels, negatives=negatives
        )
        left -= _EACH * index.shape[1]
    return made


def _read(graph: Graph, path: Path, asked: ReadOptions, left: int) -> tuple[Int, Any]:
    source = open_source(path, _fitting(path, asked))
    ends: list[Int] = []
    labels: list[Any] = []
    rows = 0
    for chunk in source.edges(_STEP):
        if _EACH * (rows + len(chunk.source)) > left:
            raise BudgetError(
                f"the links of {path.name} do not fit into the {format_bytes(max(0, left))} that "
                "are left for them; raise --memory"
            )
        ends.append(np.stack([_nodes(graph, chunk, end, path, rows) for end in (0, 1)]))
        if chunk.weight is not None:
            labels.append(chunk.weight)
        rows += len(chunk.source)
    index = np.concatenate([np.empty((2, 0), np.int64), *ends], axis=1)
    if not rows:
        raise InputError(f"{path.name} holds no links; leave it out")
    return index, np.concatenate(labels) if labels else None


def _fitting(path: Path, asked: ReadOptions) -> ReadOptions:
    """The options that apply to such a file."""
    if path.name.lower().endswith((".npz", ".npy")):
        return ReadOptions(asked.ids)
    if path.name.lower().endswith(".parquet"):
        return ReadOptions(asked.ids, columns=asked.columns, weight=asked.weight)
    return asked


def _nodes(graph: Graph, chunk: EdgeChunk, end: int, path: Path, rows: int) -> Int:
    """The nodes of one end, by their ids in the source."""
    given = chunk.target if end else chunk.source
    distinct, place = np.unique(given, return_inverse=True)
    ids: list[Any] = distinct.tolist()
    if chunk.names is not None:
        ids = list(_texts(chunk, distinct))
    try:
        found: Int = find_nodes(graph, ids)[place]
        return found
    except InputError as error:
        for number, one in enumerate(ids):  # which row it is
            try:
                find_nodes(graph, [one])
            except InputError:
                row = rows + int(np.flatnonzero(place == number)[0]) + 1
                side = ("source", "target")[end]
                raise InputError(
                    f"{path.name}: the {side} of link {row} is {one!r:.80}, which is no node of "
                    "the graph; leave the link out, or give the graph that node"
                ) from error
        raise


def _texts(chunk: EdgeChunk, keys: Any) -> Iterator[str]:
    """The names of keys of a chunk."""
    names = chunk.names
    assert names is not None and names.keys is not None
    order = np.argsort(names.keys, kind="stable")
    for at in order[np.searchsorted(names.keys[order], keys)]:
        begin, stop = int(names.offsets[at]), int(names.offsets[at + 1])
        yield names.data[begin:stop].tobytes().decode("utf-8", "surrogatepass")


def repeated_edges(
    parts: Iterable[tuple[Mapping[str, Links], Callable[[], KnownLinks]]],
) -> list[str]:
    """Says which held-out links are edges of the graph too, in whole sentences.

    Args:
        parts: the links of each relation, and its edges.
    """
    also: dict[str, int] = {}
    every: dict[str, int] = {}
    for links, known in parts:
        edges = known()
        for name, one in links.items():
            count = int(edges.holds(one.index[0], one.index[1]).sum())
            also[name] = also.get(name, 0) + count
            every[name] = every.get(name, 0) + one.num_links
    return [
        f"{count} of the {every[name]} links {name} are edges of the graph too, so a "
        "model sees them; take them out of the edges if they are to be predicted."
        for name, count in also.items()
        if count and name != "train"
    ]


def other_names(files: LinkFiles) -> list[str]:
    """Says which lists of links a run does not use unless it is told, in whole sentences."""
    others = [name for name in files.links if name not in NAMES]
    if not others:
        return []
    return [
        f"Links {', '.join(others)} are kept, but train uses the lists {', '.join(NAMES[:-1])} and "
        f"{NAMES[-1]} unless train.split, train.valid and train.test name others."
    ]
