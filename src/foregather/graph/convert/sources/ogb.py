"""ogb: reads raw folders of the Open Graph Benchmark without the ogb package.

Both layouts are streamed: `*.csv.gz` files, and `data.npz`. The counts declared in the folder are
checked against the data. Pickles (processed/*.pt, split_dict.pt) are never opened.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from foregather.errors import FormatError, InputError
from foregather.graph.convert.reading.stream import read_ahead
from foregather.graph.convert.source import EdgeChunk, Ids, RowStream, Small
from foregather.graph.convert.sources.ogb_layouts import BinaryLayout, CsvLayout
from foregather.graph.convert.sources.ogb_splits import read_splits

__all__ = ["OgbSource", "find_raw"]

Array = npt.NDArray[Any]

#: Data sets whose files hold each undirected edge once (OGB doubles them as it loads).
_ONCE = ("products", "proteins", "proteinfunc", "ppa", "ppassoc", "collab")
#: Data sets of directed citations.
_CITATIONS = ("arxiv", "papers100m", "citation", "citation2")
_MARKS = ("edge.csv.gz", "edge.csv", "data.npz")
_SEVERAL_TYPES = ("triplet-type-list.csv.gz", "relations", "edge_index_dict.npz")


class _Layout(Protocol):
    """What differs between the two layouts."""

    num_nodes: int
    num_edges: int
    features: RowStream | None
    edge_features: tuple[int, np.dtype[Any]] | None

    def edges(self, step: int) -> Iterator[EdgeChunk]: ...
    def labels(self, budget: int) -> Array | None: ...
    def ignored(self) -> list[str]: ...


def find_raw(folder: str | os.PathLike[str]) -> Path:
    """Finds the raw folder of the one OGB data set at `folder`: itself, `raw/` or `<name>/raw/`.

    Raises:
        FormatError: there is none, there are several, or it has several node types.
    """
    root = Path(folder)
    if _is_raw(root):
        return root
    if _is_raw(root / "raw"):
        return root / "raw"
    children = sorted(root.iterdir()) if root.is_dir() else []
    found = [child for child in children if _is_raw(child / "raw")]
    if len(found) > 1:
        listed = ", ".join(child.name for child in found)
        raise FormatError(f"{root.name} holds several data sets ({listed}); name one of them")
    if found:
        return found[0] / "raw"
    raise FormatError(
        f"{root.name or root} is not an OGB data set: neither it nor its folder raw has "
        "edge.csv.gz or data.npz"
    )


def _is_raw(folder: Path) -> bool:
    if any((folder / name).is_file() for name in _MARKS):
        return True
    if any((folder / name).exists() for name in _SEVERAL_TYPES):
        where = folder.parent.name if folder.name == "raw" else folder.name
        raise FormatError(
            f"{where} has several types of nodes or edges, expected one; "
            "convert the edges of one type as an edge list"
        )
    return False


class OgbSource:
    """A data set in OGB's raw layout.

    Args:
        folder: the data set's folder, its `raw` folder, or a folder with that one data set in it.
        splits: False leaves the splits out; a name chooses among several kinds of split.

    Raises:
        FormatError: no such data set, a missing file, several graphs, or several node types.
    """

    def __init__(self, folder: str | os.PathLike[str], *, splits: bool | str = True) -> None:
        raw = find_raw(folder)
        self._data_set = raw.parent if raw.name == "raw" else raw
        # resolve: a folder given as "." has no name of its own
        self.name = self._data_set.resolve().name
        binary = (raw / "data.npz").is_file()
        self._layout: _Layout = BinaryLayout(raw) if binary else CsvLayout(raw)
        self._splits = splits
        self.ids: Ids = "dense"
        self.num_nodes: int | None = self._layout.num_nodes
        self.num_edges: int | None = self._layout.num_edges
        self.has_weight = False
        self.edge_features = self._layout.edge_features
        self.features = self._layout.features
        plain = _plain(self.name)
        self.stored_once: bool | None = (
            True if plain in _ONCE else False if plain in _CITATIONS else None
        )

    def edges(self, step: int) -> Iterator[EdgeChunk]:
        """Reads the edges in order, at most `step` at a time; checks their number at the end."""
        if step < 1:
            raise InputError(f"step is {step}, expected at least 1")
        expected = self._layout.num_edges
        count = 0
        # A thread reads the next chunks; at most three are in memory at once.
        with closing(read_ahead(lambda: self._layout.edges(max(1, step // 3)), 1)) as chunks:
            for chunk in chunks:
                count += len(chunk.source)
                if count > expected:
                    break
                yield chunk
        if count != expected:
            amount = f"more than {expected}" if count > expected else str(count)
            raise FormatError(
                f"{self.name} has {amount} edges, but its list of counts says {expected}; "
                "the download is damaged, fetch it again"
            )

    def small(self, budget: int) -> Small:
        """Reads labels and splits; raises BudgetError if they exceed `budget` bytes."""
        labels = self._layout.labels(budget)
        if labels is not None and labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        if self._splits is False:
            return Small(labels)
        left = budget - (0 if labels is None else labels.nbytes)
        chosen = self._splits if isinstance(self._splits, str) else None
        splits = read_splits(self._data_set / "split", chosen, self._layout.num_nodes, left)
        return Small(labels, splits)

    def notes(self) -> list[str]:
        """Notes on the data set and what was left out."""
        found = []
        if self.stored_once:
            found.append(
                "The file holds each edge in one direction; OGB adds the reverse edges when it "
                "loads this data set."
            )
        elif self.stored_once is False:
            found.append(
                "Edges are directed citations without reverse edges; published "
                "accuracies are for the undirected graph (pass --undirected)."
            )
        else:
            found.append(
                "It is not known whether the file holds both directions of each edge; pass "
                "--undirected if it does not but should."
            )
        ignored = self._layout.ignored()
        for name in ("mapping", "processed"):
            if (self._data_set / name).is_dir():
                ignored.append(f"{name}/")
        if ignored:
            found.append(f"Not converted: {', '.join(ignored)}.")
        if self._splits is False:
            found.append("The splits were left out as requested.")
        elif not (self._data_set / "split").is_dir():
            found.append("The data set has no folder split, so there are no splits.")
        return found


def _plain(name: str) -> str:
    """The data set behind a folder name: "ogbn_products", "products_pyg", "papers100M-bin"."""
    plain = name.lower().replace("-", "_")
    for start in ("ogbn_", "ogbl_"):
        plain = plain.removeprefix(start)
    return plain.removesuffix("_pyg").removesuffix("_bin").removesuffix("_v4").removesuffix("_v5")
