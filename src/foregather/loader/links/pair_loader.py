"""pair_loader: yields the batches of links without neighbours, for models of learned rows.

Order and negatives are those of a `LinkLoader` of the same links, seed and epoch; nothing is
sampled and no feature is gathered.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.loader.epoch_loader import EpochLoader
from foregather.loader.links.input_links import InputLinks, read_ends
from foregather.loader.links.link_seeds import LinkSeeds, LinkTask
from foregather.loader.loop import RankProducer
from foregather.loader.near import Near
from foregather.loader.own_batches import OwnBatches
from foregather.loader.seeds import Seeds
from foregather.sampling.links.negative_sampler import NegativeSampler
from foregather.sampling.links.negatives import Negatives

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["PairBatch", "PairLoader"]


@dataclass
class PairBatch:
    """Links and their negatives, by node ids.

    Attributes:
        input_id: which of the links they are.
        src_index: sources [n], as ids; None where negatives are pairs of their own.
        dst_pos_index: targets [n].
        dst_neg_index: targets of the negatives of each link [n, k].
        edge_label_index: links and then negatives [2, n + m]; None with triplets.
        edge_label: 1 for links, 0 for negatives.
        n_id: None: positions are ids.
        share: over ranks, the weight of this batch's mean loss in its step; 0 for padding.
    """

    input_id: "Tensor"
    src_index: "Tensor | None" = None
    dst_pos_index: "Tensor | None" = None
    dst_neg_index: "Tensor | None" = None
    edge_label_index: "Tensor | None" = None
    edge_label: "Tensor | None" = None
    n_id: None = None
    share: float = 1.0

    def to(self, device: Any, non_blocking: bool = False) -> "PairBatch":
        """The same on a device."""
        held = {one.name: getattr(self, one.name) for one in fields(self)}
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=non_blocking) if hasattr(value, "to") else value
            for name, value in held.items()
        }
        return PairBatch(**moved)


@dataclass(frozen=True, eq=False)
class _Recipe:
    """What batches are made of; there is no sampler."""

    seeds: LinkSeeds
    sampler: None = None

    def batch(self, epoch: int, number: int) -> PairBatch:
        """A batch, as a pure function of epoch and number."""
        import torch

        task, position = self.seeds.task, self.seeds.positions(epoch, number)
        drawn = task.draw([position], self.seeds.seed, epoch)[0]
        head, tail = (
            torch.from_numpy(np.array(drawn.source)),
            torch.from_numpy(np.array(drawn.target)),
        )
        rows, count = torch.from_numpy(position), drawn.count
        if task.triplet:
            others = tail[count:].view(-1, count).T.contiguous()
            return PairBatch(rows, head, tail[:count], others)
        label = torch.ones(len(head))
        label[count:] = 0
        return PairBatch(rows, edge_label_index=torch.stack([head, tail]), edge_label=label)


class _Source(OwnBatches):
    """Makes this rank's batches when they are asked for, in the thread that does."""

    def start(self, recipe: Any, epoch: int, first: int, prefetch: int) -> RankProducer:
        def batches() -> Iterator[PairBatch]:
            for number, share in self.numbers(recipe.seeds, first):
                yield replace(recipe.batch(epoch, number), share=share)

        return RankProducer(batches())  # type: ignore[arg-type]


class PairLoader(EpochLoader):
    """Iterates over minibatches of links as pairs of ids.

    Args:
        edge_label_index: the links: [2, links] sources and targets.
        counts: nodes that sources may be, and that targets may be.
        batch_size: links per batch; negatives come in addition.
        same_type: sources and targets are nodes of one type.
        negatives: as for `LinkLoader`.
        positives: links that are no negatives, where `negatives` excludes them: [2, n].
        shuffle: a new order each epoch.
        seed: of order and negatives.
        device: where batches go.
        rank: number of this rank.
        ranks: how many loop together: each takes one batch of every step, and what is left over is
            marked by `share`, as with `Loader` over ranks.

    Raises:
        InputError: an argument breaks its rule; the message says which.
    """

    def __init__(
        self,
        edge_label_index: Any,
        counts: tuple[int, int],
        batch_size: int = 1,
        *,
        same_type: bool = False,
        negatives: Any = None,
        positives: Any = None,
        shuffle: bool = False,
        seed: int = 0,
        device: "torch.device | str | None" = None,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        rule, sampler = Negatives.make(negatives), None
        if rule is not None:
            if rule.exclude is not None and positives is None:
                raise InputError("negatives exclude positives, but positives= is not given")
            known = None if rule.exclude is None else positives
            sampler = NegativeSampler(rule, *counts, positives=known, same_type=same_type)
        links = InputLinks.make(read_ends(edge_label_index, *counts), None, None)
        task = LinkTask(links, sampler, same_type)
        mixed = shuffle if isinstance(shuffle, Near) else bool(shuffle)  # the former is refused
        dealt = Seeds(None, links.count, True, int(batch_size), mixed, False, int(seed))
        self.device, self.transform, self.prefetch = device, None, 0
        self._maker: Any = _Recipe(LinkSeeds.of(task, dealt))
        self._source, self._bulk, self._turns = _Source(rank, ranks), 1, None
        self._go_to(0, 0)

    @property
    def edge_label_index(self) -> npt.NDArray[np.int64]:
        """The links, int64 [2, links], in the order given."""
        ends = self._maker.seeds.task.links.ends
        return np.stack(ends.at(np.arange(ends.count)))

    def _identity(self) -> dict[str, Any]:
        seeds = self._maker.seeds
        return {
            "links": seeds.digest,
            "batch_size": seeds.batch_size,
            "shuffle": seeds.shuffle,
            "drop_last": seeds.drop_last,
        }

    def counters(self) -> dict[str, Any]:
        """Nothing is read."""
        return {}

    def close(self) -> None:
        """Nothing is held."""
