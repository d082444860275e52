"""pyg: adapters that plug foregather's samplers, features and topology into PyTorch Geometric.

`NeighborLoader` replaces PyG's by changing only the import. The rest is for code that must keep
PyG's own loaders, which is slower: PyG asks for one batch at a time without announcing the next, so
nothing can be planned ahead.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError, MissingDependencyError
from foregather.gather.memory import gather
from foregather.graph.arrays import to_ids
from foregather.graph.graph import Graph
from foregather.graph.load import load_if_fits
from foregather.graph.mapped import fetch, take
from foregather.sampling.sampler import Sampler

try:
    import torch
    from torch import Tensor
    from torch_geometric.data import EdgeAttr, FeatureStore, GraphStore, TensorAttr
    from torch_geometric.data.graph_store import EdgeLayout
    from torch_geometric.sampler import BaseSampler, SamplerOutput

    from foregather.interop.neighbor_loader import NeighborLoader
except ImportError as error:
    raise MissingDependencyError(
        "foregather.interop.pyg needs torch_geometric; pip install 'foregather[pyg]'"
    ) from error

__all__ = ["NeighborLoader", "PygFeatureStore", "PygGraphStore", "PygSampler", "from_pyg"]


def from_pyg(data: Any, **options: Any) -> Graph:
    """A Graph from a PyG Data; see `Graph.from_pyg`."""
    return Graph.from_pyg(data, **options)


class PygSampler(BaseSampler):  # type: ignore[misc]
    """A foregather sampler for PyG's NodeLoader.

    PyG does not number its batches, so a sample is keyed by the seeds of the batch and by `epoch`:
    the same for any number of workers. If the batches do not change from epoch to epoch (no
    shuffle), call `set_epoch` for new samples.

    `e_id` of the batches names edges of the `edge_index` the graph was made from, or positions in
    the graph's CSC order for a graph from a folder; it is left out for a graph with self-loops
    that its `edge_index` does not have.

    Args:
        sampler: any sampler with `expand="once"`; PyG has one edge_index for all layers.
        graph: the graph to sample.
        seed: seed of the run.
        threads: threads per batch, 0 for all.

    Edge weights of a Data are included in its batches, by `e_id`, as in PyG. A sampler that weights
    its edges (such as LABOR) is refused: PyG cannot represent the weights.

    Raises:
        InputError: the sampler expands per layer, or the graph has edge weights and edges without
            an `e_id` to find them by.
    """

    def __init__(self, sampler: Sampler, graph: Graph, seed: int = 0, threads: int = 1) -> None:
        if sampler.expand != "once":
            raise InputError(
                'the sampler has expand="per-layer", which PyG\'s one edge_index cannot hold; '
                'use expand="once", or foregather.Loader'
            )
        self.sampler, self.graph, self.seed, self.threads = sampler, graph, seed, threads
        self.epoch = 0
        ids = graph.edge_ids
        self._named = ids is None or ids.size == 0 or int(ids.min()) >= 0
        self._permutation = None
        if graph.edge_weight is not None and not self._named:
            raise InputError(
                "the graph has edge weights, but with the self-loops that were added PyG cannot "
                "tell which belong to a batch; use foregather.Loader"
            )
        if ids is not None and self._named:
            self._permutation = torch.from_numpy(np.array(ids))

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch that samples are keyed by; call it before the loop starts its workers."""
        self.epoch = epoch

    def sample_from_nodes(self, inputs: Any, **_: Any) -> Any:
        """Samples a batch of seeds.

        Raises:
            InputError: a seed is not a node, or is given twice; or edges have factors.
        """
        nodes = to_ids(inputs.node, self.graph.num_nodes, "input_nodes")
        number = _core.xxh64(np.ascontiguousarray(nodes).view(np.uint8)) >> 16
        sample = self.sampler.sample_bulk(
            self.graph,
            [nodes],
            seed=self.seed,
            epoch=self.epoch,
            first_batch=number,
            threads=self.threads,
        )[0]
        if sample.seed_position is not None:
            raise InputError(
                "a batch holds a seed twice, which PyG's batches cannot; make input_nodes unique, "
                "or use foregather.Loader"
            )
        if sample.weight is not None:
            raise InputError(
                f"{type(self.sampler).__name__} gives each edge a factor, which PyG's batches have "
                "no place for, and without it the sums are wrong; use foregather.Loader, which has "
                "it in batch.edge_weight"
            )
        return SamplerOutput(
            node=_long(sample.node),
            row=_long(sample.row),
            col=_long(sample.col),
            edge=_long(sample.edge) if self._named else None,
            batch=None,
            num_sampled_nodes=np.diff(sample.num_nodes, prepend=0).tolist(),
            num_sampled_edges=list(sample.num_edges),
            metadata=(inputs.input_id, inputs.time),
        )

    def sample_from_edges(self, *_: Any, **__: Any) -> Any:
        """Not supported.

        Raises:
            InputError: always.
        """
        raise InputError("edges as seeds are not supported; pass nodes, with NodeLoader")

    @property
    def edge_permutation(self) -> "Tensor | None":
        """From the graph's CSC order to the edge_index it was made from; None for a folder."""
        return self._permutation


class PygFeatureStore(FeatureStore):  # type: ignore[misc]
    """Features `x` and labels `y` of a graph as a PyG FeatureStore; read-only.

    Use it with `filter_per_worker=False`, so that rows are read in the main process.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.__dict__["graph"] = load_if_fits(graph, ["features", "labels"])

    def _rows(self, attr: Any) -> tuple[int, ...] | None:
        if attr.attr_name == "x" and self.graph.features is not None:
            return (self.graph.num_nodes, self.graph.features.width)
        if attr.attr_name == "y" and self.graph.labels is not None:
            return tuple(self.graph.labels.shape)
        return None

    def _get_tensor(self, attr: Any) -> "Tensor":
        if self._rows(attr) is None:  # KeyError, because PyG's stores raise it
            raise KeyError(f"the graph has no {attr.attr_name!r}, only x and y where it has them")
        index = attr.index
        if index is None or isinstance(index, slice):
            ids = np.arange(self.graph.num_nodes)[index if index is not None else slice(None)]
        else:
            ids = to_ids(np.atleast_1d(np.asarray(index)), self.graph.num_nodes, "index")
        if attr.attr_name == "x":
            assert self.graph.features is not None
            return gather(self.graph.features, np.ascontiguousarray(ids))
        assert self.graph.labels is not None
        return torch.from_numpy(np.array(take(self.graph.labels, ids)))

    def _get_tensor_size(self, attr: Any) -> tuple[int, ...] | None:
        return self._rows(attr)

    def get_all_tensor_attrs(self) -> list[Any]:
        """The attributes there are: x, y or both."""
        attrs = [TensorAttr(group_name=None, attr_name=name) for name in ("x", "y")]
        return [attr for attr in attrs if self._rows(attr) is not None]

    def _put_tensor(self, tensor: Any, attr: Any) -> bool:
        raise InputError("the graph is read-only; make a new one with Graph.from_edge_index")

    def _remove_tensor(self, attr: Any) -> bool:
        raise InputError("the graph is read-only; make a new one with Graph.from_edge_index")


class PygGraphStore(GraphStore):  # type: ignore[misc]
    """The topology of a graph as a PyG GraphStore; read-only.

    PyG's own sampler copies all of it into memory as int64.

    Args:
        graph: where the edges are.
        edge_attr: False leaves the graph's edge features out.

    Raises:
        InputError: the graph has edge weights or edge features, which such a store cannot hand on.
    """

    def __init__(self, graph: Graph, edge_attr: bool = True) -> None:
        if graph.edge_weight is not None:
            raise InputError(
                "the graph has edge weights, which PyG does not ask a GraphStore for; use "
                "foregather.Loader, or give NodeLoader a Data with edge_weight"
            )
        if graph.edge_features is not None and edge_attr:
            raise InputError(
                "the graph has edge features, which PyG does not ask stores for; use "
                "foregather.Loader, or leave them out with edge_attr=False"
            )
        super().__init__()
        self.__dict__["graph"] = graph

    def _get_edge_index(self, attr: Any) -> "tuple[Tensor, Tensor] | None":
        graph = self.graph
        if attr.layout == EdgeLayout.CSC:
            return _long(graph.indices), _long(graph.indptr)
        if attr.layout == EdgeLayout.COO:
            target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
            return _long(graph.indices), _long(target)
        return None  # PyG derives CSR itself

    def get_all_edge_attrs(self) -> list[Any]:
        """The one edge type, in CSC."""
        size = (self.graph.num_nodes, self.graph.num_nodes)
        return [EdgeAttr(edge_type=None, layout=EdgeLayout.CSC, is_sorted=True, size=size)]

    def _put_edge_index(self, edge_index: Any, edge_attr: Any) -> bool:
        raise InputError("the graph is read-only; make a new one with Graph.from_edge_index")

    def _remove_edge_index(self, edge_attr: Any) -> bool:
        raise InputError("the graph is read-only; make a new one with Graph.from_edge_index")


def _long(values: npt.NDArray[Any]) -> "Tensor":
    return torch.from_numpy(np.array(fetch(values), np.int64))
