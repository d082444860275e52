"""neighborhoods: the edges of a batch as lists, by target and by source, made once for all layers.

Edges keep the order of `edge_index`, which must ascend by target; so edge weights need no
reordering. The lists by source, which only gradients of node rows need, are made when they are
first asked for: by a forward pass over rows that require a gradient, or ahead of it by the thread
that makes the batch.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from foregather import _core
from foregather.errors import InputError
from foregather.nn.list_kernels import lists_by_source, outlasts_the_call

__all__ = ["BySource", "Neighborhoods"]


@dataclass(frozen=True, slots=True, eq=False)
class BySource:
    """The edges by source: those of source s are the entries `ptr[s]` to `ptr[s + 1]`.

    Attributes:
        ptr: int64 [sources + 1].
        edge: positions in the order of `edge_index`; they ascend in each list.
        target: the targets of those edges; so do they.
    """

    ptr: Tensor
    edge: Tensor
    target: Tensor


@dataclass(slots=True, eq=False)
class _Whole:
    """The lists of a whole batch; those by source once they were asked for."""

    indptr: Tensor
    source: Tensor
    num_sources: int
    by_source: BySource | None = None
    asked: Callable[[], None] | None = None  # told whenever those by source are used

    def make_by_source(self, threads: int) -> BySource:
        """Those by source, made now if they were not."""
        made = self.by_source
        if made is None:
            found = lists_by_source(self.indptr, self.source, self.num_sources, threads)
            made = BySource(*found)
            if outlasts_the_call(made.ptr):
                self.by_source = made
        return made


@dataclass(frozen=True, slots=True, eq=False)
class Neighborhoods:
    """The edges of a batch by target (CSC), and by source; made by `of`, which checks them.

    Attributes:
        indptr: int64 [targets + 1]; the edges of target t are `indptr[t]` to `indptr[t + 1]`.
        source: the row that each edge reads, int32 (int64 where there are 2^31 or more).
        num_sources: rows that `x` must have.
    """

    indptr: Tensor
    source: Tensor
    num_sources: int
    _whole: _Whole = field(repr=False)

    @classmethod
    def of(
        cls, edge_index: Tensor, num_sources: int, num_targets: int, threads: int = 0
    ) -> "Neighborhoods":
        """The lists of `edge_index` [2, edges], from row 0 (sources) to row 1 (targets).

        Args:
            edge_index: the edges.
            num_sources: rows that `x` must have.
            num_targets: rows that a result has.
            threads: that make the lists; 0: as many as torch uses.

        Raises:
            InputError: the targets do not ascend, or an id is out of range.
        """
        if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.dtype != torch.int64:
            raise InputError(
                f"edge_index is {edge_index.dtype} of shape {list(edge_index.shape)}, expected "
                "int64 of shape [2, edges]"
            )
        if num_sources < 0 or num_targets < 0:
            raise InputError(
                f"there are {num_sources} sources and {num_targets} targets, expected 0 or more"
            )
        edges = edge_index.shape[1]
        wide = max(num_sources, num_targets, edges) >= 2**31
        dtype = torch.int64 if wide else torch.int32
        if edge_index.device.type == "cpu":
            given = edge_index.detach().contiguous()
            indptr = given.new_empty(num_targets + 1)
            source = given.new_empty(edges, dtype=dtype)
            start = given.data_ptr()
            _core.lists_by_target(
                start,
                start + 8 * edges,
                edges,
                num_sources,
                num_targets,
                indptr.data_ptr(),
                source.data_ptr(),
                wide,
                threads or torch.get_num_threads(),
            )
        else:
            indptr, source = _on_device(edge_index, num_sources, num_targets, dtype)
        return cls(indptr, source, num_sources, _Whole(indptr, source, num_sources))

    @property
    def num_targets(self) -> int:
        """Rows that a result has."""
        return self.indptr.shape[0] - 1

    @property
    def num_edges(self) -> int:
        """Edges, and with them weights."""
        return self.source.shape[0]

    @property
    def by_source(self) -> BySource:
        """The same edges by source, made at the first call and shared with all `first`.

        Lists may go on beyond the edges of this prefix: an entry belongs to it if its target is
        below `num_targets`.
        """
        whole = self._whole
        if whole.asked is not None:
            whole.asked()
        made = whole.make_by_source(0)
        if whole.num_sources == self.num_sources:
            return made
        return BySource(made.ptr[: self.num_sources + 1], made.edge, made.target)

    @property
    def has_by_source(self) -> bool:
        """Whether the lists by source exist already."""
        return self._whole.by_source is not None

    def make_by_source(self, threads: int) -> None:
        """Makes the lists by source ahead of their use."""
        self._whole.make_by_source(threads)

    def tell(self, asked: Callable[[], None]) -> "Neighborhoods":
        """These lists, of which `asked` is told whenever those by source are used."""
        self._whole.asked = asked
        return self

    def first(self, targets: int, sources: int) -> "Neighborhoods":
        """The lists of the first targets, which read the first sources; views, nothing is copied.

        Raises:
            InputError: there are fewer, or one of these targets reads a row beyond `sources`.
        """
        if targets == self.num_targets and sources == self.num_sources:
            return self
        if not (0 <= targets <= self.num_targets and 0 <= sources <= self.num_sources):
            raise InputError(
                f"the first {targets} targets and {sources} sources were asked for, but there are "
                f"{self.num_targets} and {self.num_sources}"
            )
        indptr = self.indptr[: targets + 1]
        source = self.source[: int(indptr[-1])]
        if sources < self.num_sources and len(source) and (most := int(source.max())) >= sources:
            raise InputError(
                f"one of the first {targets} targets reads row {most}, beyond the first {sources} "
                "sources; ask for more sources, or number the nodes hop by hop"
            )
        return Neighborhoods(indptr, source, sources, self._whole)


def _on_device(
    edge_index: Tensor, num_sources: int, num_targets: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The lists by target of edges that are not on the CPU, made and checked by torch."""
    source, target = edge_index.detach()
    for name, ids, count in (("source", source, num_sources), ("target", target, num_targets)):
        if len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= count):
            raise InputError(
                f"edge_index holds a {name} out of range, but there are {count} {name}s "
                "(ids are 0 to N-1)"
            )
    if bool((target[1:] < target[:-1]).any()):
        raise InputError("the targets in edge_index[1] do not ascend; sort the edges by target")
    counts = torch.bincount(target, minlength=num_targets)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)]), source.to(dtype)
