"""ranking: where the right answer stands among its candidates, and the metrics made of that.

A rank is counted, not sorted: how many candidates score higher than the link that is asked for, and
how many score the same. Three ways to choose candidates: all targets but those known to be right
(filtered), candidates of each link, or one pool of negatives for all.

**Ties.** Candidates with the same score as the link asked for are counted as half above it ("mean",
the default, which is OGB's MRR), all below ("optimistic") or all above ("pessimistic").
`ogb_hits_at` is OGB's own Hits@k: strictly higher than the k-th best negative.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from foregather.errors import InputError, NumericError
from foregather.graph.links.known import KnownLinks
from foregather.units import format_number

__all__ = [
    "RankMeter",
    "Ranks",
    "Ties",
    "ogb_hits_at",
    "ranks_among",
    "ranks_among_all",
    "ranks_in_pool",
]

Int = npt.NDArray[np.int64]
Ties = Literal["mean", "optimistic", "pessimistic"]


@dataclass(frozen=True, slots=True)
class Ranks:
    """What is known of each link's rank.

    Attributes:
        above: int64 [links]: candidates that score higher.
        equal: int64 [links]: other candidates that score the same.
        candidates: int64 [links]: all of its candidates, the link asked for included.
    """

    above: Int
    equal: Int
    candidates: Int

    def ranks(self, ties: Ties = "mean") -> npt.NDArray[np.float64]:
        """Ranks from 1 on; with "mean" they may be halves."""
        return self.doubled(ties) / 2

    def doubled(self, ties: Ties = "mean") -> Int:
        """Twice the ranks, which are whole numbers."""
        if ties not in ("mean", "optimistic", "pessimistic"):
            raise InputError(f"ties is {ties!r:.40}, expected mean, optimistic or pessimistic")
        share = {"mean": 1, "optimistic": 0, "pessimistic": 2}[ties]
        return 2 + 2 * self.above + share * self.equal


def ranks_among_all(
    scores: Any, targets: Any, sources: Any = None, known: KnownLinks | None = None
) -> Ranks:
    """Ranks among all targets, those of the source that are known left out.

    Args:
        scores: [links, targets]; row i are the scores of every target for link i.
        targets: [links] the targets asked for, which are candidates though they are known.
        sources: [links] the sources, as `known` numbers them; needed with it.
        known: links of any split that are no mistakes.

    Raises:
        InputError: shapes do not fit, or a target has no score.
        NumericError: a score is NaN.
    """
    table, asked = _table(scores, "scores"), _ids(targets, "targets")
    links, count = table.shape
    if len(asked) != links or (links and (int(asked.min()) < 0 or int(asked.max()) >= count)):
        raise InputError(
            f"scores have shape {[links, count]}, expected a row for each of {len(asked)} links "
            "and a column for each target"
        )
    at = torch.from_numpy(asked).to(table.device)
    right = table.gather(1, at[:, None])
    above, equal = _compare(table, right)
    equal -= 1  # itself
    total = np.full(links, count, np.int64)
    if known is not None:
        if sources is None:
            raise InputError("known links are given without the sources of the links; give both")
        if known.num_targets != count:
            raise InputError(
                f"the known links have {known.num_targets} targets, but there are {count} scores a "
                "link"
            )
        rows, others = known.of_sources(_ids(sources, "sources"))
        kept = others != asked[rows]
        rows, others = rows[kept], others[kept]
        row, other = (torch.from_numpy(one).to(table.device) for one in (rows, others))
        taken, mine = table[row, other], right[row, 0]
        above -= np.bincount(rows[(taken > mine).cpu().numpy()], minlength=links)
        equal -= np.bincount(rows[(taken == mine).cpu().numpy()], minlength=links)
        total -= np.bincount(rows, minlength=links)
    return Ranks(above, equal, total)


def ranks_among(positive: Any, negative: Any) -> Ranks:
    """Ranks of links among candidates of their own.

    Args:
        positive: [links] scores of the links.
        negative: [links, n] scores of the candidates that are not asked for.

    Raises:
        InputError: shapes do not fit.
        NumericError: a score is NaN.
    """
    right, others = _row(positive, "positive"), _table(negative, "negative")
    if len(others) != len(right):
        raise InputError(
            f"negative scores have {len(others)} rows, expected one for each of {len(right)} links"
        )
    above, equal = _compare(others, right.to(others.device)[:, None])
    return Ranks(above, equal, np.full(len(right), others.shape[1] + 1, np.int64))


def ranks_in_pool(positive: Any, pool: Any) -> Ranks:
    """Ranks of links among the same negatives for all.

    Args:
        positive: [links] scores of the links.
        pool: [n] scores of the negatives.

    Raises:
        InputError: shapes do not fit.
        NumericError: a score is NaN.
    """
    right, others = (_row(one, name) for one, name in ((positive, "positive"), (pool, "pool")))
    wide = torch.promote_types(right.dtype, others.dtype)  # rounding would make ties
    others, right = others.to(right.device, wide).sort().values, right.to(wide)
    below = torch.searchsorted(others, right).cpu().numpy().astype(np.int64)
    upto = torch.searchsorted(others, right, right=True).cpu().numpy().astype(np.int64)
    count = len(others)
    return Ranks(count - upto, upto - below, np.full(len(right), count + 1, np.int64))


def ogb_hits_at(positive: Any, pool: Any, k: int) -> float:
    """Hits@k as OGB counts it: the share of links that score higher than the k-th best negative.

    A link that ties with it is no hit, so this is `RankMeter("pessimistic").hits_at(k)` of
    `ranks_in_pool`.

    Raises:
        InputError: there are no links, or fewer than `k` negatives.
        NumericError: a score is NaN.
    """
    right, others = (_row(one, name) for one, name in ((positive, "positive"), (pool, "pool")))
    _check_k(k, len(others), "negative")
    if not len(right):
        raise InputError("there are no links to rank; the split is empty")
    least = torch.topk(others, k).values[-1].to(right.device)
    return int((right > least).sum()) / len(right)


class RankMeter:
    """Adds up ranks over batches, exactly: results do not depend on the division into batches.

    A link without any candidate besides itself can only be first, which says nothing, so it is left
    out of every result and counted in `left_out`.

    Ranks are counted, and sums are taken over the counts, so two meters of the same links agree to
    the bit whatever the order.

    Args:
        ties: what candidates with the score of the link asked for count as.
    """

    def __init__(self, ties: Ties = "mean") -> None:
        self.ties: Ties = ties
        self._counts: dict[int, int] = {}  # by twice the rank
        self._least: int | None = None  # candidates of the link that has fewest
        self.left_out = 0

    @property
    def links(self) -> int:
        """Links that were added and have a rank."""
        return sum(self._counts.values())

    def add(self, ranks: Ranks) -> None:
        """Adds the links of a batch."""
        rivals = ranks.candidates > 1
        values, times = np.unique(ranks.doubled(self.ties)[rivals], return_counts=True)
        for value, count in zip(values.tolist(), times.tolist(), strict=True):
            self._counts[value] = self._counts.get(value, 0) + count
        self.left_out += int(rivals.size - np.count_nonzero(rivals))
        if rivals.any():
            self._narrow(int(ranks.candidates[rivals].min()))

    def _narrow(self, least: int | None) -> None:
        known = [one for one in (self._least, least) if one is not None]
        self._least = min(known, default=None)

    def state(self) -> dict[str, Any]:
        """What a rank sends to the others; `merge` takes it."""
        return {
            "ties": self.ties,
            "counts": sorted(self._counts.items()),
            "least": self._least,
            "left_out": self.left_out,
        }

    def merge(self, state: dict[str, Any]) -> None:
        """Adds what another meter counted.

        Raises:
            InputError: it counts ties in another way.
        """
        if state["ties"] != self.ties:
            raise InputError(
                f"ranks with ties {state['ties']!r:.40} cannot be added to ranks with "
                f"{self.ties!r}; use one rule"
            )
        for value, count in state["counts"]:
            self._counts[value] = self._counts.get(value, 0) + count
        self._narrow(state["least"])
        self.left_out += state["left_out"]

    def mrr(self) -> float:
        """Mean of 1 / rank.

        Raises:
            InputError: no link was added that has candidates.
        """
        total = self._total()
        return math.fsum(2 * n / rank for rank, n in sorted(self._counts.items())) / total

    def mean_rank(self) -> float:
        """Mean of the ranks.

        Raises:
            InputError: no link was added that has candidates.
        """
        total = self._total()
        return sum(rank * n for rank, n in self._counts.items()) / (2 * total)

    def hits_at(self, k: int) -> float:
        """Share of links whose rank is at most k.

        Raises:
            InputError: no link was added that has candidates, or one has fewer than `k`.
        """
        total = self._total()
        assert self._least is not None
        _check_k(k, self._least, "candidate")
        return sum(n for rank, n in self._counts.items() if rank <= 2 * k) / total

    def _total(self) -> int:
        if self.left_out and not self._counts:
            raise InputError(
                f"no link can be ranked: {format_number(self.left_out, 'link')} added, and "
                "none has a candidate besides itself; give candidates, or leave out fewer"
            )
        if not self._counts:
            raise InputError("there are no links to rank; the split is empty")
        return self.links


def _check_k(k: int, most: int, what: str) -> None:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(f"k is {k!r:.40}, expected a whole number from 1 on")
    if k > most:
        raise InputError(
            f"k is {k}, of only {format_number(most, what)}, so every answer would "
            "be a hit; choose a smaller k"
        )


def _compare(table: Tensor, right: Tensor) -> tuple[Int, Int]:
    above = (table > right).sum(1).cpu().numpy().astype(np.int64)
    return above, (table == right).sum(1).cpu().numpy().astype(np.int64)


def _ids(value: Any, name: str) -> Int:
    ids = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise InputError(f"{name} are {ids.dtype} of shape {list(ids.shape)}, expected [links] ids")
    return ids.astype(np.int64)


def _table(value: Any, name: str) -> Tensor:
    return _scores(value, name, 2, "[links, candidates]")


def _row(value: Any, name: str) -> Tensor:
    return _scores(value, name, 1, "[links]")


def _scores(value: Any, name: str, dimensions: int, expected: str) -> Tensor:
    scores = (value.detach() if isinstance(value, Tensor) else torch.as_tensor(value)).contiguous()
    if scores.ndim != dimensions:
        raise InputError(f"{name} scores have shape {list(scores.shape)}, expected {expected}")
    if bool(torch.isnan(scores).any()):
        raise NumericError(
            f"{name} scores hold NaN, which has no rank; the model has diverged or divides by zero"
        )
    return scores
