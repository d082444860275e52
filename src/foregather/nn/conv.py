"""conv: a PyG convolution as a layer, run on a chunk's own rows and its in-neighbours' rows.

The convolution sees a small graph whose edges end in the own rows; results for other rows are
dropped. Quantities of the whole graph (the degrees of `gcn_norm`) are passed to it as edge weights.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from foregather.errors import InputError
from foregather.nn.layer import GraphLayer, Near

__all__ = ["Conv"]

_PAIR = ("SAGEConv", "GENConv", "GraphConv", "GINConv")  # take (sources, targets): less work


class Conv(GraphLayer):
    """A PyG convolution (GCNConv, SAGEConv, GATConv, GCN2Conv, GENConv and similar).

    Args:
        conv: takes `(x, edge_index)` and optionally `edge_weight`, `edge_attr` or `x_0`.
        then: applied to the result, row by row: `torch.relu`, or a module.
        gives: keep the result as a skip tensor of this name.
        initial: for convolutions with `x_0`: the name of the skip tensor to use.
        edge_attr: pass it the graph's edge features; None does so if `forward` names `edge_attr`,
            unless it was created with `edge_dim=None`; False leaves them out.

    Raises:
        InputError: a convolution that caches edges between calls, an `improved` GCN, or one that
            does not take the edge features it should get.
    """

    def __init__(
        self,
        conv: nn.Module,
        then: Callable[[Tensor], Tensor] | None = None,
        gives: str | None = None,
        initial: str = "initial",
        edge_attr: bool | None = None,
    ) -> None:
        super().__init__()
        takes = inspect.signature(conv.forward).parameters
        kind = type(conv).__name__
        if getattr(conv, "cached", False):
            raise InputError(
                f"{kind} was created with cached=True, which would keep the edges of one chunk; "
                "set it to False"
            )
        if getattr(conv, "improved", False):
            raise InputError(
                f"{kind} was created with improved=True, which is not supported; set it to False"
            )
        self.conv = conv
        self.then = then
        self.gives = gives
        self.needs = (initial,) if "x_0" in takes else ()
        self._weighted = "edge_weight" in takes
        self._attr = _takes_edge_attr(conv, edge_attr)
        # both attributes: the family of gcn_norm (SAGEConv's `normalize` is another thing); one
        # that makes its own weights (PDNConv) cannot be given those of the whole graph
        family = hasattr(conv, "normalize") and hasattr(conv, "add_self_loops")
        self._family = family and self._weighted
        self._pair = kind in _PAIR

    @property
    def takes_edge_attr(self) -> bool:
        """Whether it gets edge features if the graph has them."""
        return self._attr is not False

    def update(self, x: Tensor, near: Near | None, **skips: Tensor) -> Tensor:
        """The convolution's rows of the own nodes."""
        assert near is not None
        rows, count = near.rows, near.count
        edge_index, weight = near.edges(self._norm())
        arguments: dict[str, Tensor] = {}
        if self._weighted and weight is not None:
            arguments["edge_weight"] = weight
        arguments |= self._edge_attr(near.edge_attr() if self.takes_edge_attr else None)
        for name in self.needs:
            other = rows.new_zeros(rows.shape[0] - count, skips[name].shape[1])
            arguments["x_0"] = torch.cat([skips[name], other])
        given = (rows, rows[:count]) if self._pair else rows
        out = self._call(given, edge_index, arguments)[:count]
        return out if self.then is None else self.then(out)

    def whole(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        **skips: Tensor,
    ) -> Tensor:
        """Computes the rows of all nodes as PyG does; `update` must equal them."""
        arguments: dict[str, Tensor] = {}
        if self._weighted and edge_weight is not None:
            arguments["edge_weight"] = edge_weight
        arguments |= self._edge_attr(edge_attr if self.takes_edge_attr else None)
        for name in self.needs:
            arguments["x_0"] = skips[name]
        out: Tensor = self.conv(x, edge_index=edge_index, **arguments)
        return out if self.then is None else self.then(out)

    def _edge_attr(self, rows: Tensor | None) -> dict[str, Tensor]:
        """Returns the edge_attr argument if the graph has edge features.

        Raises:
            InputError: it is not known whether the convolution takes them.
        """
        if rows is None:
            return {}
        if self._attr is None:
            raise InputError(
                f"forward of {type(self.conv).__name__} takes any keyword, so it is not clear "
                "whether it takes the edge features of this graph; wrap it as Conv(..., "
                "edge_attr=True), or False to leave them out"
            )
        return {"edge_attr": rows}

    def _norm(self) -> str | None:
        if not (self._family and self.conv.normalize):
            return None
        return "gcn" if self.conv.add_self_loops else "sym"

    def _call(
        self, given: Tensor | tuple[Tensor, Tensor], edges: Tensor, arguments: dict[str, Tensor]
    ) -> Tensor:
        if self._norm() is None:
            out: Tensor = self.conv(given, edge_index=edges, **arguments)
            return out
        self._set_normalize(False)  # the weights are already those of the whole graph
        try:
            out = self.conv(given, edge_index=edges, **arguments)
            return out
        finally:
            self._set_normalize(True)

    def _set_normalize(self, value: bool) -> None:
        conv: Any = self.conv
        conv.normalize = value


def _takes_edge_attr(conv: nn.Module, asked: bool | None) -> bool | None:
    """Whether a convolution gets the graph's edge features; None if that is not known."""
    takes = inspect.signature(conv.forward).parameters
    loose = any(one.kind is one.VAR_KEYWORD for one in takes.values())
    if asked and "edge_attr" not in takes and not loose:
        raise InputError(
            f"edge_attr is True, but forward of {type(conv).__name__} takes no edge_attr; leave it "
            "out, or use a convolution that does"
        )
    if asked is not None:
        return asked
    if "edge_attr" not in takes:
        return None if loose else False
    # edge_dim of PyG's convolutions says what they were made for; those without it (GENConv,
    # GINEConv, NNConv, a user's own) take what they are given
    made_for_none = getattr(conv, "edge_dim", 0) is None
    return not made_for_none or getattr(conv, "lin_edge", None) is not None
