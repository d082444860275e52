"""rate: the metric of a split's links against their candidates, from rows or from scores.

Candidates are given with the links, drawn for each (a pure function of the seed), or all targets.
Filtered: what is known to be linked is no candidate. Recall and NDCG are of sources: which of the
links of a source are among its first k targets.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.sampling.links.negative_sampler import NegativeSampler
from foregather.sampling.links.negatives import Negatives
from foregather.train.links.left_out import (
    LeftOut,
    asked_of_sources,
    candidate_counts,
    count_links,
    count_sources,
)
from foregather.train.links.link_data import LinkData, SplitLinks
from foregather.train.links.link_settings import LinkSettings
from foregather.train.links.lists import ListMeter
from foregather.train.links.pair_scores import PairScorer, check_finite
from foregather.train.metrics.metric import Metric
from foregather.train.ranking import RankMeter, ranks_among, ranks_among_all, ranks_in_pool
from foregather.units import format_number

__all__ = ["Rating", "check_k", "choose_rating", "rate_pairs", "rate_rows"]

Ids = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]

_BINARY = ("roc_auc", "average_precision")
_OF_SOURCES = ("recall", "ndcg")
_ROOM = "256MB"  # for the lists of sources
#: Scores of pairs [n], or of sources with several targets [n, k], by their relations and times.
Score = Callable[[Ids, Ids, Ids | None, Ids | None], Scores]


@dataclass(frozen=True)
class Rating:
    """How the links of a split are compared.

    Attributes:
        metric: the metric.
        kind: what links are compared with: pool (given pairs), given (candidates of each link),
            sampled or all.
        amount: sampled candidates of each link.
        filtered: what is known is no candidate.
        both: sources are ranked too.
        seed: of sampled candidates.
    """

    metric: Metric
    kind: str
    amount: int
    filtered: bool
    both: bool
    seed: int

    @property
    def family(self) -> str:
        """The metric without its number."""
        return self.metric.name.partition("@")[0]

    @property
    def k(self) -> int:
        """The number of the metric; 0 for none."""
        return int(self.metric.name.partition("@")[2] or 0)

    def describe(self) -> str:
        """What links are compared with, for people."""
        kinds = {
            "pool": "given negatives",
            "given": "given candidates",
            "sampled": f"{self.amount} sampled per link",
            "all": "all targets and all sources" if self.both else "all targets",
        }
        known = (
            ", without those known to be linked" if self.filtered and self.kind in _DRAWN else ""
        )
        return kinds[self.kind] + known


_DRAWN = ("sampled", "all")


def choose_rating(
    metric: Metric, wanted: LinkSettings, links: SplitLinks, seed: int, timed: bool
) -> Rating:
    """What the links of a split are compared with.

    Args:
        metric: the metric.
        wanted: of the settings.
        links: of the split.
        seed: of the run.
        timed: every link has its own view of the graph, so rows cannot be shared.

    Raises:
        InputError: the metric cannot be had from these candidates.
    """
    family = metric.name.partition("@")[0]
    given = "pool" if links.pool is not None else "given" if links.candidates is not None else ""
    kind: str = wanted.candidates
    if kind == "auto":
        usual = "sampled" if family in _BINARY or timed else "all"
        fits = given == "given" if timed else bool(given)
        kind = given if fits and family not in _OF_SOURCES else usual
    elif kind == "given":
        if not given:
            raise InputError(
                "link.candidates is 'given', but the links have neither negatives nor candidates; "
                "use sampled or all, or make the links with some"
            )
        kind = given
    if timed and (kind not in ("sampled", "given") or family in _OF_SOURCES):
        raise InputError(
            f"link.candidates is {wanted.candidates!r} and train.metric {metric.name!r}, but with "
            "typed.time every link has its own view of the graph, so only sampled candidates, or "
            "those given for each link, can be scored; use sampled with mrr, hits@k, roc_auc or "
            "average_precision"
        )
    if family in _OF_SOURCES and kind != "all":
        raise InputError(
            f"train.metric is {metric.name!r}, which looks at the first targets of a source among "
            f"all, but link.candidates is {wanted.candidates!r}; use all, or mrr or hits@k"
        )
    if family in _BINARY and kind == "all":
        raise InputError(
            f"train.metric is {metric.name!r}, which compares links with negatives, but "
            "link.candidates is 'all'; use sampled or given, or mrr or hits@k"
        )
    if family == "hits" and kind == "sampled":
        k = int(metric.name.partition("@")[2])
        if k > wanted.sampled:
            raise InputError(
                f"train.metric is {metric.name!r}, but each link has {wanted.sampled} sampled "
                "candidates, so every answer would be a hit; raise link.sampled"
            )
    both = wanted.both_ends and kind == "all"
    return Rating(metric, kind, wanted.sampled, wanted.filtered, both, seed)


def check_k(data: LinkData, role: str, rating: Rating) -> LeftOut | None:
    """Refuses, before training, a metric at k for which a split has too few candidates.

    Returns:
        The links, or sources, that are left out since they have no candidate; None if all have.

    Raises:
        InputError: every answer would be a hit, a source has fewer targets, a link has no
            candidate that could be drawn, or none has any.
    """
    if rating.family in _OF_SOURCES:
        _check_lists(data, rating)
        return count_sources(data, role, rating.filtered)
    found = None
    if rating.kind == "all":
        found = count_links(data, role, rating.filtered, rating.both)
    if rating.family == "hits" and rating.k > (least := _fewest(data, role, rating)):
        raise InputError(
            f"train.metric is {rating.metric.name!r}, but a link of train.{role} has only "
            f"{format_number(least, 'candidate')}, so every answer would be a hit; choose a "
            "smaller k"
        )
    if rating.kind == "sampled":
        source = data.splits[role].index[0]
        if (place := _candidates(data, rating).first_without(source, None)) is not None:
            raise InputError(
                f"link {place} of train.{role} has no candidate: its source, {source[place]}, is "
                "linked to every target; leave such links out, or set link.filtered to false"
            )
    return found


def _check_lists(data: LinkData, rating: Rating) -> None:
    """Refuses lists of the best targets that cannot be made."""
    asked = f"train.metric is {rating.metric.name!r}"
    if data.several:
        raise InputError(f"{asked}, which is for links of one relation; use mrr or hits@k")
    if rating.k > data.counts[1]:
        raise InputError(
            f"{asked}, but there are only {data.counts[1]} targets; choose a smaller k"
        )


def _fewest(data: LinkData, role: str, rating: Rating) -> int:
    """Candidates of the link of a split that has fewest, the link itself included.

    Among all targets, links without another candidate do not count.
    """
    links = data.splits[role]
    if rating.kind != "all":
        drawn = {"pool": links.pool, "given": links.candidates}.get(rating.kind)
        return 1 + (rating.amount if drawn is None else drawn.shape[1])
    turns = (False, True) if rating.both else (False,)
    counts = [candidate_counts(data, role, rating.filtered, one) for one in turns]
    return min(int(one[one > 1].min()) for one in counts if (one > 1).any())


def rate_rows(rows: PairScorer, data: LinkData, role: str, rating: Rating) -> float:
    """The metric of a split, from the rows of all nodes.

    Args:
        rows: of sources and targets.
        data: the links, and what is known.
        role: of the split.
        rating: what is compared.

    Raises:
        NumericError: scores that are NaN or infinite.
    """
    links = data.splits[role]
    if rating.family in _OF_SOURCES:
        return _of_sources(rows, data, role, rating)
    if rating.kind == "all":
        meter = RankMeter("mean")
        _rank_all(meter, rows, data, links, rating, False)
        if rating.both:
            _rank_all(meter, rows.turned(), data, links.turned(), rating, True)
        return _value(meter, rating)
    return rate_pairs(rows.pairs, data, role, rating)


def rate_pairs(score: Score, data: LinkData, role: str, rating: Rating) -> float:
    """The metric of a split against given or drawn negatives; arguments as of `rate_rows`."""
    links = data.splits[role]
    positive = score(links.index[0], links.index[1], links.relation, links.time)
    if rating.kind == "pool":
        assert links.pool is not None
        negative = score(links.pool[0], links.pool[1], None, None)
    else:
        others = links.candidates if rating.kind == "given" else draw(data, links, rating)
        assert others is not None
        negative = score(links.index[0], others, links.relation, links.time)
    check_finite(positive, "links")
    check_finite(negative, "negatives")
    if rating.family in _BINARY:
        labels = np.zeros(positive.size + negative.size, np.int64)
        labels[: positive.size] = 1
        return rating.metric.of(np.concatenate([positive, negative.reshape(-1)]), labels)
    meter = RankMeter("pessimistic" if negative.ndim == 1 else "mean")  # a pool is OGB's
    meter.add(
        ranks_in_pool(positive, negative) if negative.ndim == 1 else ranks_among(positive, negative)
    )
    return _value(meter, rating)


def _value(meter: RankMeter, rating: Rating) -> float:
    return meter.mrr() if rating.family == "mrr" else meter.hits_at(rating.k)


def draw(data: LinkData, links: SplitLinks, rating: Rating) -> Ids:
    """Candidates of each link [n, k], the same whenever they are drawn."""
    position, sampler = np.arange(len(links)), _candidates(data, rating)
    _, drawn = sampler.draw(position, seed=rating.seed, epoch=0, src=links.index[0])
    return np.ascontiguousarray(np.asarray(drawn, np.int64).reshape(-1, len(links)).T)


def _candidates(data: LinkData, rating: Rating) -> NegativeSampler:
    """Draws targets that a source of links could be linked to."""
    rule = Negatives("triplet", rating.amount, exclude="positives" if rating.filtered else None)
    known: Any = None
    if rating.filtered:
        parts = [one.index for one in data.splits.values()]
        known = np.concatenate([data.every_edge(), *parts], axis=1)
    return NegativeSampler(rule, *data.counts, positives=known, same_type=data.same)


def _rank_all(
    meter: RankMeter,
    rows: PairScorer,
    data: LinkData,
    links: SplitLinks,
    rating: Rating,
    turned: bool,
) -> None:
    known = data.known(turned) if rating.filtered else None
    sources, targets = links.index
    keys = data.key(sources, links.relation)
    for part, scores in rows.against_all(sources, links.relation):
        meter.add(ranks_among_all(scores, targets[part], keys[part], known))


def _of_sources(rows: PairScorer, data: LinkData, role: str, rating: Rating) -> float:
    """Recall or NDCG at k: the mean over sources whose list could hold something wrong."""
    _check_lists(data, rating)
    wanted, exclude, sources = asked_of_sources(data, role, rating.filtered)
    meter = ListMeter(wanted, rating.k)
    for part in rows.best(rating.k, sources=sources, exclude=exclude, memory=_ROOM):
        meter.add(part.sources, part.targets)
    return meter.value(rating.family)
