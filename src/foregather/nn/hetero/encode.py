"""encode: from the arrays of a node type to rows of one width, which layers start from.

Numbers are standardised (mean 0, variance 1 over the type's nodes when the model was made) and go
through a linear layer; NaN becomes the mean, with an indicator column that says so. Categories have
a learned row for each, and one for "missing". Both are summed. A type without arrays has a learned
row for each node. Nothing is left out.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from foregather.nn.hetero.schema import Schema, TypeSchema

__all__ = ["TypeEncoder", "encode_batch", "make_encoders"]

_WAVES = 6  # periods of relative time: the whole span and its halves


class TypeEncoder(nn.Module):
    """Makes the first rows of one node type.

    Attributes:
        schema: what is known about the type.
        span: see `Schema`.

    Args:
        schema: the type.
        hidden: columns of the rows.
        span: see `Schema`; 0 for none.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, schema: TypeSchema, hidden: int, span: int = 0) -> None:
        super().__init__()
        self.schema, self.span = schema, span if schema.timed else 0
        numbers = [one for one in schema.arrays if one.width]
        width = sum(one.width for one in numbers)
        self.register_buffer("mean", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(width, dtype=torch.float64))
        total = width + sum(one.width for one in numbers if one.missing)
        total += 1 + 2 * _WAVES if self.span else 0
        self.linear = nn.Linear(total, hidden) if total else None
        kinds = [one for one in schema.arrays if one.categories]
        self.categories = nn.ModuleList(nn.Embedding(1 + one.categories, hidden) for one in kinds)
        for table in self.categories:
            nn.init.normal_(table.weight, std=1 / math.sqrt(hidden))  # type: ignore[arg-type]
        self.learned: nn.Embedding | None = None
        if schema.learned:
            self.learned = nn.Embedding(schema.num_nodes, hidden)
            nn.init.normal_(self.learned.weight, std=1 / math.sqrt(hidden))

    def set_numbers(self, mean: Tensor, scale: Tensor) -> None:
        """Sets how numbers are standardised: (number - mean) * scale."""
        self.mean.copy_(mean)
        self.scale.copy_(scale)

    def forward(self, store: Mapping[str, Any], count: int, since: Tensor | None = None) -> Tensor:
        """Rows of the first nodes of a type in a batch.

        Args:
            store: arrays by name, and `n_id` for a type with learned rows.
            count: how many nodes.
            since: how long before its tree's time each node came to be; where times are encoded.
        """
        made: Tensor | None = None
        if self.linear is not None:
            made = self.linear(self._numbers(store, count, since))
        kinds = (one for one in self.schema.arrays if one.categories)
        for array, table in zip(kinds, self.categories, strict=True):
            rows = table(store[array.name][:count].reshape(-1).long() + 1)
            made = rows if made is None else made + rows
        if self.learned is not None:
            rows = self.learned(store["n_id"][:count])
            made = rows if made is None else made + rows
        assert made is not None
        return made

    def _numbers(self, store: Mapping[str, Any], count: int, since: Tensor | None) -> Tensor:
        assert self.linear is not None
        parts, absent = [], []
        for array in self.schema.arrays:
            if array.width:
                rows = store[array.name][:count].reshape(count, array.width).to(torch.float64)
                parts.append(rows)
                if array.missing:
                    absent.append(rows.isnan())
        columns = []
        if parts:
            rows = (torch.cat(parts, dim=1) - self.mean) * self.scale
            columns.append(rows.nan_to_num(nan=0.0) if absent else rows)
        columns += absent
        if self.span:
            assert since is not None
            columns.append(_waves(since[:count].to(torch.float64), self.span))
        return torch.cat([one.to(self.linear.weight.dtype) for one in columns], dim=1)


def _waves(since: Tensor, span: int) -> Tensor:
    """Columns that tell how long ago something was: its logarithm, and waves of several periods."""
    far = since.abs().log1p() * since.sign() / math.log1p(span)
    turns = since[:, None] / span * 2.0 ** torch.arange(_WAVES, device=since.device)
    angle = 2 * math.pi * turns
    return torch.cat([far[:, None], angle.sin(), angle.cos()], dim=1)


def make_encoders(schema: Schema, hidden: int) -> nn.ModuleList:
    """An encoder for each node type, by number."""
    return nn.ModuleList(TypeEncoder(one, hidden, schema.span) for one in schema.nodes)


def encode_batch(
    encoders: nn.ModuleList, schema: Schema, batch: Any, counts: list[int]
) -> list[Tensor]:
    """First rows of all types in a batch, by number.

    Args:
        encoders: of `make_encoders`.
        schema: the types.
        batch: a `HeteroData`.
        counts: nodes of each type that are needed.
    """
    made = []
    for encoder, one, count in zip(encoders, schema.nodes, counts, strict=True):
        store, since = batch[one.name], None
        if schema.span and one.timed:
            since = batch[schema.target].seed_time[store.batch] - store.time
        made.append(encoder(store, count, since))
    return made
