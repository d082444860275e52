"""asked: samples the seeds of one batch that PyG asks for, as PyG's sampler outputs."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.arrays import to_ids
from foregather.graph.hetero.columns import to_times
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import about, find_node_type
from foregather.graph.mapped import hold
from foregather.interop.typed.raw import plain_output, typed_output
from foregather.loader.hetero.input_rows import Dealt
from foregather.loader.hetero.rule import HeteroSampler

__all__ = ["sample_typed"]


def sample_typed(
    rule: HeteroSampler,
    graph: HeteroGraph,
    inputs: Any,
    keys: tuple[int, int],
    threads: int,
    back: bool = False,
) -> Any:
    """Samples seeds of one type.

    Args:
        rule: the sampler.
        graph: the graph.
        inputs: PyG's NodeSamplerInput; without `input_type` the result is a SamplerOutput, for
            which the graph has one type and one relation.
        keys: seed and epoch.
        threads: threads to use.
        back: of a SamplerOutput, edges are also added in the other direction.

    Raises:
        InputError: seeds that are not nodes, a type that is not there, or times that do not fit.
    """
    plain = inputs.input_type is None
    if plain and (len(graph.nodes) > 1 or len(graph.edges) > 1):
        raise InputError(
            f"the seeds have no type, but the graph has {len(graph.nodes)} node types; give "
            "NodeLoader a HeteroData or stores, and input_nodes=(type, nodes)"
        )
    kind = graph.node_types[0] if plain else find_node_type(inputs.input_type, graph.nodes)
    with about(f"node type {kind!r}"):
        nodes = to_ids(inputs.node, graph.nodes[kind].num_nodes, "input_nodes")
        rows = _rows(rule, graph, kind, np.ascontiguousarray(nodes, np.int64), inputs)
    number = _core.xxh64(rows.nodes.view(np.uint8)) >> 16
    sample = rule.sample_bulk(
        graph,
        {kind: [rows.nodes]},
        seed=keys[0],
        epoch=keys[1],
        first_batch=number,
        threads=threads,
        rows={kind: [rows.input_id]} if rule.disjoint else None,
        times=None if rows.time is None else {kind: [rows.time]},
    )[0]
    output: Any = partial(plain_output, back=back) if plain else typed_output
    out = output(sample, kind, rows)
    out.metadata = (inputs.input_id, out.metadata[1])
    return out


def _rows(
    rule: HeteroSampler, graph: HeteroGraph, kind: str, nodes: npt.NDArray[np.int64], inputs: Any
) -> Dealt:
    ids = np.arange(len(nodes)) if inputs.input_id is None else np.asarray(inputs.input_id)
    if rule.time is None:
        if inputs.time is not None:
            raise InputError(
                "input_time was given, but the sampler looks at no times; make it with time='node' "
                "or 'edge', or with time_attr"
            )
        return Dealt(nodes, ids.astype(np.int64), None)
    if inputs.time is not None:
        given = to_times(inputs.time, len(nodes), "input_time", "input row")
        return Dealt(nodes, ids.astype(np.int64), np.array(given))
    own = graph.nodes[kind].time
    if rule.time == "edge" or own is None:
        reason = "time is 'edge'" if rule.time == "edge" else f"{kind!r} has no times"
        raise InputError(f"{reason}, so every input row needs a time; pass input_time")
    return Dealt(nodes, ids.astype(np.int64), hold(own)[nodes])
