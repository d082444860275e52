"""neighbor_loader: a drop-in replacement for PyG's NeighborLoader, backed by a foregather Loader.

Batches hold what PyG's hold: every node attribute of the data by `n_id`, every edge attribute by
`e_id`, the rest unchanged; `data.edge_index[:, e_id] == n_id[edge_index]`. Arguments that would
silently change results are refused; those that only say how batches are made (workers) are accepted
but not needed.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace as replaced
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch_geometric import loader as pyg_loader
from torch_geometric.data import Data

from foregather import _core
from foregather.errors import InputError
from foregather.graph.arrays import to_ids
from foregather.graph.graph import Graph
from foregather.interop.drawn import Drawn
from foregather.interop.finish import Finish
from foregather.interop.topology import topology_of
from foregather.loader.batches.leaf_sums import apply
from foregather.loader.loader import Loader
from foregather.loader.options import contents_from
from foregather.sampling.sampler import Sampler

__all__ = ["NeighborLoader"]

#: Options of PyG's workers; our batches are made in threads of this process and do not depend on
#: them.
_NOT_NEEDED = {
    "num_workers": 0,
    "persistent_workers": False,
    "prefetch_factor": None,
    "pin_memory": False,
    "timeout": 0,
    "worker_init_fn": None,
    "filter_per_worker": False,
}
_KINDS = ("directional", "bidirectional", "induced")


class NeighborLoader(Loader, pyg_loader.NeighborLoader):  # type: ignore[misc]
    """`torch_geometric.loader.NeighborLoader` with another engine: change only the import.

    The random numbers differ from PyG's; the distribution of samples is the same. Batches depend
    only on `seed`, which defaults to torch's (`torch.manual_seed` before the loader is created). A
    seed given twice has two rows in its batch, with the same neighbours.

    It is an instance of PyG's class, so PyG's `model.inference(loader)`, `ZipLoader`,
    `CachedLoader` and `PrefetchLoader` accept it. `loader(index)` is the batch of the input nodes
    at these positions; its sample is keyed by them and by the epoch.

    Args:
        data: a PyG Data, whose topology is converted once, or a Graph.
        num_neighbors: fan-outs, one per layer, -1 for all.
        input_nodes: node ids, a boolean mask, the name of a split, or None for all.
        input_time: PyG's argument; refused, because temporal sampling is not supported yet.
        replace: sample neighbours with replacement.
        subgraph_type: "directional" edges as drawn; "bidirectional" their reverses too (an edge
            that was not drawn has `e_id` and attributes of its reverse); "induced" all edges
            between the nodes. The last two have no layers and thus no layer counts.
        disjoint: a separate tree for each input node, sharing no nodes; `batch.batch` numbers them.
            The tree of an input node depends on its `input_id` and the epoch alone.
        temporal_strategy: PyG's argument; only "uniform".
        time_attr: PyG's argument; refused.
        weight_attr: the edge attribute to draw neighbours by.
        transform: called with each finished batch.
        transform_sampler_output: called with PyG's SamplerOutput of each batch, before attributes
            are looked up.
        is_sorted: not needed.
        filter_per_worker: not needed.
        neighbor_sampler: PyG's argument; refused, pass `sampler`.
        directed: PyG's old name: False means subgraph_type="induced".
        seed: the random seed for order and samples; None takes torch's initial seed.
        sampler: one of our Samplers, instead of num_neighbors; or one of torch's, which yields
            positions of input nodes (such as ImbalancedSampler).
        batch_sampler: a torch sampler that yields whole batches.
        options: other arguments of torch's DataLoader and of `Loader`. num_workers,
            persistent_workers, prefetch_factor, pin_memory, timeout and worker_init_fn are accepted
            but not needed: there are no worker processes.

    Raises:
        InputError: heterogeneous data, an attribute that cannot be sliced, or an argument that is
            not supported.
    """

    multiprocessing_context = None  # torch's name; there are no worker processes

    def __init__(
        self,
        data: Any,
        num_neighbors: Any = None,
        input_nodes: Any = None,
        input_time: Any = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        seed: int | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        **options: Any,
    ) -> None:
        for name, usual in _NOT_NEEDED.items():
            setattr(self, name, options.pop(name, usual))
        self.filter_per_worker = bool(filter_per_worker)
        kind = _kind(subgraph_type, directed)
        rule = sampler if isinstance(sampler, Sampler) or not _is_torch(sampler) else None
        self._drawn = Drawn.of(None if rule is sampler else sampler, batch_sampler, options)
        graph, stored = data, None
        contents = contents_from(options.pop("contents", None), options)
        if contents.pyg is False:
            raise InputError("pyg is False, but these batches are PyG's; use foregather.Loader")
        if contents.leaves != "rows" and not isinstance(data, Graph):
            raise InputError(
                f"leaves is {contents.leaves!r}, but batches of a Data have its attributes of all "
                "nodes; pass Graph.from_pyg(data), or leave it out"
            )
        weights = rule is not None or contents.norm is not None
        if not isinstance(data, Graph):
            whole = 0 if replace else _least_fanout(num_neighbors)
            graph, stored = topology_of(data, weight_attr, weights, whole)
            if weight_attr is not None:
                weight_attr = "edge_weight"  # the column's name in the graph
        _check_kind(kind, data, weights, disjoint, options)
        super().__init__(
            graph,
            _fanouts(num_neighbors),
            input_nodes,
            replace=replace,
            sampler=rule,
            seed=torch.initial_seed() % (1 << 64) if seed is None else seed,
            contents=replaced(contents, pyg=True),
            input_time=input_time,
            disjoint=disjoint,
            temporal_strategy=temporal_strategy,
            time_attr=time_attr,
            weight_attr=weight_attr,
            is_sorted=is_sorted,
            neighbor_sampler=neighbor_sampler,
            **options,
        )
        self._data = data
        if isinstance(data, Graph):
            self.transform = transform
            if transform_sampler_output is not None:
                raise InputError("transform_sampler_output is for a Data; use transform")
            return
        self.transform = Finish(
            data,
            graph,
            stored,
            subgraph=kind,
            weights=weights,
            device=self.device,
            threads=int(options.get("threads", 0)),
            change=transform_sampler_output,
            transform=transform,
        )
        self.device = None  # attributes are looked up first; Finish moves the whole batch

    def __iter__(self) -> Iterator[Any]:
        if self._drawn is not None:
            seeds = self._maker.seeds
            drawn = self._drawn.batches(seeds.batch_size, seeds.drop_last, seeds.count)
            self._maker = replaced(self._maker, seeds=replaced(seeds, drawn=drawn))
        return super().__iter__()

    def __len__(self) -> int:
        if self._drawn is not None:
            seeds = self._maker.seeds
            return self._drawn.count(seeds.batch_size, seeds.drop_last)
        return super().__len__()

    def __call__(self, index: Any) -> Any:
        """Returns the batch of the input nodes at these positions."""
        out = self.collate_fn(index)
        return out if self.filter_per_worker else self.filter_fn(out)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    # ---- used by PyG's other loaders -------------------------------------------------------

    def collate_fn(self, index: Any) -> Any:
        """Samples the input nodes at these positions; `filter_fn` turns the sample into a batch.

        Raises:
            InputError: a position does not exist, or the loader works over ranks.
        """
        if self._source.ranks is not None:
            raise InputError("over ranks all ranks make batches together; loop over the loader")
        maker = self._maker
        position = to_ids(index, maker.seeds.count, "index", "input nodes")
        nodes, input_id = maker.seeds.at(np.ascontiguousarray(position, np.int64))
        number = _core.xxh64(np.ascontiguousarray(nodes).view(np.uint8)) >> 16
        sampled = maker.sample([(nodes, input_id)], self.epoch, number)
        out = maker.finish(maker.assembler.batch(sampled[0], nodes, input_id))
        return self.filter_fn(out) if self.filter_per_worker else out

    def filter_fn(self, out: Any) -> Any:
        """Returns the finished batch of a sample from `collate_fn`."""
        if self.device is not None:
            out = out.to(self.device, non_blocking=True)
        return out if self.transform is None else apply(self.transform, out)

    def _get_iterator(self) -> Iterator[Any]:
        return iter(self)

    @contextmanager
    def enable_multithreading(self, worker_threads: int | None = None) -> Iterator[None]:
        """Uses `num_threads` threads to sample and gather inside the block; None for all."""
        before = self._maker
        threads = int(worker_threads or 0)
        assembler = replaced(before.assembler, threads=threads)
        self._maker = replaced(before, threads=threads, assembler=assembler)
        try:
            yield
        finally:
            self._maker = replaced(self._maker, threads=before.threads, assembler=before.assembler)

    @contextmanager
    def enable_cpu_affinity(self, loader_cores: Any = None) -> Iterator[None]:
        """Refused: there are no worker processes to tie to cores.

        Raises:
            InputError: always.
        """
        raise InputError(
            "enable_cpu_affinity binds worker processes to cores, but there are none; set the "
            "number of threads with threads=, or start the program under taskset"
        )
        yield

    # ---- queries ---------------------------------------------------------------------------

    @property
    def data(self) -> Any:
        """What the loader was made from."""
        return self._data

    @property
    def node_sampler(self) -> Sampler:
        """The rule that chooses neighbours, under PyG's name."""
        return self._maker.sampler

    @property
    def sampler(self) -> Any:
        """Torch's sampler if one was given, otherwise the rule that chooses neighbours."""
        return self._maker.sampler if self._drawn is None else self._drawn.sampler

    @property
    def drop_last(self) -> bool:
        """Whether a smaller last batch is dropped."""
        return self._maker.seeds.drop_last

    def state_dict(self) -> dict[str, Any]:
        """As `Loader.state_dict`.

        Not available with a torch sampler, whose order cannot be saved.
        """
        self._refuse_place()
        return super().state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As `Loader.load_state_dict`."""
        self._refuse_place()
        super().load_state_dict(state)

    def _refuse_place(self) -> None:
        if self._drawn is not None:
            raise InputError(
                "torch's sampler draws a new order each epoch that cannot be saved, so neither "
                "can a position in it; use shuffle=True, whose order is a function of the seed"
            )


def _is_torch(sampler: Any) -> bool:
    """Whether this yields positions: a torch Sampler, or any iterable."""
    return sampler is not None and hasattr(sampler, "__iter__")


def _fanouts(num_neighbors: Any) -> Any:
    if isinstance(num_neighbors, dict) or isinstance(getattr(num_neighbors, "values", None), dict):
        raise InputError(
            "num_neighbors is a dict, but the graph has one type of edges; pass a list"
        )
    values = getattr(num_neighbors, "values", num_neighbors)  # PyG's NumNeighbors
    return num_neighbors if callable(values) else values


def _least_fanout(num_neighbors: Any) -> float:
    """Rows of up to this many edges are taken whole in every layer; 0 if there are no fan-outs."""
    fanouts = num_neighbors if isinstance(num_neighbors, (list, tuple)) else ()
    try:
        return min((math.inf if int(one) < 0 else int(one) for one in fanouts), default=0)
    except (TypeError, ValueError):
        return 0


def _kind(subgraph_type: Any, directed: bool) -> str:
    kind = subgraph_type.value if isinstance(subgraph_type, Enum) else subgraph_type
    if kind not in _KINDS:
        raise InputError(f"subgraph_type is {kind!r}, expected one of {', '.join(_KINDS)}")
    return str(kind) if directed else "induced"


def _check_kind(
    kind: str, data: Any, weights: bool, disjoint: bool, options: Mapping[str, Any]
) -> None:
    if kind == "directional":
        return
    if kind == "induced" and disjoint:
        raise InputError(
            "disjoint=True does not work with subgraph_type='induced', in PyG neither; use "
            "'directional' or 'bidirectional'"
        )
    if not isinstance(data, Data) or options.get("grid") is not None or options.get("memory"):
        raise InputError(
            f"subgraph_type is {kind!r}, which needs a PyG Data in memory; leave out memory= and "
            "grid=, and pass the Data"
        )
    if weights or options.get("expand", "once") != "once":
        raise InputError(
            f"subgraph_type is {kind!r}, which only works with num_neighbors; leave out sampler=, "
            "norm= and expand="
        )
