"""known_links: to which destinations each source is linked, as negatives leave them out.

The r-th destination that is not among d known ones is found without looking at the others: with
the known ones ascending, known[k] - k of those before known[k] are not known, so bisection finds
how many known ones come first. The same holds for units in place of nodes (candidates.py).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.arrays import to_array
from foregather.graph.build import edge_array
from foregather.graph.hetero.layout import endpoints, lay_out, targets_of
from foregather.graph.mapped import fetch
from foregather.sampling.links.candidates import Candidates

__all__ = ["KnownLinks"]

Int = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class KnownLinks:
    """The links that negatives are not.

    Attributes:
        indptr: int64 [sources + 1].
        rank: uint32 or int64 [links], ascending in a row, each once: ranks of the destinations.
        upto: int64 [links]: the units of the destinations of the row before this one; None where
            each destination has one unit.
    """

    indptr: Int
    rank: npt.NDArray[Any]
    upto: Int | None

    @staticmethod
    def of(positives: Any, num_src: int, candidates: Candidates) -> "KnownLinks":
        """Makes them from [2, links], or from rows of sources by destination (CSC).

        Raises:
            InputError: a link whose ends are not nodes, or something else than links.
        """
        pairs = _pairs(positives, candidates.count)
        source, target = endpoints(pairs, num_src, candidates.count)
        rank = candidates.rank
        if rank is not None:
            target = rank.astype(source.dtype)[target]
        indptr, ranks, _ = lay_out(target, source, candidates.count, num_src)
        row = targets_of(indptr, np.dtype(np.int64))
        fresh = np.ones(len(ranks), bool)
        fresh[1:] = (ranks[1:] != ranks[:-1]) | (row[1:] != row[:-1])
        ranks, row = ranks[fresh], row[fresh]
        indptr = np.zeros(num_src + 1, np.int64)
        np.cumsum(np.bincount(row, minlength=num_src), out=indptr[1:])
        upto = None
        if candidates.upto is not None:
            # Sums over all rows may wrap around; differences inside a row are right all the same.
            upto = np.zeros(len(ranks) + 1, np.int64)
            np.cumsum(np.diff(candidates.upto)[ranks], out=upto[1:])
            upto = upto[:-1] - upto[indptr[row]]
        return KnownLinks(indptr, ranks, upto)

    def units(self, candidates: Candidates) -> Int:
        """The units of all known destinations of each source."""
        if self.upto is None:
            return np.diff(self.indptr)
        all_of = np.zeros(len(self.indptr) - 1, np.int64)
        some = np.flatnonzero(np.diff(self.indptr))
        last = self.indptr[some + 1] - 1
        assert candidates.upto is not None
        all_of[some] = self.upto[last] + np.diff(candidates.upto)[self.rank[last]]
        return all_of


def _pairs(positives: Any, num_dst: int) -> npt.NDArray[Any]:
    """Sources and destinations of the links."""
    indptr, indices = getattr(positives, "indptr", None), getattr(positives, "indices", None)
    if isinstance(positives, tuple) and len(positives) == 2 and len(positives[0]) == num_dst + 1:
        indptr, indices = positives
    if indptr is None or indices is None:
        return edge_array(positives)
    rows = fetch(np.asarray(to_array(indptr, "indptr"), np.int64))
    sources = fetch(to_array(indices, "indices"))
    if len(rows) != num_dst + 1 or rows[0] != 0 or rows[-1] != len(sources):
        raise InputError(
            f"positives have {len(rows) - 1} rows and {len(sources)} links, expected a row for "
            f"each of {num_dst} destinations that together hold all links"
        )
    return np.stack([sources.astype(np.int64), targets_of(rows, np.dtype(np.int64))])
