"""input_links: which links are asked about: pairs of nodes, with labels and times.

A link is a row of its own: the same pair may be asked about many times, with other labels and
times.
"""

from dataclasses import dataclass
from dataclasses import replace as replaced
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.arrays import to_array, to_ids
from foregather.graph.columns import to_times
from foregather.graph.links.links import Links
from foregather.graph.mapped import fetch, take
from foregather.sampling.links.negatives import Negatives

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["EdgeLinks", "Ends", "GivenLinks", "InputLinks", "known_links", "read_ends"]

Ids = npt.NDArray[np.int64]


class HasEdges(Protocol):
    """What has edges by target: a Graph, or a relation of a typed graph."""

    @property
    def indptr(self) -> Ids: ...
    @property
    def indices(self) -> npt.NDArray[Any]: ...
    @property
    def edge_ids(self) -> Ids | None: ...


class Ends(Protocol):
    """The two ends of links, by position."""

    @property
    def count(self) -> int:
        """How many links there are."""

    @property
    def nbytes(self) -> int:
        """Bytes held, but for those of the graph."""

    @property
    def digest(self) -> str:
        """Identifies them and their order."""

    def at(self, position: Ids) -> tuple[Ids, Ids]:
        """Sources and targets of the links at these positions."""

    def edges(self, position: Ids) -> Ids | None:
        """Which edges of the graph they are, as positions in its rows; None if they are others."""

    def on(self, graph: HasEdges) -> "Ends":
        """The same over the same graph with other arrays in memory."""


@dataclass(frozen=True, slots=True, eq=False)
class GivenLinks:
    """Links that were given as pairs.

    Attributes:
        src: sources, int64.
        dst: targets.
        edge: which edges of the graph they are, if they are edges of it.
    """

    src: Ids
    dst: Ids
    edge: Ids | None = None

    @property
    def count(self) -> int:
        """How many links there are."""
        return int(self.src.size)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.src.nbytes + self.dst.nbytes + (0 if self.edge is None else self.edge.nbytes)

    @property
    def digest(self) -> str:
        """Identifies them and their order."""
        return _hashed(self.src, self.dst)

    def at(self, position: Ids) -> tuple[Ids, Ids]:
        """Sources and targets of the links at these positions."""
        return self.src[position], self.dst[position]

    def edges(self, position: Ids) -> Ids | None:
        """Which edges of the graph they are."""
        return None if self.edge is None else self.edge[position]

    def on(self, graph: HasEdges) -> "GivenLinks":
        """The same: they hold no arrays of the graph."""
        return self


@dataclass(frozen=True, slots=True, eq=False)
class EdgeLinks:
    """All edges of a graph or a relation, in the order of its rows, read where they are asked for.

    Attributes:
        graph: what has the edges.
    """

    graph: HasEdges

    @property
    def count(self) -> int:
        """How many links there are."""
        return int(self.graph.indices.size)

    @property
    def nbytes(self) -> int:
        """None: they are those of the graph."""
        return 0

    @property
    def digest(self) -> str:
        """Identifies them: they are those of the graph, which has its own digest."""
        return "all edges"

    def at(self, position: Ids) -> tuple[Ids, Ids]:
        """Sources and targets of the links at these positions."""
        dst = np.searchsorted(self.graph.indptr, position, side="right") - 1
        return take(self.graph.indices, position).astype(np.int64), dst

    def edges(self, position: Ids) -> Ids | None:
        """Their own positions."""
        return position

    def on(self, graph: HasEdges) -> "EdgeLinks":
        """The same over the same graph with other arrays in memory."""
        return EdgeLinks(graph)


@dataclass(frozen=True, slots=True, eq=False)
class InputLinks:
    """Links with what is known about them.

    Attributes:
        ends: their two ends.
        label: one row per link, or None.
        time: what each link may see of the graph, or None.
    """

    ends: Ends
    label: "Tensor | None" = None
    time: Ids | None = None

    @staticmethod
    def make(ends: Ends, edge_label: Any, edge_label_time: Any) -> "InputLinks":
        """Links with labels and times that fit them.

        Raises:
            InputError: there are no links, or another number of labels or times.
        """
        if ends.count == 0:
            raise InputError(
                "edge_label_index holds no links, so there is nothing to load; check the split"
            )
        time = None
        if edge_label_time is not None:
            time = np.array(to_times(edge_label_time, ends.count, "edge_label_time", "link"))
        return InputLinks(ends, _labels(edge_label, ends.count), time)

    @property
    def count(self) -> int:
        """How many links there are."""
        return self.ends.count

    @property
    def digest(self) -> str:
        """Identifies links, labels and times."""
        parts = [self.ends.digest]
        if self.label is not None:
            parts.append(_hashed_label(self.label))
        if self.time is not None:
            parts.append(_hashed(self.time))
        return " ".join(parts)

    @property
    def nbytes(self) -> int:
        """Bytes held, but for those of the graph."""
        label = 0 if self.label is None else self.label.nbytes
        return self.ends.nbytes + label + (0 if self.time is None else self.time.nbytes)

    def beside(self, negatives: Negatives) -> "InputLinks":
        """The same with labels that leave 0 to negatives, by PyG's rule.

        Raises:
            InputError: there are labels, and triplets have no place for them.
        """
        if self.label is None:
            return self
        if not negatives.is_binary:
            raise InputError(
                "edge_label was given, but triplets have no labels: src_index, dst_pos_index and "
                "dst_neg_index say which ends are positive; leave it out, or use mode='binary'"
            )
        return replaced(self, label=self.label + 1) if self.label.min() == 0 else self

    def on(self, graph: HasEdges) -> "InputLinks":
        """The same over the same graph with other arrays in memory."""
        return replaced(self, ends=self.ends.on(graph))


def known_links(graph: HasEdges, ends: Ends) -> Any:
    """Edges of a graph or relation and given links, as `NegativeSampler` takes them."""
    if isinstance(ends, EdgeLinks):
        return graph
    every = EdgeLinks(graph)
    both = every.at(np.arange(every.count)), ends.at(np.arange(ends.count))
    return np.stack([np.concatenate(side) for side in zip(*both, strict=True)])


def read_ends(value: Any, num_src: int, num_dst: int, name: str = "edge_label_index") -> GivenLinks:
    """Reads pairs of nodes.

    Args:
        value: [2, links] whole numbers: row 0 the sources, row 1 the targets.
        num_src: nodes that sources may be.
        num_dst: nodes that targets may be.
        name: the argument, for messages.

    Raises:
        InputError: another shape, numbers that are not whole, or nodes that do not exist.
    """
    pairs = fetch(to_array(value, name))
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        hint = "; transpose it" if pairs.ndim == 2 and pairs.shape[1] == 2 else ""
        raise InputError(
            f"{name} has shape {list(pairs.shape)}, expected [2, links]: sources, targets{hint}"
        )
    if pairs.size and pairs.dtype.kind not in "iu":
        raise InputError(f"{name} holds {pairs.dtype}, expected whole numbers, the ids of nodes")
    src, dst = (
        # copies: the caller may reuse the array, and a position in an epoch must keep its meaning
        np.array(to_ids(pairs[row], count, f"{name}[{row}]"), np.int64)
        for row, count in enumerate((num_src, num_dst))
    )
    return GivenLinks(src, dst)


def _labels(value: Any, count: int) -> "Tensor | None":
    import torch

    if value is None:
        return None
    label = (
        value
        if isinstance(value, torch.Tensor)
        else torch.from_numpy(np.array(to_array(value, "edge_label")))
    )
    if label.ndim == 0 or label.shape[0] != count:
        raise InputError(
            f"edge_label has shape {list(label.shape)}, expected {count} rows, one per link"
        )
    return label.detach().cpu().clone()


def _hashed(*arrays: npt.NDArray[Any]) -> str:
    state = _core.Xxh64()
    for values in arrays:
        state.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8))
    return f"{state.digest():016x}"


def _hashed_label(label: "Tensor") -> str:
    import torch

    raw = label.contiguous().reshape(-1).view(torch.uint8).numpy()
    return f"{label.dtype}{list(label.shape[1:])}:{_hashed(raw)}"


def named_ends(asked: Any, num_src: int, num_dst: int) -> tuple[GivenLinks, Any, Any]:
    """Ends, labels and times of links: a `Links`, or pairs, which have none of their own.

    Raises:
        InputError: see `read_ends`.
    """
    if isinstance(asked, Links):
        return read_ends(asked.index, num_src, num_dst), asked.labels, asked.time
    return read_ends(asked, num_src, num_dst), None, None
