"""hgt_loader: the drop-in HGTLoader, over a HeteroLoader."""

from collections.abc import Callable
from typing import Any

import torch
from torch_geometric import loader as pyg_loader

from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.interop.drawn import Drawn
from foregather.interop.typed.source import source_of
from foregather.interop.typed.typed_seat import TypedSeat
from foregather.sampling.hetero.hgt import Hgt

__all__ = ["HGTLoader"]


class HGTLoader(TypedSeat, pyg_loader.HGTLoader):  # type: ignore[misc]
    """`torch_geometric.loader.HGTLoader` with another engine: change only the import.

    Nodes are drawn as in `foregather.sampling.Hgt`, all edges of a node being looked at (torch-
    sparse looks at 50 of them). A type that was not reached is there and empty. `e_id` are
    positions in the edge_index of the data. Batches depend on `seed` alone, which defaults to
    torch's; a seed given twice has two rows, and neither pyg-lib nor torch-sparse is needed.

    Args:
        data: a PyG HeteroData, a pair of stores with types, or a HeteroGraph.
        num_samples: nodes of each layer: one list for all node types, or a dict that names every
            type.
        input_nodes: a node type, or (type, nodes).
        is_sorted: not needed.
        transform: called with each finished batch.
        transform_sampler_output: called with PyG's HeteroSamplerOutput of each batch.
        filter_per_worker: not needed.
        seed: the random seed for order and samples; None takes torch's initial seed.
        sampler: a torch sampler, which yields positions of input nodes.
        batch_sampler: a torch sampler that yields whole batches.
        options: other arguments of torch's DataLoader and of `HeteroLoader`.

    Raises:
        InputError: an attribute that cannot be sliced, or an argument that does not fit.
    """

    def __init__(
        self,
        data: Any,
        num_samples: Any,
        input_nodes: Any,
        is_sorted: bool = False,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        filter_per_worker: bool | None = None,
        *,
        seed: int | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        **options: Any,
    ) -> None:
        self._begin(data, filter_per_worker, options)
        self._drawn = Drawn.of(sampler, batch_sampler, options)
        self._from = None if isinstance(data, HeteroGraph) else source_of(data, None, None)
        if self._from is not None and self._from.plain:
            raise InputError(
                f"data is a {type(data).__name__} with one type of nodes; HGTLoader takes a "
                "HeteroData (see Data.to_heterogeneous)"
            )
        super().__init__(
            data if self._from is None else self._from.graph,
            None,
            input_nodes,
            sampler=Hgt(num_samples),
            seed=torch.initial_seed() % (1 << 64) if seed is None else seed,
            is_sorted=is_sorted,
            **options,
        )
        self._seated(transform, transform_sampler_output)
