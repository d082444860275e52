"""resident: which arrays of a Loader's graph are read into memory, and which stay on disk.

A graph from a folder is mapped. Arrays that a loop computes with are read when the first one
starts, and freed by `close`; several Loaders of one graph share them.
"""

from collections.abc import Iterable

from foregather.graph.graph import Graph
from foregather.graph.load import Part, as_mapped, load
from foregather.loader.batch_recipe import BatchRecipe
from foregather.loader.memory.layout import Layout
from foregather.sampling.kernel_cache import GraphCache
from foregather.sampling.sampler import Sampler

__all__ = ["Home", "parts_of", "parts_over_ranks"]


def parts_of(maker: BatchRecipe, layout: Layout | None = None) -> tuple[Part, ...]:
    """Returns the parts of a graph that batches need in memory.

    Edge weights stay mapped if neighbour lists are not in memory: a batch needs a few of them,
    scattered over a file as large as the lists.
    """
    parts: list[Part] = ["labels"]
    if layout is None and maker.assembler.edge_attr:
        parts.append("edge_features")
    if layout is None or layout.topology == "memory":
        parts.append("topology")
    elif maker.assembler.norm is not None:
        parts.append("indptr")  # for the degrees
    if layout is None or layout.features == "memory":
        parts.append("features")
    return tuple(parts)


def parts_over_ranks(maker: BatchRecipe, topology: str) -> tuple[Part, ...]:
    """Returns the same over ranks, which hold blocks of feature rows and some or all lists."""
    if topology == "replicated":
        return ("labels", "topology")
    return ("labels", "indptr") if maker.assembler.norm is not None else ("labels",)


class Home:
    """Holds the graph of a Loader with some of its parts in memory, from the first loop on.

    Args:
        graph: as given.
        parts: the parts to read; the rest stays as it is.
    """

    def __init__(self, graph: Graph, parts: Iterable[Part]) -> None:
        self._graph, self._parts = graph, tuple(parts)
        self._held: Graph | None = None

    def furnish(self, maker: BatchRecipe) -> BatchRecipe:
        """Returns the recipe over the in-memory parts, reading them if necessary.

        Raises:
            StorageError: a file cannot be read, or was truncated.
            FormatError: a block does not match its checksum.
        """
        if self._held is None:
            self._held = as_mapped(load(self._graph, self._parts))
        return maker.on(self._held)

    def release(self, sampler: Sampler) -> None:
        """Frees what was read, unless others hold it too, and the sampler's kernel."""
        self._held = None
        kept = getattr(sampler, "_kept", None)
        if isinstance(kept, GraphCache):
            kept.clear()
