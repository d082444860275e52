"""whole: a model that runs on one chunk, the whole graph, as a single layer."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.nn.arguments import optional_arguments
from foregather.nn.layer import GraphLayer, Near
from foregather.pipeline.split.changes import untouched
from foregather.pipeline.split.graph_values import call_model, graph_inputs, leave_out
from foregather.pipeline.split.sample import feature_rows, small_graph

__all__ = ["WholeLayer"]


class WholeLayer(GraphLayer):
    """All of a model, for runs with one chunk; it may mix nodes as it likes.

    Args:
        model: takes `(x, edge_index)` and perhaps `edge_weight` and `edge_attr`.
        graph: the graph.

    Raises:
        InputError: it fails on a small graph, or gives no rows of scores.
    """

    def __init__(self, model: nn.Module, graph: Graph) -> None:
        super().__init__()
        self.model = model
        self.user_model = [model]  # a list: it is registered once, above
        self.user_names = {f"model.{name}": name for name in model.state_dict()}
        assert graph.features is not None
        self.message_width = graph.features.width
        self._out = self._columns(graph)

    def _columns(self, graph: Graph) -> int:
        small = small_graph(graph, 23, 61, 0)
        weight = next((p for p in self.model.parameters()), torch.zeros(1))
        inputs = graph_inputs(self.model, small, weight.dtype, weight.device)
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]), untouched(self.model):
                out = call_model(self.model.eval(), feature_rows(small, weight), inputs)
        except Exception as error:
            raise InputError(
                f"{type(self.model).__name__} fails on a small graph with this graph's features: "
                f"{str(error) or type(error).__name__}"
            ) from error
        if not isinstance(out, Tensor) or out.dim() != 2 or out.shape[0] != small.num_nodes:
            got = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise InputError(
                f"{type(self.model).__name__} returns {got} for {small.num_nodes} nodes, expected "
                "one row of scores for each"
            )
        return int(out.shape[1])

    def width_out(self) -> int:
        """Columns of scores."""
        return self._out

    def skip_widths(self) -> dict[str, int]:
        """There are none."""
        return {}

    def update(self, x: Tensor, near: Near | None, **skips: Tensor) -> Any:
        """The model's scores."""
        assert near is not None
        rows, (edges, weight) = near.rows, near.edges()
        fields = SimpleNamespace(edge_weight=weight, edge_attr=near.edge_attr())
        options = leave_out(self.model, optional_arguments(self.model, fields, rows.dtype))
        return self.model(rows, edges, **options)
