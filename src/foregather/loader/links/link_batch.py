"""link_batch: a batch around the ends of links, as plain tensors."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from foregather.loader.batches.batch import Batch
from foregather.loader.links.asked import Asked

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LinkBatch", "with_links"]

_OF_BATCH = tuple(one.name for one in fields(Batch))


@dataclass(frozen=True, slots=True, eq=False)
class LinkBatch(Batch):
    """One minibatch of links: P of them, with Q negatives.

    `input_id` says which links they are, `seed_id` which nodes are seeds, and `batch_size` how
    many; with `disjoint`, `batch` says which of the P links each node belongs to.

    Attributes:
        edge_label_index: int64 [2, P + Q], the links and then the negatives: positions of sources
            and targets in `n_id`; None with triplets.
        edge_label: labels of the links and 0 for negatives; None if there are neither labels nor
            negatives.
        src_index: int64 [P], with triplets: positions of the sources; else None.
        dst_pos_index: int64 [P]: of the targets.
        dst_neg_index: int64 [P], or [P, amount]: of the targets of negatives.
        edge_label_time: int64 [P + Q], if the graph has the times of its links; else None.
        seed_time: int64 [P]: the same with triplets.
    """

    edge_label_index: "Tensor | None" = None
    edge_label: "Tensor | None" = None
    src_index: "Tensor | None" = None
    dst_pos_index: "Tensor | None" = None
    dst_neg_index: "Tensor | None" = None
    edge_label_time: "Tensor | None" = None
    seed_time: "Tensor | None" = None


_OF_LINKS = tuple(one.name for one in fields(LinkBatch) if one.name not in _OF_BATCH)


def with_links(batch: Batch, asked: Asked) -> LinkBatch:
    """Adds positions and labels of its links to a batch."""
    held = {name: getattr(batch, name) for name in _OF_BATCH}
    if batch.batch is not None:
        held["batch"] = asked.links_of(batch.batch)
    told = asked.labels()
    return LinkBatch(**held, **{name: told[name] for name in _OF_LINKS if name in told})
