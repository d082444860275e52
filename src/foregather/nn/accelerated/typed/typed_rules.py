"""typed_rules: convolutions for dictionaries of all types by kernels: PyG's HGTConv.

Keys and values are mapped once for each source type. The maps of a relation are applied to its
targets, of which there are fewer: to queries before the products, and to sums after the softmax.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from foregather.nn.accelerated.linears import is_plain_linear
from foregather.nn.accelerated.plan import Role
from foregather.nn.accelerated.products import edge_products
from foregather.nn.accelerated.rules import untouched
from foregather.nn.accelerated.typed.typed_hops import Relation, TypedHops
from foregather.nn.aggregate import Neighborhoods, aggregate_heads, edge_softmax
from foregather.nn.dense import linear

__all__ = ["TypedCall", "typed_rule_for"]

TypedRule = Callable[[Any, "TypedCall"], dict[str, Tensor]]


@dataclass(frozen=True, slots=True)
class TypedCall:
    """One call of a convolution for all types.

    Attributes:
        hops: the order of the batch.
        level_in: hops of the rows that it reads.
        level: hops of the rows that it gives.
        given: its arguments by name.
    """

    hops: TypedHops
    level_in: int
    level: int
    given: dict[str, Any]

    def sources(self, name: str) -> int:
        """Rows of a type that it reads."""
        return self.hops.nodes[name][self.level_in]

    def targets(self, name: str) -> int:
        """Rows of a type that it gives."""
        return self.hops.nodes[name][self.level]

    def count(self, name: Relation) -> int:
        """Edges of a relation into its targets."""
        return self.hops.relations[name].edges_into(self.level)

    def edges(self, name: Relation) -> Tensor:
        """The same edges."""
        return self.hops.relations[name].edge_index[:, : self.count(name)]

    def near(self, name: Relation) -> Neighborhoods:
        """The same edges by target."""
        one = self.hops.relations[name]
        return one.neighborhoods(self.sources(name[0]), self.targets(name[2]))


def typed_rule_for(module: nn.Module, call: TypedCall, roles: dict[str, Role]) -> TypedRule | None:
    """The rule that covers this call; None if none does."""
    kind, conv = type(module), cast(Any, module)
    if (kind.__module__, kind.__name__) != ("torch_geometric.nn.conv.hgt_conv", "HGTConv"):
        return None
    if roles != {"x_dict": "rows", "edge_index_dict": "edges"} or not call.hops.ascending:
        return None
    x_dict, edges = call.given["x_dict"], call.given["edge_index_dict"]
    known = {name for name in edges if name in conv.edge_types_map}
    missing = {name for relation in edges for name in (relation[0], relation[2])} - x_dict.keys()
    if missing or known != edges.keys() or not _plain_hgt(conv, x_dict):
        return None
    return _hgt


def _plain_hgt(conv: Any, x_dict: dict[str, Any]) -> bool:
    """Whether a convolution is as its class makes it, and all types have rows of one kind."""
    maps = [*conv.kqv_lin.lins.values(), *conv.out_lin.lins.values()]
    kinds = {(part.dtype, part.ndim) for part in x_dict.values() if isinstance(part, Tensor)}
    return (
        untouched(conv)
        and type(conv.aggr_module).__name__ == "SumAggregation"
        and all(is_plain_linear(one) for one in maps)
        and len(kinds) == 1
        and all(isinstance(part, Tensor) for part in x_dict.values())
        and x_dict.keys() <= set(conv.kqv_lin.lins.keys())
        and next(iter(kinds))[0].is_floating_point
    )


def _hgt(conv: Any, call: TypedCall) -> dict[str, Tensor]:
    x_dict = {name: part[: call.sources(name)] for name, part in call.given["x_dict"].items()}
    relations = list(call.given["edge_index_dict"])
    shape = (-1, conv.heads, conv.out_channels // conv.heads)
    keys, values = {}, {}
    nothing = _nothing(conv, x_dict, relations)
    for name in {relation[0]: None for relation in relations}:
        key, value = _mapped(conv, name, x_dict[name], (0, 2))
        keys[name], values[name] = key.view(shape), value.view(shape)
    out_dict = {}
    for name in conv.kqv_lin.lins.keys():  # noqa: SIM118  (not a dict; the order of its own code)
        if name not in x_dict or name not in conv.dst_node_types:
            continue
        own, into = x_dict[name][: call.targets(name)], [r for r in relations if r[2] == name]
        (query,) = _mapped(conv, name, own, (1,))
        total = _attended(conv, call, into, query.view(shape) + nothing, keys, values)
        out = conv.out_lin.lins[name](functional.gelu(total.flatten(1)))
        if out.shape[-1] == own.shape[-1]:
            alpha = conv.skip[name].sigmoid()
            out = alpha * out + (1 - alpha) * own
        out_dict[name] = out
    return out_dict


def _nothing(conv: Any, x_dict: dict[str, Tensor], relations: list[Relation]) -> Tensor:
    """A zero that depends on all parameters of the call.

    Its own code computes all types in one tensor, so that a parameter that does not matter has a
    gradient of zeros, and not none: optimizers treat them differently.
    """
    total: Tensor = conv.k_rel.weight[:0].sum() + conv.v_rel.weight[:0].sum()
    for name, x in x_dict.items():
        total = total + conv.kqv_lin.lins[name](x[:0]).sum()
    for relation in relations:
        total = total + conv.p_rel["__".join(relation)][:0].sum()
    return total


def _mapped(conv: Any, name: str, x: Tensor, which: tuple[int, ...]) -> list[Tensor]:
    """Keys (0), queries (1) and values (2) of a type, only those that are asked for."""
    lin, wide = conv.kqv_lin.lins[name], conv.out_channels
    parts = [slice(one * wide, (one + 1) * wide) for one in which]
    weight = torch.cat([lin.weight[part] for part in parts])
    bias = None if lin.bias is None else torch.cat([lin.bias[part] for part in parts])
    return list(torch.split(linear(x, weight, bias), wide, dim=1))


def _attended(
    conv: Any,
    call: TypedCall,
    relations: list[Relation],
    query: Tensor,
    keys: dict[str, Tensor],
    values: dict[str, Tensor],
) -> Tensor:
    """Sums of values over the edges of all relations into a type, [targets, heads, d]."""
    total, every = query * 0, len(conv.edge_types)
    if not relations:
        return total
    logits, nears = [], [call.near(name) for name in relations]
    for name, near in zip(relations, nears, strict=True):
        place = conv.edge_types_map[name]
        scale = conv.p_rel["__".join(name)].view(-1, 1) / math.sqrt(query.shape[2])
        # (k W) q = k (W q): the map of a relation goes to the fewer rows
        asked = torch.einsum("nhe,hde->nhd", query, conv.k_rel.weight[place::every])
        logits.append(edge_products((asked * scale).contiguous(), keys[name[0]].contiguous(), near))
    alphas = _softmax_together(logits, nears, call, relations)
    for name, near, alpha in zip(relations, nears, alphas, strict=True):
        place = conv.edge_types_map[name]
        part = aggregate_heads(values[name[0]].contiguous(), near, alpha.to(query.dtype))
        total = total + torch.einsum("nhd,hde->nhe", part, conv.v_rel.weight[place::every])
    return total


def _softmax_together(
    logits: list[Tensor], nears: list[Neighborhoods], call: TypedCall, relations: list[Relation]
) -> list[Tensor]:
    """Softmax over the edges of each target, of all relations into its type."""
    if len(logits) == 1:
        return [edge_softmax(logits[0], nears[0])]
    order, back, near = call.hops.made_once(
        ("together", tuple(relations), call.level), lambda: _together(nears)
    )
    alpha = edge_softmax(torch.cat(logits).index_select(0, order), near)
    return list(torch.split(alpha.index_select(0, back), [one.num_edges for one in nears]))


def _together(nears: list[Neighborhoods]) -> tuple[Tensor, Tensor, Neighborhoods]:
    """The edges of several relations by target: their order, the way back, and their lists."""
    target = torch.cat(
        [torch.repeat_interleave(one.indptr.diff(), output_size=one.num_edges) for one in nears]
    )
    order = torch.argsort(target, stable=True)
    back = torch.empty_like(order)
    back[order] = torch.arange(order.numel(), device=order.device)
    index = torch.stack([torch.zeros_like(target), target[order]])
    return order, back, Neighborhoods.of(index, 1, nears[0].num_targets)
