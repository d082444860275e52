"""negative_sampler: draws the negative links of batches, from the ends that one relation may have.

Every negative is a pure function of (seed, epoch, input row, number); see `Negatives`. Nothing is
drawn twice and rejected: among the nodes early enough, by weight, and without known links, a
number is drawn exactly uniformly and stands for one node.
"""

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.sampling.links.candidates import Candidates
from foregather.sampling.links.known_links import KnownLinks
from foregather.sampling.links.negatives import Negatives

__all__ = ["NegativeSampler"]

Int = npt.NDArray[np.int64]


class NegativeSampler:
    """Draws negatives for one relation; made once for a graph, and then only read.

    In binary mode with `exclude`, a source that is linked to every destination is never drawn.

    Args:
        negatives: what is drawn.
        num_src: nodes of the source type.
        num_dst: nodes of the destination type.
        positives: the known links, for `exclude`: [2, links] (sources, destinations), or something
            with `indptr` and `indices` that holds the sources of each destination (a `Graph`, a
            `Relation`), or both as a pair. Repeats are allowed. All count, at whatever time.
        src_time: one time per source node: only those no later than the time of the positive are
            drawn (in binary mode). None: all.
        dst_time: the same for destinations.
        same_type: both ends are of one type; times that are given for one end are then those of the
            other too.

    Raises:
        InputError: arguments that do not fit each other, or no link that could be drawn.
    """

    def __init__(
        self,
        negatives: Negatives,
        num_src: int,
        num_dst: int,
        *,
        positives: Any = None,
        src_time: Any = None,
        dst_time: Any = None,
        same_type: bool = False,
    ) -> None:
        if same_type:
            if num_src != num_dst:
                raise InputError(
                    f"both ends are of one type, but it has {num_src} nodes as sources and "
                    f"{num_dst} as destinations"
                )
            src_time = dst_time if src_time is None else src_time
            dst_time = src_time if dst_time is None else dst_time
        self.negatives = negatives
        binary = negatives.is_binary
        self.dst = Candidates.of(num_dst, negatives.dst_weight, dst_time, "dst")
        self.src = Candidates.of(num_src, negatives.src_weight, src_time if binary else None, "src")
        self.known: KnownLinks | None = None
        if negatives.exclude is not None:
            if positives is None:
                raise InputError("exclude is 'positives', which needs them; pass positives")
            self.known = KnownLinks.of(positives, num_src, self.dst)
            if binary and self.dst.time is None:
                self.src = self._without_full(self.src, self.known)
        elif positives is not None:
            raise InputError(
                "positives were given, but exclude is None, so they have no effect; make the "
                "negatives with exclude='positives', or leave positives out"
            )

    def _without_full(self, src: Candidates, known: KnownLinks) -> Candidates:
        """Sources but for those that are linked to every destination that may be drawn."""
        whole = self.dst.count if self.dst.upto is None else int(self.dst.upto[-1])
        full = known.units(self.dst) >= whole
        if not full.any():
            return src
        units = np.where(full, 0, src.units)
        if not units.any():
            raise InputError(
                "every source is linked to all destinations, so there are no negatives; use "
                "exclude=None"
            )
        return src.weighed(units)

    def first_without(self, src: Int, times: Int | None) -> int | None:
        """Place of the first positive that has no negative in any epoch; None: there is none.

        In binary mode with times of destinations, a source that is drawn may still be linked to all
        that are early enough.

        Args:
            src: the sources of the positives, all of them nodes.
            times: their times; needed where nodes have times.
        """
        left, known = self.dst.units_until(times), self.known
        if self.negatives.is_binary:
            left = np.minimum(left, self.src.units_until(times))
        elif known is not None:
            left = left - known.units(self.dst)[src]
            if self.dst.time is not None and times is not None:  # those that come later are counted
                for place in np.flatnonzero(left <= 0).tolist():
                    if self._left(int(src[place]), times[place : place + 1]) <= 0:
                        return int(place)
                return None
        none = np.broadcast_to(left <= 0, len(src))
        return int(np.argmax(none)) if none.any() else None

    def _left(self, source: int, time: Int) -> int:
        """Units of destinations early enough to which a source is not known to be linked."""
        known, dst = self.known, self.dst
        assert known is not None and dst.time is not None
        row = known.rank[known.indptr[source] : known.indptr[source + 1]]
        row = row[: np.searchsorted(row, np.searchsorted(dst.time, time[0], side="right"))]
        taken = len(row) if dst.upto is None else (dst.upto[row + 1] - dst.upto[row]).sum()
        return int(dst.units_until(time)[0] - taken)

    def draw(
        self,
        rows: Any,
        *,
        seed: int,
        epoch: int = 0,
        src: Any = None,
        times: Any = None,
        number: int | None = None,
        threads: int = 0,
    ) -> tuple[Int, Int]:
        """Draws the negatives of one batch.

        Args:
            rows: int64 [P], the input row of each positive of the batch, 0 or more.
            seed: seed of the run.
            epoch: number of the epoch.
            src: [P], the sources of the positives; needed in triplet mode, not used in the other.
            times: [P], the times of the positives; needed where nodes have times.
            number: how many; None for `negatives.count(P)`.
            threads: threads to use, 0 for all; the result does not depend on it.

        Returns:
            Sources and destinations, int64 [Q]. Negative q belongs to the positive at place q % P
            and is its number q // P, so in triplet mode `dst.reshape(amount, P).T` has a row per
            positive.

        Raises:
            InputError: arrays that do not fit, or a positive that has no negative (no node is early
                enough, or its source is linked to all); its row is named.
        """
        one = np.asarray(rows)
        count = self.negatives.count(len(one)) if number is None else int(number)
        ptr = np.array([0, len(one)], np.int64)
        return self.draw_bulk(
            one,
            ptr,
            np.array([0, count], np.int64),
            seed=seed,
            epoch=epoch,
            src=src,
            times=times,
            threads=threads,
        )

    def cuts(self, ptr: Int) -> Int:
        """Where the negatives of each batch begin, given where its positives do."""
        counts = [self.negatives.count(int(n)) for n in np.diff(ptr)]
        return np.cumsum([0, *counts], dtype=np.int64)

    def draw_bulk(
        self,
        rows: Any,
        ptr: Int,
        cuts: Int | None = None,
        *,
        seed: int,
        epoch: int = 0,
        src: Any = None,
        times: Any = None,
        threads: int = 0,
    ) -> tuple[Int, Int]:
        """Draws the negatives of several batches at once.

        Args:
            rows: as for `draw`, of all batches, like `src` and `times`.
            ptr: int64: batch b has the positives from ptr[b] to ptr[b + 1].
            cuts: int64: its negatives are those from cuts[b] to cuts[b + 1]; None for `cuts(ptr)`.
            seed: seed of the run.
            epoch: number of the epoch.
            src: see `draw`.
            times: see `draw`.
            threads: threads to use, 0 for all; the result does not depend on it.

        Raises:
            InputError: see `draw`.
        """
        whole = _whole(rows, "rows")
        if whole.min(initial=0) < 0:
            raise InputError(f"rows hold {whole.min()}, expected 0 or more")
        cuts = self.cuts(ptr) if cuts is None else cuts
        ends = self._sources(src, len(whole))
        limits = None
        if times is not None:
            limits = _whole(times, "times", len(whole))
        elif self.src.time is not None or self.dst.time is not None:
            raise InputError("nodes have times, so every positive needs one; pass times")
        source, destination = np.empty((2, int(cuts[-1])), np.int64)
        given = (whole, ends, limits, np.ascontiguousarray(ptr), np.ascontiguousarray(cuts))
        self._kernel.draw(*given, seed, epoch, source, destination, threads)
        return source, destination

    @cached_property
    def _kernel(self) -> _core.NegativeKernel32 | _core.NegativeKernel64:
        """The core's draws from these tables."""
        src, dst, known = self.src, self.dst, self.known
        ends: tuple[Any, Any] = (
            (src.count, src.upto, src.time, src.order),
            (dst.count, dst.upto, dst.time, dst.order),
        )
        if known is None:
            return _core.NegativeKernel32(*ends)
        wide = known.rank.dtype == np.int64
        kind = _core.NegativeKernel64 if wide else _core.NegativeKernel32
        return kind(*ends, (known.indptr, known.rank, known.upto))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_kernel"}

    def _sources(self, given: Any, count: int) -> Int | None:
        if self.negatives.is_binary:
            return None
        if given is None:
            raise InputError("triplets keep the sources of their positives; pass src")
        ends = _whole(given, "src", count)
        wrong = np.flatnonzero((ends < 0) | (ends >= self.src.count))
        if len(wrong):
            raise InputError(
                f"src holds node {ends[wrong[0]]}, but there are {self.src.count} source nodes "
                "(ids are 0 to N-1)"
            )
        return ends


def _whole(given: Any, name: str, count: int | None = None) -> Int:
    array = np.asarray(given)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InputError(
            f"{name} is {array.dtype} of shape {list(array.shape)}, expected whole numbers, one "
            "per positive"
        )
    if count is not None and len(array) != count:
        raise InputError(f"{name} holds {len(array)} numbers, expected {count}, one per positive")
    return np.ascontiguousarray(array, np.int64)
