"""link_seeds: decides which links form which batch of which epoch, and what their negatives are.

Links are dealt as input nodes are (`loader.seeds`): by a keyed bijection of positions. The ends of
a batch's links and negatives are its seeds.
"""

import math
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foregather.loader.links.asked import Asked, LinkRows
from foregather.loader.links.input_links import HasEdges, InputLinks
from foregather.loader.links.placed import Drawn, place, tree_keys
from foregather.loader.seeds import Seeds

if TYPE_CHECKING:
    from foregather.sampling.links.negative_sampler import NegativeSampler

__all__ = ["LinkSeeds", "LinkTask"]

Ids = npt.NDArray[np.int64]


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

    def draw(self, position: Ids, seed: int, epoch: int) -> Drawn:
        """The ends of the links at these positions, and of their negatives."""
        src, dst = self.links.ends.at(position)
        if self.sampler is None:
            return Drawn(src, dst, src.size)
        times = None if self.links.time is None else self.links.time[position]
        others, drawn = self.sampler.draw(position, seed=seed, epoch=epoch, src=src, times=times)
        source = src if self.triplet else np.concatenate((src, others))
        return Drawn(source, np.concatenate((dst, drawn)), src.size)

    def asked(self, position: Ids, seed: int, epoch: int) -> Asked:
        """The batch of the links at these positions."""
        import torch

        drawn = self.draw(position, seed, epoch)
        label, time = self.links.label, self.links.time
        return Asked(
            input_id=position,
            drawn=drawn,
            placed=place(drawn, self.one_type, self.disjoint),
            triplet=self.triplet,
            label=None if label is None else label[torch.from_numpy(position)],
            time=None if time is None else time[position],
            keys=self._keys(position, drawn) if self.disjoint else None,
            leaves_out=self.leaves_out,
            edge=self.links.ends.edges(position),
        )

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
        """Deals links as these seeds are dealt."""
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
        return self.rows(self.positions(epoch, number), epoch)

    def rows(self, position: Ids, epoch: int) -> LinkRows:
        """Returns the links at these positions, with the negatives that they have in an epoch."""
        return LinkRows(self.task.asked(position, self.seed, epoch))

    def at(self, position: Ids) -> tuple[Ids, Ids]:
        """Returns sources and positions of links, without negatives."""
        return self.task.links.ends.at(position)[0], position

    def on(self, graph: Any) -> "LinkSeeds":
        """Returns the same over the same graph with other arrays in memory."""
        return replaced(self, task=self.task.on(graph))
