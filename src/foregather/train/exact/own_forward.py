"""own_forward: the scores of a model's own `forward` on a small graph, as the oracle for `exact`.

Steps, parts and neighbourhoods are other ways to compute the same scores. Before anything is called
exact, they are compared with the result of the model's `forward` for a batch of all nodes, with the
edge weights and edge features that the graph has.
"""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from foregather.errors import ForegatherError, InputError
from foregather.graph.graph import Graph
from foregather.loader.loader import Loader
from foregather.loader.options import BatchContents
from foregather.sampling.neighbor import Neighbor
from foregather.train.metrics import forward

__all__ = [
    "check_forward",
    "like_edges",
    "node_scores",
    "own_scores",
    "same",
    "sentence",
    "small_batches",
]

_NEAR = {
    torch.float64: 1e-6
}  # relative to the largest score; rounding in lower precision stays below:
_LOOSE = 1e-3


def small_batches(
    graph: Graph, hops: int, norm: Any, size: int, nodes: npt.NDArray[np.int64] | None = None
) -> list[Any]:
    """Yields batches of `size` nodes each, with all in-neighbours up to `hops` hops."""
    loader = Loader(
        graph,
        None,
        nodes,
        size,
        sampler=Neighbor([-1] * hops),
        bulk=1,
        threads=1,
        prefetch=1,
        contents=BatchContents("seeds", norm=norm, pyg=False),
    )
    try:
        return list(loader)
    finally:
        loader.close()


def like_edges(graph: Graph, count: int, random: np.random.Generator) -> dict[str, Any]:
    """Makes weights and features for `count` edges like those of a graph."""
    weight = attr = None
    if graph.edge_weight is not None:
        weight = random.random(count, np.float32) + np.float32(0.1)
    if graph.edge_features is not None:
        shape = (count, graph.edge_features.width)
        attr = random.normal(size=shape).astype(np.float32)
    return {"edge_weight": weight, "edge_attr": attr}


def node_scores(model: nn.Module, batch: Any) -> Tensor:
    """Scores of the seeds, float32.

    Raises:
        InputError: the model fails on the batch.
    """
    try:
        return forward(model, _untrimmed(model, batch)).float()
    except (ForegatherError, MemoryError):
        raise
    except Exception as error:
        raise InputError(
            f"{type(model).__name__} fails on nodes {int(batch.n_id[0])} and following, with what "
            f"this graph has ({sentence(error)})"
        ) from error


def _untrimmed(model: nn.Module, batch: Any) -> Any:
    """Drops the counts that PyG's models trim layers by.

    With jumping knowledge they fail on them.
    """
    if "num_sampled_nodes_per_hop" not in inspect.signature(model.forward).parameters:
        return batch
    return replace(batch, num_sampled_nodes=None, num_sampled_edges=None)


def own_scores(model: nn.Module, batch: Any, dtype: torch.dtype) -> Tensor:
    """Scores of the seeds as training computes them, in another precision if requested."""
    batch = _untrimmed(model, replace(batch, x=batch.x.to(dtype)))
    return forward(model, batch, dtype=dtype)


def check_forward(
    model: nn.Module, batch: Any, scores: Tensor, dtype: torch.dtype, edge_attr: bool
) -> None:
    """Refuses steps whose scores differ from those of the model's own `forward`.

    Args:
        model: in evaluation mode.
        batch: of all nodes of a small graph.
        scores: the result of the steps.
        dtype: in which.
        edge_attr: some step looks at edge features.

    Raises:
        InputError: they differ, or `forward` fails.
    """
    kind = type(model).__name__
    try:
        try:
            own = own_scores(model, batch, dtype)
        except Exception:
            if edge_attr or batch.edge_attr is None:
                raise
            own = own_scores(model, replace(batch, edge_attr=None), dtype)  # made for none
    except Exception as error:
        raise InputError(
            f"forward of {kind} fails on a small graph with what the edges of this graph carry "
            f"({sentence(error)}), so its layers cannot be compared with it; let it take x and "
            "edge_index as in training"
        ) from error
    if not same(scores, own, dtype):
        raise InputError(
            f"{kind} gives other scores layer by layer than with its own forward (on a small "
            "graph, "
            f"{_gap(scores, own)}); let layer_steps compute what forward does, with the edge "
            "weights and edge features it takes"
        )


def same(one: Tensor, other: Tensor, dtype: torch.dtype) -> bool:
    """Whether values are equal up to rounding, relative to the largest."""
    if one.shape != other.shape or one.isnan().any() != other.isnan().any():
        return False
    near, finite = _NEAR.get(dtype, _LOOSE), other[torch.isfinite(other)]
    size = float(finite.abs().max()) if finite.numel() else 0.0
    return torch.allclose(
        one.double(), other.double(), rtol=near, atol=near * max(size, 1e-30), equal_nan=True
    )


def _gap(one: Tensor, other: Tensor) -> str:
    if one.shape != other.shape:
        return f"{_shape(one.shape)} and not {_shape(other.shape)} of them"
    gap = float((one - other).abs().nan_to_num(torch.inf).max())
    return f"by up to {gap:.2g} where the largest is {float(other.abs().max()):.2g}"


def _shape(shape: Sequence[int]) -> str:
    return " by ".join(str(size) for size in shape)


def sentence(error: BaseException) -> str:
    """Shortens a foreign error to a few words."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
