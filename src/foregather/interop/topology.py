"""topology: converts a PyG Data to the Graph that the drop-in NeighborLoader samples."""

import warnings
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from foregather.errors import InputError
from foregather.graph.arrays import to_array
from foregather.graph.graph import Graph
from foregather.interop.attributes import is_steady

__all__ = ["drawable", "topology_of"]


def topology_of(
    data: Any, weight_attr: str | None, weights: bool, whole: float = 0
) -> tuple[Graph, Any]:
    """Returns the graph, and the `x` that it stores exactly.

    Any other `x` is indexed like an attribute.

    Args:
        data: the PyG Data.
        weight_attr: name of the edge attribute to draw by.
        weights: batches get the engine's edge weights, so the engine needs those of the data.
        whole: up to this many edges into a node are all taken, whatever their weights.

    Raises:
        InputError: not a Data, or invalid edges.
    """
    if not isinstance(data, Data):
        raise InputError(
            f"data is a {type(data).__name__}, expected a PyG Data or HeteroData, a (FeatureStore, "
            "GraphStore), a Graph or a HeteroGraph"
        )
    for name in ("adj_t", "adj"):
        if name in data and "edge_index" not in data:
            raise InputError(
                f"the data has its edges in {name}, expected edge_index [2, edges]; convert them, "
                "for example with torch_geometric.utils.to_edge_index"
            )
    edges = data.edge_index
    if edges is None:  # as in PyG: nodes without edges
        edges = torch.empty(2, 0, dtype=torch.int64)
    if weight_attr is not None and weight_attr not in data:
        raise InputError(f"weight_attr is {weight_attr!r}, but the data has no such attribute")
    drawn_by = weight_attr or ("edge_weight" if weights else "")
    weight = data[drawn_by] if drawn_by and drawn_by in data else None
    if weight_attr is not None and whole:
        weight = drawable(weight, edges, whole)
    stored = data.x if _is_exact(data.x) else None
    with warnings.catch_warnings():  # PyG warns where it has to guess the number
        warnings.simplefilter("ignore")
        nodes = data.num_nodes
    if nodes is None:
        raise InputError("the data does not say how many nodes there are; set data.num_nodes")
    return Graph.from_edge_index(edges, nodes, x=stored, edge_weight=weight), stored


def drawable(weight: Any, edge_index: Any, whole: float) -> Any:
    """Returns the weights to draw by; all are 1 in a row that is taken whole and has only zeros."""
    values, edges = to_array(weight, "edge_weight"), to_array(edge_index, "edge_index")
    shape = (edges.shape[1],) if edges.ndim == 2 and edges.shape[0] == 2 else None
    if values.shape != shape or edges.dtype.kind not in "iu" or edges.min(initial=0) < 0:
        return weight  # refused when the graph is made
    degree = np.bincount(edges[1])
    heavy = np.bincount(edges[1], values != 0)
    free = ((heavy == 0) & (degree <= whole))[edges[1]]
    return np.where(free, 1, values)


def _is_exact(x: Any) -> bool:
    """Whether a graph stores these rows exactly, in this process's memory and without a gradient.

    Torch counts changes to a tensor, so outdated rows are noticed. Changes to a NumPy array or an
    inference-mode tensor are not counted.
    """
    return is_steady(x) and x.ndim == 2 and x.dtype in (torch.float32, torch.float16)
