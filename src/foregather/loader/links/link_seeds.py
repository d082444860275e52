"""link_seeds: decides which links form which batch of which epoch, and what their negatives are.

Links are dealt as input nodes are (`loader.seeds`): by a keyed bijection of positions. The ends of
a batch's links and negatives are its seeds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.loader.links.asked import Asked, LinkRows
from foregather.loader.links.input_links import HasEdges, InputLinks
from foregather.loader.links.placed import Drawn, place, tree_keys
from foregather.loader.near import Near
from foregather.loader.seeds import Seeds

if TYPE_CHECKING:
    from foregather.sampling.links.negative_sampler import NegativeSampler

__all__ = ["LinkSeeds", "LinkTask"]

Ids = npt.NDArray[np.int64]

_TOGETHER = 1_000_000  # links that are looked at at once


@dataclass(frozen=True, slots=True, eq=False)
class LinkTask:
    """What is asked about links.

    Attributes:
        links: the links.
        sampler: draws their negatives; None: there are none.
        one_type: sources and targets are nodes of one type.
        disjoint: every end has its own tree.
        leaves_out: "edges" leaves out the edges that links are, "pairs" all edges between their
            ends; None: nothing is left out.
    """

    links: InputLinks
    sampler: "NegativeSampler | None" = None
    one_type: bool = True
    disjoint: bool = False
    leaves_out: str | None = None

    @property
    def triplet(self) -> bool:
        """Whether negatives are other targets of the same source."""
        return self.sampler is not None and not self.sampler.negatives.is_binary

    @property
    def digest(self) -> str:
        """Identifies the links and the rule of their negatives."""
        rule = "no negatives" if self.sampler is None else repr(self.sampler.negatives)
        left = "nothing" if self.leaves_out is None else f"{self.leaves_out} of links"
        return f"{self.links.count} links {self.links.digest}, {rule}, without {left}"

    @property
    def nbytes(self) -> int:
        """Bytes of the links and of what negatives are drawn from."""
        parts = [getattr(self.sampler, name, None) for name in ("src", "dst", "known")]
        arrays = [value for part in parts if part is not None for value in vars(part).values()]
        return self.links.nbytes + sum(getattr(value, "nbytes", 0) for value in arrays)

    def draw(self, positions: Sequence[Ids], seed: int, epoch: int) -> list[Drawn]:
        """The ends of the links of batches, and of their negatives."""
        flat = np.concatenate(positions)
        ptr = np.cumsum([0, *(part.size for part in positions)], dtype=np.int64)
        src, dst = self.links.ends.at(flat)
        parts = list(pairwise(ptr.tolist()))
        if self.sampler is None:
            return [Drawn(src[a:b], dst[a:b], b - a) for a, b in parts]
        times = None if self.links.time is None else self.links.time[flat]
        given: dict[str, Any] = {"seed": seed, "epoch": epoch, "src": src, "times": times}
        others, drawn = self.sampler.draw_bulk(flat, ptr, **given)
        found = []
        for (a, b), (c, d) in zip(parts, pairwise(self.sampler.cuts(ptr).tolist()), strict=True):
            source = src[a:b] if self.triplet else np.concatenate((src[a:b], others[c:d]))
            found.append(Drawn(source, np.concatenate((dst[a:b], drawn[c:d])), b - a))
        return found

    def check_negatives(self) -> None:
        """Raises InputError if a link has no negative, whatever is drawn; the first is named."""
        if self.sampler is None:
            return
        rule, count = self.sampler.negatives, self.links.count
        for begin in range(0, count, _TOGETHER):
            position = np.arange(begin, min(count, begin + _TOGETHER))
            source = self.links.ends.at(position)[0]
            times = None if self.links.time is None else self.links.time[position]
            place = self.sampler.first_without(source, times)
            if place is None:
                continue
            when = "" if times is None else f" at its time, {times[place]}"
            if rule.is_binary or rule.exclude is None:
                raise InputError(
                    f"link {begin + place} has no negative: there are no nodes to draw from{when}; "
                    "leave such links out"
                )
            raise InputError(
                f"link {begin + place} has no negative: its source, {source[place]}, is linked to "
                f"every destination{when}; leave such links out, or set exclude to none"
            )

    def asked(self, positions: Sequence[Ids], seed: int, epoch: int) -> list[Asked]:
        """The batches of the links at these positions."""
        import torch

        if not positions:
            return []
        drawn = self.draw(positions, seed, epoch)
        placed = place(drawn, self.one_type, self.disjoint)
        label, time = self.links.label, self.links.time
        return [
            Asked(
                input_id=position,
                drawn=ends,
                placed=seeds,
                triplet=self.triplet,
                label=None if label is None else label[torch.from_numpy(position)],
                time=None if time is None else time[position],
                keys=self._keys(position, ends) if self.disjoint else None,
                leaves_out=self.leaves_out,
                edge=self.links.ends.edges(position),
            )
            for position, ends, seeds in zip(positions, drawn, placed, strict=True)
        ]

    def _keys(self, position: Ids, drawn: Drawn) -> tuple[Ids, Ids]:
        most = 0 if self.sampler is None else math.ceil(self.sampler.negatives.amount)
        return tree_keys(position, drawn, most, both=not self.triplet)

    def on(self, graph: HasEdges) -> "LinkTask":
        """The same over the same graph with other arrays in memory."""
        return replaced(self, links=self.links.on(graph))


@dataclass(frozen=True, slots=True, eq=False)
class LinkSeeds(Seeds):
    """Links and the rule that divides them into batches; positions are `input_id`.

    Attributes:
        task: the links, and how they are asked about.
    """

    task: LinkTask = field(kw_only=True)

    @staticmethod
    def of(task: LinkTask, dealt: Seeds) -> "LinkSeeds":
        """Deals links as these seeds are dealt.

        Raises:
            InputError: they are dealt by the places of nodes, which links do not have; or a link
                that has no negative.
        """
        task.check_negatives()
        if isinstance(dealt.shuffle, Near):
            raise InputError(
                "shuffle is Near, which deals nodes by the places of their rows; links are dealt "
                "by chance, use shuffle=True"
            )
        rule = (dealt.batch_size, dealt.shuffle, dealt.drop_last, dealt.seed, dealt.drawn)
        return LinkSeeds(None, task.links.count, True, *rule, task=task)

    @property
    def digest(self) -> str:
        """Identifies the links, their order and the rule of their negatives."""
        if not self._digest:
            self._digest.append(self.task.digest)
        return self._digest[0]

    def batch(self, epoch: int, number: int) -> tuple[Ids, Ids]:
        """Returns the seeds and `input_id` of batch `number` of an epoch, as `LinkRows`.

        Raises:
            InputError: the epoch has no such batch.
        """
        return self.deal(epoch, number, number + 1)[0]

    def deal(self, epoch: int, first: int, last: int) -> list[tuple[Ids, Ids]]:
        """Returns the same of batches `first` to `last` - 1, made together."""
        positions = [self.positions(epoch, number) for number in range(first, last)]
        return [LinkRows(one) for one in self.task.asked(positions, self.seed, epoch)]

    def at(self, position: Ids) -> tuple[Ids, Ids]:
        """Returns sources and positions of links, without negatives."""
        return self.task.links.ends.at(position)[0], position

    def on(self, graph: Any) -> "LinkSeeds":
        """Returns the same over the same graph with other arrays in memory."""
        return replaced(self, task=self.task.on(graph))
