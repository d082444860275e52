"""encoders: rows of nodes from sampled neighbours, for decoders to compare.

Any node model is an encoder: its scores are the rows. A plain graph without features has a learned
row for each node, which the model starts from; such a model is transductive.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from foregather.errors import InputError
from foregather.nn.arguments import call_arguments
from foregather.nn.hetero.hops import Hops
from foregather.nn.hetero.model import TypedModel
from foregather.nn.hetero.schema import Schema

__all__ = ["OwnTypedEncoder", "PlainEncoder", "TypedEncoder"]


class PlainEncoder(nn.Module):
    """Rows of the nodes of a plain batch, by any node model.

    Attributes:
        model: called with `x, edge_index` and what else it names.
        learned: the first row of each node, where the graph has no features.

    Args:
        model: see the attribute.
        learned: number of nodes that get learned rows; 0 for none.
        width: columns of learned rows.
    """

    def __init__(self, model: nn.Module, learned: int = 0, width: int = 0) -> None:
        super().__init__()
        self.model = model
        self.learned: nn.Embedding | None = None
        if learned:
            self.learned = nn.Embedding(learned, width)
            nn.init.normal_(self.learned.weight, std=1 / math.sqrt(width))

    def forward(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Rows of the first nodes of a batch, the seeds among them; twice, for both ends.

        Raises:
            InputError: the model gives something else.
        """
        if self.learned is not None:
            rows = self.learned(batch.n_id)
            if is_dataclass(batch):
                batch = replace(batch, x=rows)  # type: ignore[type-var]
            else:
                batch = copy.copy(batch)
                batch.x = rows
        given, named = call_arguments(self.model, batch, torch.float32)
        rows = check_rows(self.model, self.model(*given, **named))
        return rows, rows


class TypedEncoder(TypedModel):
    """A model by name that gives rows of the two types that links connect.

    Attributes:
        source: the number of the source type; the target type is that of the schema.
        source_head: from rows to those that decoders compare, for the source type where it is
            another than the target type.

    Args:
        schema: its target is the target type of links, and its classes the columns of rows.
        layers: see `TypedModel`.
        hidden: see `TypedModel`.
        dropout: see `TypedModel`.
        source: the source type of links.
    """

    def __init__(
        self,
        schema: Schema,
        layers: Sequence[nn.Module],
        hidden: int,
        dropout: float,
        source: str,
    ) -> None:
        super().__init__(schema, layers, hidden, dropout)
        self.source = schema.node_types.index(source)
        same = self.source == schema.place
        self.source_head = None if same else nn.Linear(hidden, schema.classes)

    def forward(self, batch: Any) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Rows of the first sources and targets of a batch, the seeds among them."""
        rows = self.rows(batch, Hops.of(batch, self.schema))
        return self.give(self.source, rows), self.give(self.schema.place, rows)

    def give(self, kind: int, rows: Sequence[Tensor]) -> Tensor:
        """What decoders compare, of the nodes of one of the two types."""
        if kind == self.schema.place:
            return self.scores(rows[kind])
        assert self.source_head is not None
        dropped = functional.dropout(rows[kind], self.dropout, self.training)
        found: Tensor = self.source_head(dropped)
        return found


class OwnTypedEncoder(nn.Module):
    """A model of the user for typed graphs, which gives a dict of rows.

    Attributes:
        model: called as in node classification.
        ends: the source type and the target type of links.
    """

    def __init__(self, model: nn.Module, ends: tuple[str, str]) -> None:
        super().__init__()
        self.model, self.ends = model, ends

    def forward(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Rows of the sources and targets of a batch.

        Raises:
            InputError: the model gives no rows of one of the types.
        """
        given, named = call_arguments(self.model, batch, torch.float32)
        found = self.model(*given, **named)
        if not isinstance(found, dict) or not set(self.ends) <= set(found):
            what = ", ".join(map(repr, found)) if isinstance(found, dict) else type(found).__name__
            raise InputError(
                f"{type(self.model).__name__} gives {what}, expected a dict with rows of the node "
                f"types {self.ends[0]!r} and {self.ends[1]!r}, which the links connect"
            )
        left, right = (check_rows(self.model, found[name]) for name in self.ends)
        return left, right


def check_rows(model: nn.Module, rows: Any) -> Tensor:
    """Rows that a model gave, if they are a matrix.

    Raises:
        InputError: they are not.
    """
    if not isinstance(rows, Tensor) or rows.ndim != 2:
        shape = list(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
        raise InputError(
            f"{type(model).__name__} gave {shape}, expected a tensor with a row for each node"
        )
    return rows
