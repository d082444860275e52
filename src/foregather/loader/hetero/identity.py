"""identity: what the batches of a HeteroLoader depend on, as text that can be compared."""

from typing import Any

import numpy as np

from foregather import _core
from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.loader.hetero.hetero_recipe import HeteroRecipe
from foregather.loader.loader_state import NOT_COMPARED
from foregather.sampling.identity import identity_of

__all__ = ["graph_digest", "hetero_identity"]


def hetero_identity(maker: HeteroRecipe, kept: list[str]) -> dict[str, Any]:
    """Everything that batches depend on, except the position and the seed.

    Args:
        maker: what they are made from.
        kept: holds the digest of the graph once it is known.
    """
    if not kept:
        kept.append(graph_digest(maker.graph))
    try:
        rule = identity_of(maker.sampler)
    except InputError as error:  # training works, but the position cannot be restored
        rule = f"{NOT_COMPARED}{error}"
    seeds = maker.seeds
    by = "position" if seeds.by_position else "node"
    return {
        "graph": kept[0],
        "sampler": rule,
        "batch_size": seeds.batch_size,
        "shuffle": seeds.shuffle,
        "drop_last": seeds.drop_last,
        # `input_id` keys trees, and it is a position or a node
        "input_nodes": f"{maker.node_type} by {by}: {seeds.digest}",
        "input_time": maker.times.digest,
    }


def graph_digest(graph: HeteroGraph) -> str:
    """XXH64 of the names and arrays of a graph, or the digest that it has itself."""
    own = getattr(graph, "digest", None)
    if isinstance(own, str):
        return own
    state = _core.Xxh64()
    names = repr([(name, *table.features) for name, table in graph.nodes.items()])
    state.update(np.frombuffer(f"{names}{graph.edge_types}".encode(), np.uint8))
    for name, values in sorted(graph.stored_arrays().items()):
        about = f"{name}:{values.dtype.str}{values.shape};"
        state.update(np.frombuffer(about.encode(), np.uint8))
        state.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8))
    return f"{state.digest():016x}"
