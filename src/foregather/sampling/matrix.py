"""matrix: sampling as sparse matrix algebra; a new sampler is a few lines of NumPy or torch.

For each layer and k stacked minibatches: P = Q·A, norm(P), Q' = sample(P), A_l = extract(P, Q').
`MatrixSampler` runs that program; a subclass overrides the verbs that differ. The result is a pure
function of (graph, sampler, seed, epoch, batch) as long as the verbs treat batches independently
and draw only with the verbs of `Rows`.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.integrity.check_topology import walkable
from foregather.sampling.bulk import Bulk, Expand, Sample
from foregather.sampling.rows import Columns, Picks, Rows, as_weights, pointer
from foregather.sampling.sampler import Sampler
from foregather.sampling.seeds import Position, distinct_seeds

__all__ = [
    "Columns",
    "LayerGraph",
    "MatrixSampler",
    "Picks",
    "Rows",
    "assemble",
    "keeps_verbs",
]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LayerGraph:
    """The small matrices A_l of one layer, stacked over batches.

    Attributes:
        edge_ptr: int64 [k + 1]: batch b has the edges [edge_ptr[b], edge_ptr[b + 1]).
        row: uint32 source of each edge as a position among the nodes of its batch.
        col: uint32 target of each edge, ascending in each batch.
        edge: int64 position of each edge in the graph's CSC order.
        weight: float64 weight of each edge, or None for 1.
        fresh: new nodes (ids), one array per batch.
    """

    edge_ptr: Int
    row: npt.NDArray[np.uint32]
    col: npt.NDArray[np.uint32]
    edge: Int
    weight: npt.NDArray[np.float64] | None
    fresh: list[Array]


class MatrixSampler(Sampler):
    """A sampler as a matrix program.

    Override `norm` to weigh the entries of P, `sample` to choose among them differently, or
    `extract` to change how the layer's graph is built. By default `layer_sizes[layer]`
    in-neighbours of each frontier node are picked without replacement, with probability increasing
    with their weight.
    """

    @property
    @abstractmethod
    def layer_sizes(self) -> Sequence[int]:
        """One size per layer, from the seeds outwards; -1 means all."""

    @property
    def num_layers(self) -> int:
        """Layers of a minibatch."""
        return len(self.layer_sizes)

    @property
    def expand(self) -> Expand:
        """How layers are expanded.

        Whether the frontier is all nodes so far or only the new ones.
        """
        return "per-layer"

    def key_layer(self, layer: int) -> int:
        """The layer whose random keys a layer uses.

        By default its own, so layers are independent.
        """
        return layer

    def key_batch(self, batch: int) -> int:
        """The minibatch whose random keys a minibatch uses.

        By default its own, so minibatches are independent.
        """
        return batch

    # ---- the verbs -----------------------------------------------------------------------------

    def norm(self, p: Rows) -> Any:
        """Weights (>= 0) of the entries of P, NumPy or torch; None is uniform."""
        return None

    def sample(self, p: Rows) -> Any:
        """Returns the chosen entries: `Picks`, or their positions in P, or a mask over P."""
        return p.sample_rows(self.layer_sizes[p.layer], self.norm(p))

    def extract(self, p: Rows, picks: Picks) -> LayerGraph:
        """Returns the layer's graph: the chosen edges in local numbering.

        The nodes so far come first, then the new columns in order of discovery. So targets are a
        prefix of sources, as `conv((x, x[:n]), edge_index)` requires.
        """
        columns = np.ascontiguousarray(p.columns[picks.entry])
        edge_ptr = np.searchsorted(picks.entry, p.entry_ptr).astype(np.int64)
        row, fresh = np.empty(len(columns), np.uint32), np.empty_like(columns)
        counts = np.empty(len(p.keys), np.int64)
        _core.compact(p.node_ptr, p.nodes, edge_ptr, columns, row, fresh, counts, p.threads)
        own = np.repeat(p.frontier - p.batch_ptr[:-1], np.diff(edge_ptr))
        col = (p.row[picks.entry] + own).astype(np.uint32)
        pieces = [fresh[begin : begin + n] for begin, n in zip(edge_ptr[:-1], counts, strict=True)]
        return LayerGraph(edge_ptr, row, col, p.edge[picks.entry], picks.weight, pieces)

    # ---- the program ---------------------------------------------------------------------------

    def sample_bulk(
        self,
        graph: Graph,
        seeds: Sequence[Array],
        *,
        seed: int,
        epoch: int = 0,
        first_batch: int = 0,
        threads: int = 0,
    ) -> Bulk:
        """Samples len(seeds) minibatches at once; see `Sampler.sample_bulk`."""
        graph = walkable(graph, threads)
        nodes, positions = distinct_seeds(graph, seeds)
        known = [[len(ids)] for ids in nodes]
        begin = [0] * len(nodes)
        layers: list[LayerGraph] = []
        for layer in range(self.num_layers if nodes else 0):
            keys = np.empty(len(nodes), np.uint64)
            for place in range(len(nodes)):
                key = (self.key_batch(first_batch + place), self.key_layer(layer))
                _core.layer_keys(seed & (2**64 - 1), epoch, *key, keys[place : place + 1])
            p = multiply(graph, nodes, begin, keys, layer, threads)
            made = self.extract(p, checked_picks(p, self.sample(p)))
            layers.append(made)
            if self.expand == "once":
                begin = [len(ids) for ids in nodes]
            nodes = [np.concatenate(pair) for pair in zip(nodes, made.fresh, strict=True)]
            for counts, ids in zip(known, nodes, strict=True):
                counts.append(len(ids))
        samples = [
            assemble(layers, b, nodes[b], tuple(known[b]), positions[b], first_batch, self.expand)
            for b in range(len(nodes))
        ]
        return Bulk(samples, seed, epoch, first_batch)


#: The verbs that a kernel, or an owner of rows, implements for a built-in class.
_VERBS = ("norm", "sample", "extract", "key_layer", "layer_sizes", "pick", "weigh")


def keeps_verbs(sampler: Sampler) -> bool:
    """Whether all verbs of a sampler are those of its built-in class.

    A subclass may override them, which no kernel supports; its bulks are made by the matrix
    program.
    """
    kind = type(sampler)
    home = next(base for base in kind.__mro__ if base.__module__.startswith("foregather."))
    return all(getattr(kind, verb, None) is getattr(home, verb, None) for verb in _VERBS)


def multiply(
    graph: Graph,
    nodes: list[Array],
    begin: list[int],
    keys: npt.NDArray[np.uint64],
    layer: int,
    threads: int,
) -> Rows:
    """P = Q·A: the rows of the nodes of each batch from `begin` on."""
    frontier = [ids[first:] for ids, first in zip(nodes, begin, strict=True)]
    rows = np.concatenate(frontier)
    batch_ptr = pointer(np.array([len(ids) for ids in frontier]))
    indptr, indices = np.asarray(graph.indptr), np.asarray(graph.indices)
    ptr = np.empty(len(rows) + 1, np.int64)
    _core.count_rows(indptr, rows, ptr)
    columns, edge = np.empty(ptr[-1], indices.dtype), np.empty(ptr[-1], np.int64)
    _core.extract_rows(indptr, indices, rows, ptr, columns, edge, threads)
    return Rows(
        graph=graph,
        layer=layer,
        rows=rows,
        batch_ptr=batch_ptr,
        ptr=ptr,
        columns=columns,
        edge=edge,
        keys=keys,
        nodes=np.concatenate(nodes),
        node_ptr=pointer(np.array([len(ids) for ids in nodes])),
        frontier=np.array(begin, np.int64),
        threads=threads,
    )


def checked_picks(p: Rows, chosen: Any) -> Picks:
    """Checks the result of a `sample` verb and returns it as Picks.

    Raises:
        InputError: entries that are not in P or do not ascend, or weights that do not fit.
    """
    picks = chosen if isinstance(chosen, Picks) else Picks(chosen)
    given: Any = picks.entry
    entry = np.asarray(given.detach().cpu().numpy() if hasattr(given, "detach") else given)
    count = len(p.columns)
    if entry.dtype == np.bool_:
        if entry.shape != (count,):
            raise InputError(
                f"sample returned a mask of shape {entry.shape}, expected ({count},): one value "
                "per entry of P"
            )
        entry = np.flatnonzero(entry)
    if entry.ndim != 1 or (len(entry) and entry.dtype.kind not in "iu"):
        raise InputError(
            f"sample returned {entry.dtype} of shape {entry.shape}, expected positions in P, "
            "a mask, or Picks"
        )
    entry = entry.astype(np.int64)
    if len(entry) and (entry[0] < 0 or entry[-1] >= count or (np.diff(entry) < 0).any()):
        raise InputError(
            f"sample returned positions that do not ascend from 0 to {count - 1}; sort them"
        )
    return Picks(entry, as_weights(picks.weight, len(entry), "pick"))


def assemble(
    layers: list[LayerGraph],
    b: int,
    node: Array,
    num_nodes: tuple[int, ...],
    position: Position,
    first_batch: int,
    expand: Expand,
) -> Sample:
    """Assembles minibatch b from its part of every layer."""
    spans = [slice(int(made.edge_ptr[b]), int(made.edge_ptr[b + 1])) for made in layers]
    pairs = list(zip(layers, spans, strict=True))

    def join(pieces: list[Array], dtype: Any) -> Array:
        made = np.concatenate([np.empty(0, dtype), *pieces]).astype(dtype, copy=False)
        made.setflags(write=False)
        return made

    weights = [made.weight[s] for made, s in pairs if made.weight is not None]
    if weights and len(weights) < len(layers):
        raise InputError(
            "sample returned weights in some layers only; return them in all or in none"
        )
    return Sample(
        node=join([node], node.dtype),
        num_nodes=num_nodes,
        row=join([made.row[s] for made, s in pairs], np.uint32),
        col=join([made.col[s] for made, s in pairs], np.uint32),
        num_edges=tuple(s.stop - s.start for s in spans),
        edge=join([made.edge[s] for made, s in pairs], np.int64),
        weight=join(weights, np.float32) if weights else None,
        seed_position=position,
        batch=first_batch + b,
        expand=expand,
    )
