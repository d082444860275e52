"""on_disk: a graph folder behind PyG's own NodeLoader, with the plan acting through the stores.

PyG's loaders ask for one batch at a time. Here the order of batches is decided by us as well, as a
`batch_sampler` of torch; so a Loader can sample a bulk of them, plan what they read and read it
ahead within a budget. When PyG then asks the sampler for a batch and the FeatureStore for its rows,
both are there. Questions that were not foreseen are answered too, one by one and unplanned.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Sampler as TorchSampler
from torch.utils.data import get_worker_info
from torch_geometric.sampler import SamplerOutput

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.interop.sampler import PygSampler
from foregather.interop.stores.feature_store import PygFeatureStore
from foregather.interop.stores.graph_store import PygGraphStore
from foregather.loader.batches.batch import Batch
from foregather.loader.loader import Loader
from foregather.loader.options import BatchContents
from foregather.loader.seeds import Seeds

__all__ = ["OnDisk", "OnDiskFeatureStore"]


class OnDisk:
    """A graph folder as what PyG's NodeLoader takes: stores, a sampler and the order of batches.

    `NodeLoader(**OnDisk(graph, [10, 5], "train", batch_size=1024, memory="2GB").arguments)` is
    PyG's own loader. Each loop over it is one epoch of `loader`, with the same batches: a function
    of (graph, fan-outs, input nodes, seed, epoch). Do not give the NodeLoader `shuffle`,
    `batch_size` or workers; shuffle here.

    Args:
        graph: a Graph, usually one from a folder.
        num_neighbors: fan-outs, or None with `sampler=`.
        input_nodes: as for `Loader`.
        batch_size: input nodes per batch.
        memory: the budget, as for `Loader`.
        options: other arguments of `Loader`: shuffle, drop_last, sampler, replace, seed, threads,
            bulk, prefetch, storage.

    Attributes:
        loader: plans, samples and reads; `loader.plan()` predicts an epoch, `loader.counters()`
            and `loader.explain()` say what was read.
        feature_store: the features and labels.
        graph_store: the topology.
        node_sampler: gives PyG the samples.
        batch_sampler: the order of batches.

    Raises:
        InputError: an argument breaks its rule, the graph has edge weights or edge features, or the
            sampler gives edges factors, which PyG's stores have no place for.
        BudgetError: `memory` does not hold one batch.
    """

    def __init__(
        self,
        graph: Graph,
        num_neighbors: Any = None,
        input_nodes: Any = None,
        batch_size: int = 1,
        *,
        memory: str | int | None = "auto",
        **options: Any,
    ) -> None:
        self.graph_store = PygGraphStore(graph)
        seeds = Seeds.make(graph, input_nodes, 1)
        nodes = seeds.at(np.arange(seeds.count))[0]  # ids, so that input_id are positions
        self.loader = Loader(
            graph,
            num_neighbors,
            nodes,
            batch_size,
            memory=memory,
            contents=BatchContents(pyg=False),
            **options,
        )
        self.feature_store = OnDiskFeatureStore(graph)
        self.node_sampler = _PlannedSampler(self.loader, self.feature_store)
        self.batch_sampler = _Order(self.loader, self.node_sampler)
        self._nodes = torch.from_numpy(np.array(nodes, np.int64))

    @property
    def arguments(self) -> dict[str, Any]:
        """What to call `torch_geometric.loader.NodeLoader` with."""
        return {
            "data": (self.feature_store, self.graph_store),
            "node_sampler": self.node_sampler,
            "input_nodes": self._nodes,
            "batch_sampler": self.batch_sampler,
            "filter_per_worker": False,
        }

    def close(self) -> None:
        """Frees the cache and stops reading."""
        self.loader.close()

    def __enter__(self) -> "OnDisk":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class OnDiskFeatureStore(PygFeatureStore):
    """Features and labels of a folder, where rows of a planned batch are answered from the plan.

    Attributes:
        planned_rows: rows that a plan had read, or kept, before PyG asked for them.
        other_rows: rows that nobody foresaw; they were read when they were asked for.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph, loaded=False)
        self.__dict__.update(planned_rows=0, other_rows=0, _expected=None)

    def expect(self, batch: Batch) -> None:
        """Says which rows are asked for next; they are handed over once."""
        self.__dict__["_expected"] = batch

    def _multi_get_tensor(self, attrs: Sequence[Any]) -> list[Tensor]:
        batch: Batch | None = self._expected
        nodes = None if batch is None else batch.n_id
        ready: dict[str, Tensor | None] = {} if batch is None else {"x": batch.x, "y": batch.y}
        made: list[Tensor | None] = []
        for attr in attrs:
            rows = ready.get(attr.attr_name) if _same(attr.index, nodes) else None
            made.append(rows)
            if rows is not None:
                self.__dict__["planned_rows"] += len(rows)
                self.__dict__["_expected"] = None  # the batch is PyG's now
        left = [attr for attr, rows in zip(attrs, made, strict=True) if rows is None]
        others = iter(super()._multi_get_tensor(left) if left else [])
        filled = [next(others) if rows is None else rows for rows in made]
        self.__dict__["other_rows"] += sum(
            len(rows) for rows, known in zip(filled, made, strict=True) if known is None
        )
        return filled

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the graph; what was planned stays behind."""
        return OnDiskFeatureStore, (self.graph,)


class _PlannedSampler(PygSampler):
    """Hands the samples that a Loader made ahead to PyG."""

    def __init__(self, loader: Loader, store: OnDiskFeatureStore) -> None:
        super().__init__(loader.sampler, loader.graph, loader.seed)
        self._loader, self._store = loader, store
        self._next: Batch | None = None

    def expect(self, batch: Batch) -> None:
        """Says which batch is asked for next."""
        self._next = batch

    def sample_from_nodes(self, inputs: Any, **_: Any) -> Any:
        """The sample of the batch that comes next, or of any other input nodes."""
        if get_worker_info() is not None:
            raise InputError(
                "num_workers is above 0, but batches are made ahead in threads of this process; "
                "leave it at 0"
            )
        batch, self._next = self._next, None
        if batch is None or not _same(inputs.input_id, batch.input_id):
            batch = self._loader.one(inputs.node.numpy(), self.epoch)
        weighted = batch.edge_weight is not None
        self._check(batch.seed_position is not None, weighted)
        self._store.expect(batch)
        assert batch.edge_index is not None
        return SamplerOutput(
            node=batch.n_id,
            row=batch.edge_index[0],
            col=batch.edge_index[1],
            edge=batch.e_id if self._named else None,
            batch=None,
            num_sampled_nodes=batch.num_sampled_nodes,
            num_sampled_edges=batch.num_sampled_edges,
            metadata=(inputs.input_id, inputs.time),
        )


class _Order(TorchSampler[list[int]]):
    """The batches of an epoch as positions of input nodes, each announced when its turn comes."""

    def __init__(self, loader: Loader, sampler: _PlannedSampler) -> None:
        self._loader, self._sampler = loader, sampler

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self._loader:
            self._sampler.expect(batch)
            positions = batch.input_id.tolist()
            del batch  # PyG's from now on, so that its memory is free with it
            yield positions

    def __len__(self) -> int:
        return len(self._loader)


def _same(index: Any, nodes: Tensor | None) -> bool:
    return nodes is not None and (
        index is nodes or (isinstance(index, Tensor) and torch.equal(index, nodes))
    )
