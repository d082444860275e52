"""hgt: the sampler of the Heterogeneous Graph Transformer, which keeps node types in balance.

A minibatch is a pure function of (graph, sampler, seed, epoch, batch number); the draw of a node is
one of (seed, epoch, batch, layer, type, node). Budgets are whole numbers, so the order in which
they are added up does not matter, and threads and bulk size change nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import find_node_type
from foregather.sampling.bulk import Expand
from foregather.sampling.hetero.hetero_bulk import HeteroBulk
from foregather.sampling.hetero.inputs import sample_by
from foregather.sampling.hetero.kernel import Kernel, make_hgt_kernel
from foregather.sampling.kernel_cache import GraphCache

__all__ = ["Hgt"]

Array = npt.NDArray[Any]
_EXPECTED = "expected one number of nodes per layer"


@dataclass(frozen=True)
class Hgt:
    """Samples a number of nodes of each type in each layer, those that are best connected first.

    Every node that was not taken yet has a *node budget*: the sum of 1 / degree over its edges into
    the nodes that were taken, the degree being that of the edge's target in its relation. In each
    layer every type gives its number of nodes, drawn without replacement in proportion to the
    squares of their budgets; then the budgets are brought up to date. All edges between the nodes
    that were taken are in the minibatch.

    Args:
        num_samples: nodes per layer, the layer next to the seeds first: one list for all node
            types, or a mapping that names every type. 0 takes none, -1 all that have a budget.

    Raises:
        InputError: numbers that are no counts, or lists of different lengths.
    """

    num_samples: Any
    _kept: GraphCache[Kernel] = field(
        default_factory=GraphCache, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        given = self.num_samples
        if isinstance(given, Mapping):
            if not given:
                raise InputError(f"num_samples is empty, {_EXPECTED} for each node type")
            named = {name: _numbers(given[name], f" of {name!r:.80}") for name in sorted(given)}
            lengths = {len(numbers) for numbers in named.values()}
            if len(lengths) > 1:
                raise InputError(
                    f"num_samples has lists of {' and '.join(map(str, sorted(lengths)))} numbers, "
                    "expected one number per layer for every node type"
                )
            object.__setattr__(self, "num_samples", named)
        else:
            object.__setattr__(self, "num_samples", _numbers(given, ""))

    @property
    def num_layers(self) -> int:
        """Layers of a minibatch."""
        given = self.num_samples
        return len(next(iter(given.values())) if isinstance(given, Mapping) else given)

    @property
    def expand(self) -> Expand:
        """How layers are expanded: always "once"."""
        return "once"

    @property
    def disjoint(self) -> bool:
        """Seeds share nodes: budgets are those of the whole minibatch."""
        return False

    @property
    def time(self) -> None:
        """Times are not looked at."""

    def of(self, node_types: Sequence[str]) -> list[tuple[int, ...]]:
        """The numbers of each node type of a graph.

        Raises:
            InputError: a type is named that does not exist (with the nearest one), or one is not.
        """
        given = self.num_samples
        if not isinstance(given, Mapping):
            return [given] * len(node_types)
        own = {find_node_type(name, node_types): numbers for name, numbers in given.items()}
        for name in node_types:
            if name not in own:
                raise InputError(
                    f"num_samples has no entry for node type {name!r:.80}; add one ([0, ...] takes "
                    "none of its nodes)"
                )
        return [own[name] for name in node_types]

    def sample_bulk(
        self,
        graph: HeteroGraph,
        seeds: Mapping[str, Sequence[Array]],
        *,
        seed: int,
        epoch: int = 0,
        first_batch: int = 0,
        threads: int = 0,
        rows: Mapping[str, Sequence[Array]] | None = None,
        times: Mapping[str, Sequence[Array]] | None = None,
    ) -> HeteroBulk:
        """Samples k minibatches at once.

        Args:
            graph: the graph to sample.
            seeds: by node type, seed node ids of each of the k minibatches; repeats are allowed.
            seed: seed of the run.
            epoch: number of the epoch.
            first_batch: number of the first of these minibatches in the epoch.
            threads: threads to use, 0 for all; the result does not depend on it.
            rows: refused: seeds have no trees of their own.
            times: refused: times are not looked at.

        Raises:
            InputError: a type that does not exist (the nearest is named), or a seed that is not a
                node.
            FormatError: the graph is damaged.
            StorageError: it cannot be read.
        """
        keys = (seed & (2**64 - 1), epoch, first_batch, threads)
        bulk = sample_by(self._kernel, self, graph, (seeds, rows, times), keys, layers=False)
        return replace(bulk, seed=seed)

    def _kernel(self, graph: HeteroGraph) -> Kernel:
        """The kernel of a graph."""

        def make(graph: HeteroGraph) -> Kernel:
            return make_hgt_kernel(graph, self.of(graph.node_types))

        return self._kept.get(graph, make)


def _numbers(given: Any, where: str) -> tuple[int, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise InputError(
            f"num_samples{where} is a {type(given).__name__}, {_EXPECTED}: a list, or a mapping "
            "from node types to lists"
        )
    if not len(given):
        raise InputError(f"num_samples{where} is empty, {_EXPECTED}")
    for layer, number in enumerate(given):
        whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if not whole or not -1 <= number < 1 << 31:
            raise InputError(
                f"num_samples{where} has {number!r:.40} for layer {layer}, expected a number of "
                "nodes, 0 for none or -1 for all"
            )
    return tuple(int(number) for number in given)
