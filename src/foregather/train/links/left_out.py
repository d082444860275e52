"""left_out: links without a candidate besides themselves, whose rank says nothing.

Where what is known is no candidate, a source that is linked to every target has none left: its link
is first whatever the model says. Such links are left out of ranks, and counted.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.links.known import KnownLinks
from foregather.train.links.link_data import LinkData

__all__ = ["LeftOut", "asked_of_sources", "candidate_counts", "count_links", "count_sources"]

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LeftOut:
    """How many of a split are left out.

    Attributes:
        count: are left out.
        total: there are.
        told: both in words.
    """

    count: int
    total: int
    told: str

    def facts(self) -> dict[str, Any]:
        """For the summary."""
        return {"count": self.count, "of": self.total, "told": self.told}


def candidate_counts(data: LinkData, role: str, filtered: bool, turned: bool = False) -> Ids:
    """Candidates of each link of a split among all targets, the link itself included.

    Args:
        data: the links, and what is known.
        role: of the split.
        filtered: what is known is no candidate.
        turned: among all sources instead.
    """
    links, total = data.splits[role], data.counts[0 if turned else 1]
    if not filtered:
        return np.full(len(links), total, np.int64)
    one = links.turned() if turned else links
    # links of the split are known too, so that each is counted once
    known = data.known(turned).counts[data.key(one.index[0], one.relation)]
    return np.asarray(total + 1 - known, np.int64)


def count_links(data: LinkData, role: str, filtered: bool, both: bool) -> LeftOut | None:
    """Links of a split that cannot be ranked among all; None if every one can.

    Args:
        data: the links, and what is known.
        role: of the split.
        filtered: what is known is no candidate.
        both: sources are ranked too, so each link is counted twice.

    Raises:
        InputError: none can.
    """
    turns = (False, True) if both else (False,)
    alone = sum(int((candidate_counts(data, role, filtered, one) == 1).sum()) for one in turns)
    what = "ranks of links, which are ranked at both ends," if both else "links"
    own = "have no candidate and are left out"
    return _told(alone, len(data.splits[role]) * len(turns), what, own, role, filtered)


def count_sources(data: LinkData, role: str, filtered: bool) -> LeftOut | None:
    """Sources of a split whose every candidate is right; None if there are no such.

    Raises:
        InputError: all are.
    """
    wanted, _, sources = asked_of_sources(data, role, filtered)
    total = int(np.count_nonzero(wanted.counts))
    own = "have no candidate besides their own links and are left out"
    return _told(total - len(sources), total, "sources", own, role, filtered)


def _told(count: int, total: int, what: str, own: str, role: str, filtered: bool) -> LeftOut | None:
    if count == total:
        why = "its source is linked to every target" if filtered else "there is only one target"
        do = ", or set link.filtered to false" if filtered else ""
        raise InputError(
            f"no link of train.{role} has a candidate to be compared with: {why}; name "
            f"another split{do}"
        )
    return LeftOut(count, total, f"{count:,} of {total:,} {what} {own}") if count else None


def asked_of_sources(
    data: LinkData, role: str, filtered: bool
) -> tuple[KnownLinks, KnownLinks | None, Ids]:
    """What lists of the best targets are made for.

    Returns:
        The links that lists should contain, those that they leave out, and the sources that have a
        candidate besides their own links.
    """
    wanted, exclude = KnownLinks.of([data.splits[role].index], *data.counts), None
    free = data.counts[1] - wanted.counts
    if filtered:  # links of the split are answers, though they may be known
        known = data.known(roles=tuple(name for name in data.splits if name != role))
        at, targets = known.of_sources(np.arange(data.counts[0]))
        others = ~wanted.holds(at, targets)
        exclude = KnownLinks.of([np.stack([at[others], targets[others]])], *data.counts)
        free = free - exclude.counts
    return wanted, exclude, np.flatnonzero((wanted.counts > 0) & (free > 0))
