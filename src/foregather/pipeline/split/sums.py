"""sums: calls of message passing that only add up rows, so that the core's kernels can make them.

A convolution of PyG whose messages are rows of sources, perhaps times a weight of the edge that
depends on the graph alone, is a sparse matrix times rows. No row is then copied to its edges. What
is found here is held against the model by the check before training, like everything else.
"""

from dataclasses import dataclass
from typing import Any

from torch import nn

from foregather.nn.accelerated.rules import untouched
from foregather.pipeline.split.levels import Segment
from foregather.pipeline.split.program import Program, axis_kind
from foregather.pipeline.split.tape import Call, Ref

__all__ = ["Sum", "sum_of"]

#: The argument that weighs messages, by convolution; None where there is none.
_WEIGHT = {
    "APPNP": "edge_weight",
    "ChebConv": "norm",
    "ClusterGCNConv": "edge_weight",
    "GCN2Conv": "edge_weight",
    "GCNConv": "edge_weight",
    "GINConv": None,
    "GatedGraphConv": "edge_weight",
    "GraphConv": "edge_weight",
    "LGConv": "edge_weight",
    "MixHopConv": "edge_weight",
    "SAGEConv": None,
    "SGConv": "edge_weight",
    "SSGConv": "edge_weight",
    "TAGConv": "edge_weight",
}
_MEAN = {"SumAggregation": False, "MeanAggregation": True}


@dataclass(frozen=True, slots=True)
class Sum:
    """A weighted sum over in-neighbours.

    Attributes:
        edges: the value that holds the edges.
        weight: the value that holds their weights; None for 1.
        mean: sums are divided by the number of in-neighbours.
    """

    edges: int
    weight: int | None
    mean: bool


def sum_of(program: Program, segment: Segment, call: Call, conv: nn.Module) -> Sum | None:
    """What a call adds up, if it does nothing else with all that the segment reads."""
    made: Any = conv
    kind = type(conv)
    known = kind.__module__.startswith("torch_geometric.nn.") and kind.__name__ in _WEIGHT
    if call.passing is None or call.passing.method != "propagate" or call.random or not known:
        return None
    mean = _MEAN.get(type(getattr(made, "aggr_module", None)).__name__)
    if mean is None or not untouched(conv) or made.node_dim not in (-2, 0):
        return None
    given = {name: tree for name, tree in call.kwargs.items() if tree is not None}
    rows, weight = given.pop("x", None), given.pop(_WEIGHT[kind.__name__] or "", None)
    source = rows[0] if isinstance(rows, tuple) else rows
    if given or not isinstance(source, Ref) or segment.reads != [source.value]:
        return None
    value = program.values[source.value]
    if len(value.sizes) != 2 or value.axis != 0 or value.times != 1:
        return None
    if value.dtype != program.dtype:
        return None
    if weight is None:
        return Sum(call.args[0].value, None, mean)
    if not isinstance(weight, Ref):
        return None
    values = program.values[weight.value]
    if values.kind != "const" or axis_kind(program, values) != "edge" or len(values.sizes) != 1:
        return None
    return Sum(call.args[0].value, weight.value, mean)
