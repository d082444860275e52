"""split: from any module to layers for full-graph training, recorded, cut and checked."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.nn.arguments import takes_batch
from foregather.nn.layer import GraphLayer
from foregather.pipeline.split.branches import check_branches
from foregather.pipeline.split.changes import check_changes, untouched
from foregather.pipeline.split.check import compare
from foregather.pipeline.split.graph_values import call_model, graph_inputs
from foregather.pipeline.split.layers import SplitLayer, make_split_layers
from foregather.pipeline.split.levels import cut
from foregather.pipeline.split.locate import find_mixing
from foregather.pipeline.split.program import Program, join
from foregather.pipeline.split.sample import feature_rows, small_graph
from foregather.pipeline.split.tape import Tape, record
from foregather.pipeline.split.whole import WholeLayer

__all__ = ["layers_of", "split_model"]

_SIZES = ((23, 61), (29, 83))  # nodes and random edges of the two small graphs


def layers_of(
    given: nn.Module | Sequence[nn.Module], graph: Graph, chunks: int
) -> Sequence[nn.Module]:
    """The layers of a model for K chunks; a list of layers stays as it is.

    Raises:
        InputError: a model that cannot run in chunks; see `split_model`.
    """
    if isinstance(given, (nn.ModuleList, nn.Sequential)):
        return [*given]
    if not isinstance(given, nn.Module):
        return given
    if isinstance(given, GraphLayer):
        return [given]
    if graph.features is None:
        raise InputError("the graph has no features, which full-graph training needs")
    if chunks == 1:
        _start_lazy(given, graph)
        return [WholeLayer(given, graph)]
    return split_model(given, graph)


def split_model(model: nn.Module, graph: Graph) -> list[SplitLayer]:
    """The layers of a model, one for each hop, with the model's own weights.

    Args:
        model: any module that is called with `(x, edge_index)` and perhaps `edge_weight` and
            `edge_attr`, and returns scores of all nodes.
        graph: whose features, edge weights and edge features it will see.

    Raises:
        InputError: it mixes nodes outside message passing, or cannot be recorded; the message has
            the module and the reason.
    """
    if takes_batch(model):
        raise InputError(
            f"{type(model).__name__} takes a batch, expected a model that takes x and edge_index"
        )
    _start_lazy(model, graph)
    check_changes(model, small_graph(graph, *_SIZES[0], seed=0))
    program, tape = _recorded(model, graph)

    def make(one: nn.Module) -> list[SplitLayer]:
        return make_split_layers(program, cut(program, one), one)

    layers = make(model)
    for training in (True, False):
        check_branches(model, training, small_graph(graph, *_SIZES[0], seed=0), graph)
    try:
        compare(model, make, graph)
    except InputError as error:
        raise find_mixing(program, tape) or error from None
    return layers


def _place(model: nn.Module) -> torch.Tensor:
    return next((p for p in model.parameters()), torch.zeros(1))


def _run(model: nn.Module, graph: Graph) -> Tape:
    weight = _place(model)
    x = feature_rows(graph, weight)
    inputs = graph_inputs(model, graph, weight.dtype, weight.device)
    edges = inputs.pop("edge_index")
    with torch.random.fork_rng(devices=[]):
        return record(model, (x, edges), inputs, ["x", "edge_index", *inputs])


def _recorded(model: nn.Module, graph: Graph) -> tuple[Program, Tape]:
    small = [small_graph(graph, n, e, seed) for seed, (n, e) in enumerate(_SIZES)]
    tapes = []
    for training, one in ((True, small[0]), (True, small[1]), (False, small[0])):
        made = copy.deepcopy(model)
        made.train(training)
        tapes.append(_run(made, one))
    sizes = (small[0].num_nodes, small[1].num_nodes)
    return join(tapes[0], tapes[1], tapes[2], sizes), tapes[0]


def _start_lazy(model: nn.Module, graph: Graph) -> None:
    """Gives weights their shapes where they are known only once rows are seen."""
    if not any(nn.parameter.is_lazy(p) for p in model.parameters()):
        return
    small = small_graph(graph, *_SIZES[0], seed=0)
    x = feature_rows(small, torch.zeros(1))
    inputs: dict[str, Any] = graph_inputs(model, small, torch.float32, torch.device("cpu"))
    with torch.no_grad(), untouched(model):
        call_model(model.eval(), x, inputs)
