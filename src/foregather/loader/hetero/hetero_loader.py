"""hetero_loader: yields the batches of graphs with node types, relations and times.

Batches are a pure function of (graph, sampler, input rows, seed, epoch), and a disjoint tree of
(graph, sampler, seed, epoch, its input row): threads, bulk and prefetch change when they are made,
never what they are.
"""

from collections.abc import Callable
from dataclasses import replace as replaced
from typing import TYPE_CHECKING, Any, Literal

from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import about
from foregather.graph.on_disk.stamp import Stamp
from foregather.loader.arguments import check_run, count_ahead, refuse
from foregather.loader.batches.leaf_sums import apply
from foregather.loader.epoch_loader import EpochLoader
from foregather.loader.hetero.hetero_batch import HeteroAssembler
from foregather.loader.hetero.hetero_recipe import HeteroRecipe
from foregather.loader.hetero.identity import hetero_identity
from foregather.loader.hetero.input_rows import RowTimes, split_input
from foregather.loader.hetero.rule import HeteroSampler, check_rule, make_rule
from foregather.loader.own_batches import OwnBatches, RanksThatAgree
from foregather.loader.seeds import MOST_EPOCH, Seeds
from foregather.loader.source import MemorySource
from foregather.sampling.hetero.hetero_neighbor import SubgraphType, TemporalStrategy, TimeLevel
from foregather.units import to_whole

if TYPE_CHECKING:
    import torch

__all__ = ["HeteroLoader"]

_DEFAULT_BULK = 8
#: Arguments of Loader that typed graphs do not have yet.
_LATER = ("memory", "storage", "ranks", "contents", "expand")


class HeteroLoader(EpochLoader):
    """Iterates over minibatches of a typed graph as PyG's `HeteroData`, with PyG's argument names.

    A batch holds, for every node type of the graph, `n_id`, every feature array under its name (`x`
    is PyG's), `y` and `time` where the type has them, `num_sampled_nodes`, and with disjoint trees
    `batch`; for the type of the input rows also `input_id`, `batch_size`, `seed_id` and
    `seed_time`; for every relation `edge_index`, `e_id` (positions in the edge_index it was made
    from), `edge_attr`, `edge_weight`, `time` and `num_sampled_edges`. With a sampler that expands
    per layer (`HeteroLadies`, `HeteroFastGCN`) relations have `layers` in place of `edge_index`:
    for each layer, the widest first, its edge_index, e_id, size, weight and edge_attr.

    `for batch in loader` is one epoch; the next loop is the next epoch, also after a `break`. After
    `load_state_dict` the first loop continues inside the epoch. Each of several loops yields its
    own batches, whatever the others do.

    Args:
        graph: the graph, in memory.
        num_neighbors: fan-outs: a list, a dict from edge types to lists, or PyG's `NumNeighbors`;
            or pass `sampler`.
        input_nodes: a node type for all its nodes, or (type, nodes): the name of a split, a boolean
            mask, or node ids. An id given again is a row of its own: with disjoint trees it has its
            own tree, otherwise `seed_position` says where the nodes of rows are.
        batch_size: input rows per batch.
        input_time: one time per input row (for a mask, per node it selects): its tree sees nothing
            later. None, with times of nodes: those of the input nodes.
        sampler: a `HeteroNeighbor`, `HeteroLabor`, `HeteroLadies`, `HeteroFastGCN` or `Hgt`, in
            place of num_neighbors and its options; weights that it gives edges are `edge_weight`.
        shuffle: a new order of the input rows each epoch.
        drop_last: drop a smaller last batch.
        replace: sample neighbours with replacement.
        disjoint: every input row has its own tree; always so with times. `batch` numbers the trees.
        temporal_strategy: "uniform" among the edges that a tree may see, or the "last" of them.
        time: "node" or "edge": whose times limit trees; None: times are not looked at.
        time_attr: PyG's name for it: "time" takes the times there are, of nodes or of edges.
        subgraph_type: "directional", "bidirectional" or "induced"; see `HeteroNeighbor`. The last
            two have no layer counts.
        weight_attr: "edge_weight" draws neighbours by the weights of those relations that have
            some.
        seed: what order and samples are derived from.
        transform: called with each batch, in the thread that iterates.
        device: where batches are moved to.
        threads: of sampling and gathering; 0: all, or half of them while nobody waits for batches.
        bulk: batches sampled together; the first bulks have 1, 2, 4, ... batches.
        prefetch: batches made ahead, at most 4096; "auto" and 0 as for `Loader`.
        grid: the ranks of a run under torchrun, each with the whole graph in memory: each takes its
            own batches, one per step, and all take the same number of steps; `len` counts steps.
            Together they are the batches of one rank. `batch.share` is the weight of a batch's mean
            loss in its step, 0 for one that only fills the last step.
        others: other arguments of PyG; refused unless they ask for nothing.

    Raises:
        InputError: an argument breaks its rule; the message says which.
        FormatError: the graph is damaged, or its folder holds another one by now.
        MissingDependencyError: PyG is not installed.
    """

    def __init__(
        self,
        graph: HeteroGraph,
        num_neighbors: Any = None,
        input_nodes: Any = None,
        batch_size: int = 1,
        *,
        input_time: Any = None,
        sampler: Any = None,
        shuffle: bool = False,
        drop_last: bool = False,
        replace: bool = False,
        disjoint: bool = False,
        temporal_strategy: TemporalStrategy = "uniform",
        time: TimeLevel | None = None,
        time_attr: str | None = None,
        subgraph_type: SubgraphType = "directional",
        weight_attr: str | None = None,
        seed: int = 0,
        transform: Callable[[Any], Any] | None = None,
        device: "torch.device | str | None" = None,
        threads: int = 0,
        bulk: int = _DEFAULT_BULK,
        prefetch: int | Literal["auto"] = "auto",
        grid: RanksThatAgree | None = None,
        **others: Any,
    ) -> None:
        for name in _LATER:
            if others.pop(name, None) is not None:
                raise InputError(
                    f"{name} is an argument of Loader; typed graphs are whole in memory, on every "
                    "rank, so leave it out"
                )
        refuse(others, type(self))
        if not isinstance(graph, HeteroGraph):
            raise InputError(
                f"graph is a {type(graph).__name__}, expected a HeteroGraph; use Loader for a Graph"
            )
        check_run(threads, transform, device)
        self.device, self.transform = device, transform
        self.prefetch = count_ahead(prefetch, None)
        options = {
            "replace": replace,
            "disjoint": disjoint,
            "temporal_strategy": temporal_strategy,
            "time": time,
            "time_attr": time_attr,
            "subgraph_type": subgraph_type,
            "weight_attr": weight_attr,
        }
        rule = make_rule(graph, num_neighbors, sampler, options)
        self._stamp = Stamp.of(graph)
        pin = str(device).startswith("cuda")
        dealt = (batch_size, shuffle, drop_last, seed)
        self._maker = self._recipe(graph, rule, (input_nodes, input_time), dealt, (pin, threads))
        self._bulk, self._turns = to_whole(bulk, "bulk", 1), None
        self._digest: list[str] = []
        self._go_to(0, 0)
        if grid is not None:
            self._source = OwnBatches(grid.rank, grid.size)
            grid.agree_all({name: f"{value}" for name, value in self.state_dict().items()})
            return
        self._source = MemorySource(self._bulk)
        self._source.adapts = prefetch == "auto"

    def _recipe(
        self,
        graph: HeteroGraph,
        rule: HeteroSampler,
        asked: tuple[Any, Any],
        dealt: tuple[Any, Any, Any, Any],
        how: tuple[bool, int],
    ) -> HeteroRecipe:
        """What batches are made of.

        Args:
            graph: the graph.
            rule: the sampler.
            asked: input_nodes and input_time.
            dealt: batch_size, shuffle, drop_last and seed.
            how: whether tensors are page-locked, and threads.
        """
        kind, nodes = split_input(graph, asked[0])
        with about(f"node type {kind!r}"):
            seeds = Seeds.make(graph.nodes[kind], nodes, *dealt)
            times = RowTimes.make(graph, kind, seeds.count, rule, asked[1])
        check_rule(rule, graph, kind, how[1])
        made = self._assembler(graph, rule.time, *how)
        return HeteroRecipe(graph, rule, kind, seeds, times, made, how[1])

    def _assembler(
        self, graph: HeteroGraph, level: TimeLevel | None, pin: bool, threads: int
    ) -> Any:
        """What batches hold."""
        return HeteroAssembler.of(graph, level, pin, threads)

    @property
    def graph(self) -> HeteroGraph:
        """The graph that batches are sampled from."""
        graph: HeteroGraph = self._maker.graph
        return graph

    @property
    def data(self) -> Any:
        """The graph, under PyG's name."""
        return self.graph

    @property
    def node_type(self) -> str:
        """The type of the input rows."""
        name: str = self._maker.node_type
        return name

    def _check_source(self) -> None:
        if self._stamp is not None:
            self._stamp.check()

    def _identity(self) -> dict[str, Any]:
        said, over = hetero_identity(self._maker, self._digest), self._source.ranks
        return said if over is None else {**said, "ranks": over}

    def beside(
        self, input_nodes: Any, batch_size: int | None = None, input_time: Any = None
    ) -> "HeteroLoader":
        """Returns a loader of other input rows, in order, with the same sampler.

        Args:
            input_nodes: as for a new loader.
            batch_size: None takes this one's.
            input_time: as for a new loader.
        """
        maker, size = self._maker, self.batch_size if batch_size is None else batch_size
        kind, nodes = split_input(maker.graph, input_nodes)
        with about(f"node type {kind!r}"):
            seeds = Seeds.make(maker.graph.nodes[kind], nodes, size, seed=self.seed)
            times = RowTimes.make(maker.graph, kind, seeds.count, maker.sampler, input_time)
        other = self.__copy__()
        other._maker = replaced(maker, node_type=kind, seeds=seeds, times=times)
        other._go_to(0, 0)
        return other

    def one(self, nodes: Any, input_time: Any = None, epoch: int = 0) -> Any:
        """Returns the batch of these nodes at once: no thread, and the position is not changed.

        It is a pure function of (seed, epoch, nodes, times): bit for bit the first batch of that
        epoch of `beside((type, nodes), len(nodes), input_time)`.

        Args:
            nodes: of the type of the input rows: ids, a mask or the name of a split; or (type,
                nodes). Their order and repeats count.
            input_time: as for a new loader.
            epoch: number of the epoch whose samples are drawn.

        Raises:
            InputError: there is no node, one does not exist, a time is missing, or the loader is
                over ranks or of links.
        """
        if self._source.ranks is not None:
            raise InputError(
                "this HeteroLoader is over ranks, which make batches together; for one batch at "
                "once make a HeteroLoader without grid="
            )
        number = to_whole(epoch, "epoch", 0, MOST_EPOCH)
        named = isinstance(nodes, tuple | list) and len(nodes) == 2 and isinstance(nodes[0], str)
        asked = nodes if named else (self.node_type, nodes)
        maker = self.beside(asked, 1, input_time)._maker
        if not maker.seeds.count:
            raise InputError("nodes is empty, expected at least one node")
        self._check_source()
        seeds = replaced(maker.seeds, batch_size=maker.seeds.count)
        batch = replaced(maker, seeds=seeds).one(number, 0)()
        if self.device is not None:
            batch = batch.to(self.device, non_blocking=True)
        return batch if self.transform is None else apply(self.transform, batch)

    def explain(self) -> str:
        """Describes where the graph is, and what loops held beside it."""
        text: str = self._source.explain()
        return text

    def close(self) -> None:
        """Does nothing yet: threads end with their loops. For symmetry with Loader."""
