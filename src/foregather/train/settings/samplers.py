"""samplers: the sampler of a run by name, with the options that it has."""

import inspect
from collections.abc import Callable
from typing import Any

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.loader.arguments import called_fanouts
from foregather.nn.by_name import LAYERED
from foregather.nn.hetero.by_name import TYPED_MODELS
from foregather.pipeline.partition.chunks import make_chunks
from foregather.sampling import (
    Cluster,
    FastGCN,
    Full,
    Labor,
    Ladies,
    Neighbor,
    RandomWalk,
    Saint,
    Sampler,
)
from foregather.train.settings import Settings
from foregather.train.settings.import_name import call_class, import_name

__all__ = ["SAMPLERS", "check_sampler", "make_sampler"]

#: Samplers by name, with a line for people; options by sampler.options.
SAMPLERS = {
    "neighbor": "in-neighbours of each node, up to the fan-outs",
    "labor": "the same number on average, shared by the nodes of a batch, so fewer in all",
    "ladies": "layer by layer, by the neighbours of the batch; layer_sizes",
    "fastgcn": "layer by layer, by degrees of the whole graph; layer_sizes",
    "saint-node": "subgraphs of random nodes; size",
    "saint-edge": "subgraphs of the ends of random edges; size",
    "saint-walk": "subgraphs of random walks, with weights that remove their bias; length",
    "walk": "subgraphs of random walks from the seeds; length, walks",
    "cluster": "unions of METIS parts; parts, size (parts of a batch)",
    "full": "every in-neighbour, as many layers as there are fan-outs",
}
#: Samplers that need as much memory as the neighbour lists.
_IN_MEMORY = ("saint-node", "saint-edge", "saint-walk", "cluster")
#: Of them, those that choose the nodes of a batch themselves.
_OWN_NODES = ("saint-node", "saint-edge", "cluster")
_LAYER_SIZE = 512
_PART_NODES, _PARTS = 512, 4  # nodes of a part, and parts of a batch, where nothing is said


def check_sampler(settings: Settings) -> None:
    """Refuses combinations of sampler and model that make no sense.

    Raises:
        InputError: the message has the settings, and what to do.
    """
    kind, model = settings.sampler.kind, settings.model.kind
    if kind not in SAMPLERS or model in TYPED_MODELS:  # which have their own checks
        return
    if kind in ("ladies", "fastgcn") and ":" not in model and model not in LAYERED:
        raise InputError(
            f"model.kind is {model!r}, but {kind} weights the neighbours of a whole layer, which "
            f"only sums and means keep; use {' or '.join(LAYERED)}"
        )
    if model == "mlp" and kind not in ("neighbor", "full"):
        raise InputError(
            f"sampler.kind is {kind!r}, but the model mlp sees no neighbour; leave the sampler out"
        )
    if kind in _IN_MEMORY and settings.memory.storage in ("topology", "disk"):
        raise InputError(
            f"sampler.kind is {kind!r}, which needs as much memory as the neighbour lists, but "
            f"memory.storage is {settings.memory.storage!r}; use features"
        )
    if kind in _OWN_NODES and settings.train.final == "sampled":
        raise InputError(
            f"train.final is 'sampled', but {kind} chooses the nodes of its batches itself, so "
            "given nodes cannot be scored with it; leave it out"
        )


def make_sampler(graph: Graph, settings: Settings) -> Sampler:
    """Makes the sampler.

    Raises:
        InputError: it is unknown, or does not take these options.
        MissingDependencyError: cluster without pymetis.
    """
    wanted = settings.sampler
    name, more = wanted.kind, dict(wanted.options)
    if ":" in name:
        made = call_class(import_name(name, "sampler.kind"), more, name)
        if not isinstance(made, Sampler):
            raise InputError(f"sampler.kind is {name}, which is not a Sampler; derive it from one")
        return made
    if name not in SAMPLERS:
        raise InputError(
            f"sampler.kind is {name!r}, expected one of {', '.join(SAMPLERS)}, or your own "
            "module:Class"
        )
    if name == "cluster":
        return _cluster(graph, more, settings.train.seed)
    kind, options = _rule(settings)
    takes = [key for key in inspect.signature(kind).parameters if key != "kind"]
    for key in more:
        if key not in takes:
            raise InputError(f"sampler.options has {key}, but {name} takes {', '.join(takes)}")
    with called_fanouts("sampler.fanouts"):
        made = kind(**options | more)
    assert isinstance(made, Sampler)
    return made


def _rule(settings: Settings) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The class of a sampler by name, and the options that settings give it."""
    wanted, size = settings.sampler, settings.train.batch_size
    layers = settings.model.layers or len(wanted.fanouts)
    fanouts = {"num_neighbors": list(wanted.fanouts)}
    sizes = {"layer_sizes": [_LAYER_SIZE] * layers}
    rules: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "neighbor": (Neighbor, {**fanouts, "replace": wanted.replace}),
        "labor": (Labor, fanouts),
        "ladies": (Ladies, sizes),
        "fastgcn": (FastGCN, sizes),
        "saint-node": (Saint, {"kind": "node", "size": size}),
        "saint-edge": (Saint, {"kind": "edge", "size": size}),
        "saint-walk": (Saint, {"kind": "walk", "size": size, "split": settings.train.split}),
        "walk": (RandomWalk, {"length": 2 * layers}),
        "full": (Full, {"num_layers": len(wanted.fanouts)}),
    }
    return rules[wanted.kind]


def _cluster(graph: Graph, options: dict[str, Any], seed: int) -> Cluster:
    """METIS parts of the graph, a pure function of graph, number and seed."""
    for key in options:
        if key not in ("parts", "size"):
            raise InputError(f"sampler.options has {key}, but cluster takes parts, size")
    usual = min(graph.num_nodes, max(2 * _PARTS, graph.num_nodes // _PART_NODES))
    count = options.get("parts", usual)
    if type(count) is not int or not 0 < count <= graph.num_nodes:
        raise InputError(
            f"sampler.options has parts = {count!r}, expected a whole number up to the "
            f"{graph.num_nodes} nodes"
        )
    chunks = make_chunks(graph, count, "metis", seed)
    part = chunks.bounds.searchsorted(chunks.number, "right") - 1
    return Cluster(part, options.get("size", _PARTS))
