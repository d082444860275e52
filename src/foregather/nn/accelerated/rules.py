"""rules: convolutions of PyG by kernels, for the rows and edges that later layers need.

A rule exists for an exact type and covers exactly what its condition says; whatever it does not
cover is left to the module's own code. Linear maps go where they cost less: after the aggregation,
on targets, where the convolution is linear.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from foregather.loader.batches.first_sums import FirstSums
from foregather.nn.accelerated.hops import Hops
from foregather.nn.accelerated.linears import is_plain_linear, sum_of_maps
from foregather.nn.accelerated.own import aggregate_and_own
from foregather.nn.accelerated.plan import Ended, Role, parts_of
from foregather.nn.aggregate import Neighborhoods, aggregate
from foregather.nn.sage import SAGEConv as OwnSAGEConv

__all__ = ["Call", "Rule", "add_rule", "rule_for", "untouched"]

Rule = Callable[[Any, "Call"], Tensor]
# Not by maxima: where several sources have the largest value, PyG divides the gradient among them
# and the kernel gives it to the first.
_REDUCE = {"SumAggregation": "sum", "MeanAggregation": "mean"}
_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)
_PASSING_HOOKS = tuple(
    f"_{step}_forward_{when}hooks"
    for step in ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")
    for when in ("pre_", "")
)
#: Steps of message passing that an instance may have replaced.
_STEPS = ("message", "aggregate", "update", "edge_update", "message_and_aggregate")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a convolution in a pass.

    Attributes:
        hops: the order of the batch.
        sources: rows that it reads.
        targets: rows that it gives.
        edges: edges into the targets.
        given: its arguments by name, those of edges for all edges of the batch.
        made: what is made once in the pass.
    """

    hops: Hops
    sources: int
    targets: int
    edges: int
    given: dict[str, Any]
    made: dict[Any, Any]

    @property
    def x(self) -> Tensor:
        """The rows of the sources."""
        x: Any = self.given["x"]
        x = x[0] if isinstance(x, (tuple, list)) else x
        rows: Tensor = x if x.shape[0] == self.sources else x[: self.sources]
        return rows

    @property
    def own(self) -> Tensor:
        """The rows of the targets: the first ones of `x`, or those given beside it."""
        x = self.given["x"]
        rows: Tensor = (x[1] if isinstance(x, (tuple, list)) else x)[: self.targets]
        return rows

    @property
    def is_pair(self) -> bool:
        """Whether sources and targets have rows of their own."""
        return isinstance(self.given["x"], (tuple, list))

    @property
    def squares(self) -> int:
        """Rows of the targets' type for code that takes no fewer of them than it reads."""
        return self.sources

    @property
    def sums(self) -> FirstSums | None:
        """The sums of the batch, if this call reads its `x` and there are no rows of leaves."""
        sums = self.hops.sums
        if sums is None or sums.unfit(self.given.get("x")) is not None:
            return None
        return sums

    def aggregate_and_own(self, reduce: str, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Rows of the sources reduced over the edges of each target, and those of the targets."""
        if self.is_pair or self.sums is not None:
            return self.aggregate(self.x, reduce, weight), self.own
        return aggregate_and_own(self.x, self.neighborhoods, reduce, weight)

    def aggregate(self, rows: Tensor, reduce: str, weight: Tensor | None = None) -> Tensor:
        """Rows reduced over the edges of each target."""
        if (sums := self.sums) is None:
            return aggregate(rows, self.neighborhoods, reduce, weight)
        given = self.given.get("edge_weight")
        made = sums.total(rows, self.targets, reduce, weight, given)
        if isinstance(made, str):
            raise Ended(made)
        if reduce == "mean":
            count = self.neighborhoods.indptr.diff().clamp(min=1)
            made = made / count.to(made.dtype).unsqueeze(1)
        return made.to(rows.dtype)

    @property
    def neighborhoods(self) -> Neighborhoods:
        """The edges into the targets."""
        return self.hops.neighborhoods(self.sources, self.targets)

    def weight(self, dtype: torch.dtype) -> Tensor | None:
        """Weights of the edges into the targets, if given."""
        weight = self.given.get("edge_weight")
        return None if weight is None else weight[: self.edges].to(dtype)


@dataclass(frozen=True, slots=True)
class _Entry:
    covers: Callable[[Any, Call], bool]
    compute: Rule
    takes: frozenset[str]


_rules: dict[tuple[str, str], _Entry] = {}


def add_rule(
    kind: str,
    covers: Callable[[Any, Call], bool],
    compute: Rule,
    *takes: str,
    pairs: bool = False,
) -> None:
    """Adds the rule of one of PyG's convolutions, which takes x, edge_index and these.

    Args:
        kind: its class.
        covers: whether the rule is for a call.
        compute: the rule.
        takes: further arguments.
        pairs: also for rows of two types.
    """
    if pairs:
        _PAIRS.append(compute)
    _rules["torch_geometric.nn.conv", kind] = _Entry(
        covers, compute, frozenset(("x", "edge_index", *takes))
    )


def rule_for(module: nn.Module, call: Call, roles: dict[str, Role]) -> Rule | None:
    """The rule that covers this call; None if none does."""
    kind = type(module)
    entry = _rules.get((kind.__module__.rpartition(".")[0], kind.__name__))
    if entry is None or not call.hops.ascending or not call.given.keys() <= entry.takes:
        return None
    x = call.given.get("x")
    parts = x if call.hops.typed and isinstance(x, (tuple, list)) else (x,)
    for part in parts:
        if not isinstance(part, Tensor) or part.ndim != 2 or not part.is_floating_point():
            return None
    if len(parts) > 1 and (entry.compute not in _PAIRS or parts[0].dtype != parts[1].dtype):
        return None
    wanted = {"x": "rows", "edge_index": "edges"}
    if any(role != wanted.get(name, "edge") for name, role in roles.items()):
        return None
    if call.sums is not None and entry.compute not in _ADDING:
        raise Ended("its first layer does not only add up rows of leaves, which the batch lacks")
    return entry.compute if untouched(module) and entry.covers(module, call) else None


def untouched(module: Any) -> bool:
    """Whether a convolution does what its class says: no replaced parts, no masks.

    Hooks on its parts would see other rows than in its own code; those on itself see the same.
    """
    if getattr(module.__dict__.get("forward"), "before", None) is not None:
        return False  # the instance had another forward before the pass
    if isinstance(module, OwnSAGEConv):
        return _parts_unhooked(module) and "mean" not in module.__dict__
    return (
        module.flow == "source_to_target"
        and not module.explain
        and module.decomposed_layers == 1
        and _parts_unhooked(module)
        and not any(getattr(module, name, None) for name in _PASSING_HOOKS)
        and not any(step in module.__dict__ for step in _STEPS)
    )


def _parts_unhooked(module: nn.Module) -> bool:
    for part in parts_of(module)[1:]:
        for name in _HOOKS:
            hooks = part.__dict__.get(name)
            if hooks and not all(getattr(hook, "only_looks", False) for hook in hooks.values()):
                return False
    return True


def _reduction(conv: Any) -> str | None:
    return _REDUCE.get(type(conv.aggr_module).__name__)


# ---- GraphSAGE ------------------------------------------------------------------------------


def _sage(conv: Any, call: Call) -> Tensor:
    how = _reduction(conv) or ""
    if conv.project:
        total, own = call.aggregate(conv.lin(call.x).relu(), how), call.own
    else:
        total, own = call.aggregate_and_own(how)
    out: Tensor = sum_of_maps(conv.lin_l, total, conv.lin_r if conv.root_weight else None, own)
    return functional.normalize(out, p=2.0, dim=-1) if conv.normalize else out


def _own_sage(conv: OwnSAGEConv, call: Call) -> Tensor:
    total, own = call.aggregate_and_own("mean")
    return sum_of_maps(conv.own, own, conv.neighbour, total)


# ---- GraphConv, GIN -------------------------------------------------------------------------


def _covers_graph(conv: Any, call: Call) -> bool:
    how, weight = _reduction(conv), call.given.get("edge_weight")
    return how is not None and (weight is None or (how != "max" and weight.ndim == 1))


def _graph(conv: Any, call: Call) -> Tensor:
    x, near = call.x, call.neighborhoods
    weight, how = call.weight(x.dtype), _reduction(conv) or ""
    if weight is None or how == "sum":
        total, own = call.aggregate_and_own(how, weight)
    else:  # a mean of weighted rows, over their number
        count = near.indptr.diff().clamp(min=1).to(x.dtype)
        total, own = call.aggregate_and_own("sum", weight)
        total = total / count.unsqueeze(1)
    return sum_of_maps(conv.lin_rel, total, conv.lin_root, own)


def _gin(conv: Any, call: Call) -> Tensor:
    total, own = call.aggregate_and_own(_reduction(conv) or "")
    factor = 1 + conv.eps
    if factor.requires_grad or factor.device.type != "cpu" or factor.dtype != total.dtype:
        total = total + factor * own
    else:
        total = torch.add(total, own, alpha=factor.item())
    out: Tensor = conv.nn(total)
    return out


# ---- GCN ------------------------------------------------------------------------------------


def _covers_gcn(conv: Any, call: Call) -> bool:
    weight = call.given.get("edge_weight")
    return (
        _reduction(conv) == "sum"
        and not conv.cached
        and conv._cached_edge_index is None
        and (weight is None or weight.ndim == 1)
    )


def _gcn(conv: Any, call: Call) -> Tensor:
    x, own = call.x, None
    if conv.normalize:
        fill = 2.0 if conv.improved else 1.0
        whole, own = _normalized(call, x.dtype, conv.add_self_loops, fill)
        weight: Tensor | None = whole[: call.edges]
    else:
        weight = call.weight(x.dtype)

    def total(rows: Tensor) -> Tensor:
        out = call.aggregate(rows, "sum", weight)
        if own is None:
            return out
        return out + own[: call.targets].unsqueeze(1) * rows[: call.targets]

    last = is_plain_linear(conv.lin) and _goes_last(call, conv.lin.weight)
    out: Tensor = conv.lin(total(x)) if last else total(conv.lin(x))
    return out if conv.bias is None else out + conv.bias


def _goes_last(call: Call, weight: Tensor) -> bool:
    """Whether a linear map comes after the aggregation, as it must where that was done before.

    Else where it costs less: fewer rows, perhaps wider ones.
    """
    if call.sums is not None:
        return True
    wide, narrow = weight.shape[1], weight.shape[0]
    moved = 16 * call.edges  # a value moved along an edge costs like some products
    after = moved * wide + call.targets * wide * narrow
    before = moved * narrow + call.sources * wide * narrow
    return call.hops.sums_come_first(after <= before)


def _normalized(
    call: Call, dtype: torch.dtype, loops: bool, fill: float
) -> tuple[Tensor, Tensor | None]:
    """Weights of all edges by the degrees of the batch, and those of self-loops, once a pass."""
    given = call.given.get("edge_weight")
    key = ("gcn", dtype, loops, fill, id(given))
    if key not in call.made:
        call.made[key] = (*_normalize(call.hops, given, dtype, loops, fill), given)
    weight, own, _ = call.made[key]
    return weight, own


def _normalize(
    hops: Hops, weight: Tensor | None, dtype: torch.dtype, loops: bool, fill: float
) -> tuple[Tensor, Tensor | None]:
    source, target = hops.edge_index
    if weight is None:
        values = source.new_ones(hops.num_edges, dtype=dtype)
    else:
        values = weight if weight.is_floating_point() else weight.to(dtype)
    own = None
    if loops:  # there is one of each node; it keeps the weight that it had
        looped = source == target
        own = values.new_full((hops.num_nodes,), 1.0 if weight is None else fill)
        if bool(looped.any()):
            if weight is not None:
                own = own.index_put((source[looped],), values[looped])
            values = values.masked_fill(looped, 0.0)
    degree = values.new_zeros(hops.num_nodes).index_add(0, target, values)
    degree = degree if own is None else degree + own
    root = degree.pow(-0.5)
    root = root.masked_fill(root == torch.inf, 0.0)
    scaled = (root[source] * values * root[target]).to(dtype)
    return scaled, None if own is None else (root * own * root).to(dtype)


def _any(conv: Any, call: Call) -> bool:
    return True


def _reduces(conv: Any, call: Call) -> bool:
    return _reduction(conv) is not None


#: Rules that aggregate by `Call.aggregate` and read no other rows of leaves.
_ADDING = (_sage, _own_sage, _graph, _gin, _gcn)
#: Rules for rows of sources and of targets that are of two types.
_PAIRS: list[Rule] = [_sage, _graph, _gin]
add_rule("SAGEConv", _reduces, _sage)
add_rule("GraphConv", _covers_graph, _graph, "edge_weight")
add_rule("GINConv", _reduces, _gin)
add_rule("GCNConv", _covers_gcn, _gcn, "edge_weight")
_rules["foregather.nn", "SAGEConv"] = _Entry(_any, _own_sage, frozenset(("x", "edge_index")))
