"""attention: GATConv, GATv2Conv and TransformerConv by kernels, for the rows that are needed.

Self-loops are merged into the edges once per batch, as the first edge of each target, so that
targets still ascend. Sources are mapped once, and targets are the first of the mapped rows where
the convolution shares the map.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from foregather.nn.accelerated.heads import (
    edge_attention,
    head_products,
    mapped_twice,
    shared_sums,
    sums_come_first,
)
from foregather.nn.accelerated.hops import Hops
from foregather.nn.accelerated.linears import is_plain_linear
from foregather.nn.accelerated.products import edge_products
from foregather.nn.accelerated.rules import Call, add_rule
from foregather.nn.aggregate import Neighborhoods, aggregate_heads, edge_softmax

__all__: list[str] = []


def _edges(conv: Any, call: Call) -> tuple[Tensor, Tensor, Neighborhoods]:
    """Sources and targets of the edges that are attended over, and their neighbourhoods."""
    if not getattr(conv, "add_self_loops", False):
        source, target = call.hops.edge_index[:, : call.edges]
        return source, target, call.neighborhoods
    hops, most = call.hops, call.hops.nodes[-1 if call.targets == call.hops.num_nodes else -2]
    edges, whole = hops.made_once(("loops", most), lambda: _with_loops(hops, most))
    near = hops.made_once(
        ("loops", call.sources, call.targets), lambda: whole.first(call.targets, call.sources)
    )
    return edges[0, : near.num_edges], edges[1, : near.num_edges], near


def _with_loops(hops: Hops, targets: int) -> tuple[Tensor, Neighborhoods]:
    """All edges with one self-loop of each, the first of its edges."""
    source, target = hops.edge_index  # all of them lead to the first targets
    kept = source != target
    if not bool(kept.all()):
        source, target = source[kept], target[kept]
    merged = source.new_empty(2, source.numel() + targets)
    place = torch.arange(1, source.numel() + 1, device=source.device) + target
    merged[0, place], merged[1, place] = source, target
    nodes = torch.arange(targets, device=source.device)
    loop = nodes + torch.searchsorted(target.contiguous(), nodes)
    merged[:, loop] = nodes
    return merged, Neighborhoods.of(merged, hops.num_nodes, targets)


def _attend(conv: Any, logits: Tensor, near: Neighborhoods, values: Tensor) -> Tensor:
    """Sums of the values by a softmax of the logits, [targets, heads * channels] or their mean."""
    alpha = edge_softmax(logits, near)
    alpha = functional.dropout(alpha, p=conv.dropout, training=conv.training)
    out = aggregate_heads(values, near, alpha.to(values.dtype))
    return out.flatten(1) if conv.concat else out.mean(dim=1)


def _finished(conv: Any, out: Tensor, x: Tensor) -> Tensor:
    if conv.res is not None:
        out = out + conv.res(x)
    return out if conv.bias is None else out + conv.bias


def _gat(conv: Any, call: Call) -> Tensor:
    if not _by_vectors(conv, call):
        return _gat_by_rows(conv, call)
    x, heads = call.x, conv.heads
    weight = (conv.lin_src if conv.lin is None else conv.lin).weight
    weight = weight.view(heads, conv.out_channels, -1)
    source = _vectors(weight, conv.att_src)
    apart = call.is_pair or conv.lin is None  # targets have rows, or a map, of their own
    if apart:
        map_own = (conv.lin_dst if conv.lin is None else conv.lin).weight
        target = _vectors(map_own.view(heads, conv.out_channels, -1), conv.att_dst)
        taken, few = call.own @ target.t(), source
    else:
        few = torch.cat((source, _vectors(weight, conv.att_dst)))
    _, _, near = _edges(conv, call)
    counts, widths = (call.sources, call.targets, near.num_edges), (x.shape[1], conv.out_channels)
    grads = torch.is_grad_enabled(), torch.is_grad_enabled() and x.requires_grad
    rows = None
    if call.hops.sums_come_first(sums_come_first(counts, heads, widths, grads)):
        logits = x @ few.t()
    else:
        rows, logits = mapped_twice(x, weight.flatten(0, 1), few)
    if not apart:
        taken = logits[: call.targets, heads:]
    alpha = edge_attention(logits[:, :heads], taken, conv.negative_slope, near)
    alpha = functional.dropout(alpha, p=conv.dropout, training=conv.training)
    if rows is None:
        out = head_products(shared_sums(x, alpha, near), weight)
    else:
        out = aggregate_heads(rows.view(-1, heads, conv.out_channels), near, alpha)
    return _finished(conv, out.flatten(1) if conv.concat else out.mean(dim=1), call.own)


def _vectors(weight: Tensor, att: Tensor) -> Tensor:
    """The product of a row and the vector of a head is that of its mapped row and `att`."""
    return torch.bmm(att.transpose(0, 1), weight).squeeze(1)


def _by_vectors(conv: Any, call: Call) -> bool:
    """Whether both maps are plain ones of full precision, on the CPU."""
    maps = (conv.lin_src, conv.lin_dst) if conv.lin is None else (conv.lin,)
    return not torch.is_autocast_enabled("cpu") and all(
        is_plain_linear(one)
        and one.bias is None
        and one.weight.device.type == "cpu"
        and one.weight.dtype in (torch.float32, torch.float64)
        and one.weight.dtype == call.x.dtype == call.own.dtype == conv.att_src.dtype
        for one in maps
    )


def _gat_by_rows(conv: Any, call: Call) -> Tensor:
    shape = (-1, conv.heads, conv.out_channels)
    rows = (conv.lin_src if conv.lin is None else conv.lin)(call.x).view(shape)
    own = rows[: call.targets]
    if call.is_pair or conv.lin is None:
        own = (conv.lin_dst if conv.lin is None else conv.lin)(call.own).view(shape)
    source, target, near = _edges(conv, call)
    given = (rows * conv.att_src).sum(dim=-1)
    taken = (own * conv.att_dst).sum(dim=-1)
    logits = given.index_select(0, source) + taken.index_select(0, target)
    logits = functional.leaky_relu(logits, conv.negative_slope)
    return _finished(conv, _attend(conv, logits, near, rows), call.own)


def _gat_v2(conv: Any, call: Call) -> Tensor:
    x, shape = call.x, (-1, conv.heads, conv.out_channels)
    rows = conv.lin_l(x).view(shape)
    own = rows[: call.targets]
    if call.is_pair or not conv.share_weights:
        own = conv.lin_r(call.own).view(shape)
    source, target, near = _edges(conv, call)
    pairs = own.index_select(0, target) + rows.index_select(0, source)
    logits = (functional.leaky_relu(pairs, conv.negative_slope) * conv.att).sum(dim=-1)
    return _finished(conv, _attend(conv, logits, near, rows), call.own)


def _transformer(conv: Any, call: Call) -> Tensor:
    x, shape = call.x, (-1, conv.heads, conv.out_channels)
    own = call.own
    query, key = conv.lin_query(own).view(shape), conv.lin_key(x).view(shape)
    near = call.neighborhoods
    logits = edge_products(query, key, near) / math.sqrt(conv.out_channels)
    out = _attend(conv, logits, near, conv.lin_value(x).view(shape))
    if not conv.root_weight:
        return out
    skip = conv.lin_skip(own)
    if conv.lin_beta is None:
        return torch.add(out, skip)
    beta = conv.lin_beta(torch.cat([out, skip, out - skip], dim=-1)).sigmoid()
    return torch.lerp(out, skip, beta)


def _sums(conv: Any, call: Call) -> bool:
    return type(conv.aggr_module).__name__ == "SumAggregation" and conv.edge_dim is None


def _covers_gat(conv: Any, call: Call) -> bool:
    return _sums(conv, call) and (conv.lin is not None or call.hops.typed)


add_rule("GATConv", _covers_gat, _gat, pairs=True)
add_rule("GATv2Conv", _sums, _gat_v2, pairs=True)
add_rule("TransformerConv", _sums, _transformer, pairs=True)
