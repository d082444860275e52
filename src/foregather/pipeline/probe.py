"""probe: a dry run of the model on six nodes: widths of all boundaries, and layers that mix nodes.

Two rings of three nodes are run together and the first is run alone. A layer that treats rows by
themselves, or meets others only through edges, gives the first ring the same rows both times.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.nn.layer import GraphLayer
from foregather.pipeline.aggregation import ChunkNear, Exchange
from foregather.pipeline.chunks import make_chunks
from foregather.pipeline.local import Topology

__all__ = ["Widths", "probe", "warn_batch_norm"]

_RING = 3


@dataclass(frozen=True, slots=True)
class Widths:
    """Columns of what flows through a model.

    Attributes:
        x: before each layer, and of the result: one more than there are layers.
        message: of each layer's messages; 0 for dense layers.
        skip: of each skip tensor.
    """

    x: tuple[int, ...]
    message: tuple[int, ...]
    skip: dict[str, int]


def warn_batch_norm(layers: Sequence[nn.Module]) -> None:
    """Warns of BatchNorm: its mean would be taken over a chunk."""
    for number, layer in enumerate(layers):
        for part in layer.modules():
            if type(part).__name__.startswith(("BatchNorm", "SyncBatchNorm", "LazyBatchNorm")):
                warnings.warn(
                    f"layer {number} has {type(part).__name__}, which in training takes mean and "
                    "variance over one node chunk and not over all nodes, so results depend on "
                    "the chunks; use LayerNorm",
                    UserWarning,
                    stacklevel=4,
                )
                break


def probe(
    layers: Sequence[GraphLayer],
    width: int,
    edge_width: int | None,
    dtype: torch.dtype,
    device: torch.device,
) -> Widths:
    """Runs the layers on six nodes in evaluation mode.

    Raises:
        InputError: a layer fails on rows of the width it is given, or mixes nodes.
    """
    training = [layer.training for layer in layers]
    for layer in layers:
        layer.eval()
    try:
        with torch.no_grad():
            return _run(layers, width, edge_width, dtype, device)
    finally:
        for layer, mode in zip(layers, training, strict=True):
            layer.train(mode)


def _rings(count: int, edge_width: int | None) -> Graph:
    nodes = np.arange(_RING * count)
    next_node = nodes // _RING * _RING + (nodes + 1) % _RING
    attr = None
    if edge_width is not None:
        attr = np.cos(np.arange(_RING * count * edge_width)).reshape(-1, edge_width)
        attr = np.tile(attr[:_RING], (count, 1)).astype(np.float32)
    return Graph.from_edge_index(np.stack([nodes, next_node]), nodes.size, edge_attr=attr)


def _run(
    layers: Sequence[GraphLayer],
    width: int,
    edge_width: int | None,
    dtype: torch.dtype,
    device: torch.device,
) -> Widths:
    graphs = [_rings(count, edge_width) for count in (2, 1)]
    places = [Topology(g, make_chunks(g, 1, "natural"), dtype, device) for g in graphs]
    both = torch.cos(torch.arange(2 * _RING * width, dtype=dtype, device=device)).view(-1, width)
    skips: dict[str, Tensor] = {}
    x_widths, message_widths = [width], []
    for number, layer in enumerate(layers):
        taken = {name: skips[name] for name in layer.needs}
        message, out = _layer(number, layer, places[0], both, taken)
        first = {name: rows[:_RING] for name, rows in taken.items()}
        alone = _layer(number, layer, places[1], both[:_RING], first)[1]
        if out.shape[0] != 2 * _RING or not torch.allclose(
            out[:_RING], alone, rtol=1e-3, atol=1e-5, equal_nan=True
        ):
            raise InputError(
                f"layer {number} ({type(layer).__name__}) mixes nodes outside the aggregation, "
                "so it cannot run by node chunks; use layers of single rows, such as LayerNorm"
            )
        message_widths.append(message.shape[1] if layer.aggregates else 0)
        x_widths.append(out.shape[1])
        both = out
        if layer.gives:
            skips[layer.gives] = out
    widths = {name: rows.shape[1] for name, rows in skips.items()}
    return Widths(tuple(x_widths), tuple(message_widths), widths)


def _layer(
    number: int, layer: GraphLayer, place: Topology, x: Tensor, skips: dict[str, Tensor]
) -> tuple[Tensor, Tensor]:
    try:
        message = layer.message(x) if layer.aggregates else x
        near = None
        if layer.aggregates:  # one chunk, so nothing is read from elsewhere
            near = ChunkNear(place, 0, message, Exchange(None, place.locals[0].others))
        return message, layer.update(x, near, **skips)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"layer {number} ({type(layer).__name__}) fails on rows of width {x.shape[1]}: {error}"
        ) from error
