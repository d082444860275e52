"""model: an encoder and a decoder: the scores of the links and negatives of a batch."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from foregather.errors import InputError
from foregather.loader.links.pair_loader import PairBatch
from foregather.nn.links.decoders import Decoder
from foregather.nn.links.lookup import Lookup

__all__ = ["BatchLinks", "LinkModel", "links_of"]

EdgeType = tuple[str, str, str]


@dataclass(frozen=True)
class BatchLinks:
    """The links of a batch, as positions among its nodes.

    Attributes:
        left: sources [n].
        right: targets [n].
        negative: targets of the negatives of each link [n, k]; None where negatives are pairs of
            their own among the links.
        label: 1 for a link, 0 for a negative [n]; None where all are links.
        row: which input row each link is; negatives of their own have none.
    """

    left: Tensor
    right: Tensor
    negative: Tensor | None
    label: Tensor | None
    row: Tensor | None


def links_of(batch: Any, edge_type: EdgeType | None = None) -> BatchLinks:
    """The links of a batch of a `LinkLoader`, whose fields have PyG's names.

    Args:
        batch: a Data, a HeteroData, or a `PairBatch`.
        edge_type: the relation of the links, in a HeteroData.

    Raises:
        InputError: it holds no links.
    """
    if edge_type is None or isinstance(batch, PairBatch):
        store, sources, targets = batch, batch, batch
    else:
        store, sources, targets = batch[edge_type], batch[edge_type[0]], batch[edge_type[2]]
    row = _field(store, "input_id")
    pairs = _field(store, "edge_label_index")
    if pairs is not None:
        return BatchLinks(pairs[0], pairs[1], None, _field(store, "edge_label"), row)
    left, right = _field(sources, "src_index"), _field(targets, "dst_pos_index")
    if left is None or right is None:
        raise InputError("the batch holds no links; make it with a LinkLoader")
    negative = _field(targets, "dst_neg_index")
    if negative is not None and negative.ndim == 1:
        negative = negative.unsqueeze(1)
    return BatchLinks(left, right, negative, None, row)


def _field(store: Any, name: str) -> Tensor | None:
    found = getattr(store, name, None) if not hasattr(store, "get") else store.get(name)
    return found if isinstance(found, Tensor) else None


class LinkModel(nn.Module):
    """Scores links; called with a batch of a `LinkLoader`.

    Attributes:
        encoder: from a batch to rows of its sources and targets; or learned rows.
        decoder: from pairs of rows to scores.
        edge_type: the relation of links; None in plain batches.

    Args:
        encoder: see the attribute.
        decoder: see the attribute.
        edge_type: see the attribute.
    """

    def __init__(
        self, encoder: nn.Module, decoder: Decoder, edge_type: EdgeType | None = None
    ) -> None:
        super().__init__()
        self.encoder, self.decoder, self.edge_type = encoder, decoder, edge_type

    def forward(
        self, batch: Any, relation: Tensor | None = None
    ) -> tuple[Tensor, Tensor, BatchLinks]:
        """Scores of the links [n], of the negatives of each [n, k] (k may be 0), and the links.

        Args:
            batch: of a `LinkLoader`.
            relation: the relation of each link [n], for decoders that tell them apart.
        """
        links = links_of(batch, self.edge_type)
        right = links.right.unsqueeze(1)
        if links.negative is not None:
            right = torch.cat([right, links.negative], dim=1)
        rows = self.encode(batch, links.left, right)
        named = None if relation is None else relation.unsqueeze(1)
        scores = self.decoder(rows[0].unsqueeze(1), rows[1], named)
        return scores[:, 0], scores[:, 1:], links

    def encode(self, batch: Any, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of sources and targets at these positions of a batch.

        Raises:
            InputError: the encoder gives fewer rows than the batch has seeds.
        """
        if isinstance(self.encoder, Lookup):
            if isinstance(batch, PairBatch):  # positions are ids
                both: tuple[Tensor, Tensor] = self.encoder(left, right)
                return both
            if self.edge_type is None:
                nodes = batch.n_id, batch.n_id
            else:
                nodes = batch[self.edge_type[0]].n_id, batch[self.edge_type[2]].n_id
            found: tuple[Tensor, Tensor] = self.encoder(nodes[0][left], nodes[1][right])
            return found
        sources, targets = self.encoder(batch)
        for rows, place in ((sources, left), (targets, right)):
            if place.numel() and int(place.max()) >= len(rows):
                raise InputError(
                    f"the model gave {len(rows)} rows, but the links of the batch need "
                    f"{int(place.max()) + 1}, expected a row for each node"
                )
        return sources[left], targets[right]
