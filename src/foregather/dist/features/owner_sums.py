"""owner_sums: leaf edges by target and owner, and whether their rows cross as sums; pure.

An owner can add up the rows of leaves that it has: a group is the leaf edges of one target with
one owner, and in place of the rows of its sources one row crosses. A target's sum is formed of
its groups in a fixed order: first the edges from nodes that are targets themselves, then the groups
of owners in ascending order, each in the order of edges. It is the same whether rows or sums
crossed, for any bulk, cache and threads; it depends on how rows are divided into blocks, and may
differ from the sum on one rank in its last bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.dist.transport.message_pack import pack, unpack
from foregather.gather.row_sums import sum_matrix
from foregather.loader.batches.leaf_sums import num_targets, starts_of
from foregather.sampling.bulk import Sample

__all__ = ["SUM_REPLY", "SUM_REQUEST", "AskedSums", "OwnerGroups", "SumPlan", "group_edges"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]
SUM_REQUEST, SUM_REPLY = "sums: request", "sums: reply"
_HEADER = 40  # bytes of the five lengths in a request


@dataclass(frozen=True, slots=True, eq=False)
class OwnerGroups:
    """The edges of a minibatch, grouped by part and target.

    Part 0 are edges whose source is a target itself, part 1 + o those of leaves that owner o has.

    Attributes:
        edge: int64 [m]: the edges by group, in their order within a group.
        starts: int64 [groups + 1]: where groups begin in `edge`.
        parts: int64 [owners + 2]: where parts begin among groups.
        order: uint32 [groups]: the groups by target, and by part within a target.
        by_target: int64 [targets + 1]: where targets begin in `order`.
    """

    edge: Int
    starts: Int
    parts: Int
    order: npt.NDArray[np.uint32]
    by_target: Int

    @property
    def count(self) -> int:
        """Groups of all parts."""
        return len(self.order)

    def edges_of(self, part: int) -> tuple[Int, Int]:
        """The edges of a part by group, and where its groups begin among them."""
        first, last = (int(self.parts[part + i]) for i in (0, 1))
        begin, end = int(self.starts[first]), int(self.starts[last])
        return self.edge[begin:end], self.starts[first : last + 1] - begin

    def groups_of(self, part: int) -> slice:
        """Which groups a part has."""
        return slice(int(self.parts[part]), int(self.parts[part + 1]))

    def total(self, groups: Array, out: Array, threads: int) -> None:
        """Adds up the sums of groups by target, parts in ascending order."""
        sum_matrix(groups, self.order, self.by_target, None, out, threads)


def group_edges(sample: Sample, row_starts: Int) -> OwnerGroups:
    """Groups the edges of a minibatch.

    Raises:
        InputError: its layers do not follow each other.
    """
    starts_of(sample)  # checks that targets ascend
    targets, owners = num_targets(sample), len(row_starts) - 1
    holder = np.searchsorted(row_starts, sample.node, "right").astype(np.uint16)
    part = np.where(sample.row < targets, 0, holder[sample.row]).astype(np.uint16)
    edge: Int = np.argsort(part, kind="stable")  # targets ascend, so they do within a part
    parts, target = part[edge], sample.col[edge]
    new = np.ones(len(edge), bool)
    new[1:] = (parts[1:] != parts[:-1]) | (target[1:] != target[:-1])
    first = np.flatnonzero(new)
    order = np.argsort(target[first], kind="stable")
    return OwnerGroups(
        edge,
        np.append(first, len(edge)),
        np.searchsorted(parts[first], np.arange(owners + 2, dtype=np.uint16)),
        order.astype(np.uint32),
        np.searchsorted(target[first][order], np.arange(targets + 1)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class AskedSums:
    """What one rank of the column asks of this one.

    Attributes:
        most: for each of its steps, the groups of the owner that has most.
        counts: for each of its steps, groups it wants of this rank.
        starts: where the sources of each group begin.
        ids: of the sources.
        weight: of their edges; None for 1.
    """

    most: Int
    counts: Int
    starts: Int
    ids: npt.NDArray[np.uint32]
    weight: npt.NDArray[np.float32] | None

    @staticmethod
    def nothing(steps: int) -> "AskedSums":
        """Of a rank that asks for none."""
        none, zero = np.zeros(steps, np.int64), np.zeros(1, np.int64)
        return AskedSums(none, none, zero, np.empty(0, np.uint32), None)

    @staticmethod
    def read(message: Array, weighted: bool, steps: int) -> "AskedSums":
        """Reads a request; an empty one asks for nothing."""
        if not len(message):
            return AskedSums.nothing(steps)
        kinds = (np.int32, np.int32, np.int32, np.uint32, np.float32)
        most, counts, sizes, ids, weight = unpack(message, *kinds)
        starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        factors = weight if weighted else None
        return AskedSums(most.astype(np.int64), counts.astype(np.int64), starts, ids, factors)


@dataclass(frozen=True, slots=True, eq=False)
class SumPlan:
    """What one rank asks for a bulk, and what that costs against rows.

    Attributes:
        place: its block.
        samples: the minibatches.
        groups: of each.
        weights: of the edges of each; None for 1.
        row_bytes: of a row of sums.
    """

    place: int
    samples: Sequence[Sample]
    groups: Sequence[OwnerGroups]
    weights: Sequence[Array | None]
    row_bytes: int

    def needs(self) -> Int:
        """int64 [steps, owners]: groups by owner, 0 for this rank."""
        owners = len(self.groups[0].parts) - 2 if self.groups else 0
        needs = np.array([np.diff(one.parts)[1:] for one in self.groups], np.int64)
        needs = needs.reshape(len(self.groups), owners)
        needs[:, self.place : self.place + 1] = 0
        return needs

    def request(self, owner: int) -> npt.NDArray[np.uint8]:
        """The message to one owner."""
        needs, sizes, ids, factors = self.needs(), [], [], []
        for sample, groups, weight in zip(self.samples, self.groups, self.weights, strict=True):
            edge, starts = groups.edges_of(1 + owner)
            sizes.append(np.diff(starts).astype(np.int32))
            ids.append(sample.node[sample.row[edge]].astype(np.uint32))
            if weight is not None:
                factors.append(weight[edge])
        return pack(
            needs.max(axis=1, initial=0).astype(np.int32),
            needs[:, owner].astype(np.int32),
            np.concatenate([np.empty(0, np.int32), *sizes]),
            np.concatenate([np.empty(0, np.uint32), *ids]),
            np.concatenate([np.empty(0, np.float32), *factors]),
        )

    def request_bytes(self) -> int:
        """Bytes of the requests to all owners."""
        needs = self.needs()
        entry = 8 if any(weight is not None for weight in self.weights) else 4
        total = 0
        for owner in (one for one in range(needs.shape[1]) if one != self.place):
            edges = sum(len(one.edges_of(1 + owner)[0]) for one in self.groups)
            total += _HEADER + 8 * len(self.groups) + 4 * int(needs[:, owner].sum()) + entry * edges
        return total

    def reply_bytes(self) -> int:
        """Bytes of the replies of all owners."""
        return int(self.needs().sum()) * self.row_bytes

    def least_row_bytes(self, low: int, high: int, cached: Array, row_bytes: int) -> int:
        """The fewest bytes that the rows of leaves can take: of each that is not here, once.

        Args:
            low: the first row of the own block.
            high: the row after its last.
            cached: rows that may be in the cache.
            row_bytes: of a row on the wire.
        """
        cut = [num_targets(sample) for sample in self.samples]
        parts = list(zip(self.samples, cut, strict=True))
        leaves = np.unique(np.concatenate([_NONE, *(s.node[t:] for s, t in parts)]))
        leaves = leaves[(leaves < low) | (leaves >= high)]
        here = np.concatenate([_NONE, cached, *(s.node[:t] for s, t in parts)])
        return (row_bytes + 4) * int((~np.isin(leaves, here)).sum())


_NONE = np.empty(0, np.int64)
