"""edge_rows: reads edge features of a folder by `e_id`, within a fixed share of a budget.

Edges are drawn anew each epoch and rarely repeat, so their rows are not planned: a `Store` reads
them in sorted, merged blocks when the batch is made, and caches what fits.
"""

import threading
from typing import TYPE_CHECKING, Any

from foregather.gather.feature_file import FeatureFile
from foregather.gather.store import Store, least_share, most_share
from foregather.graph.graph import Graph

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["EdgeRows", "edge_share", "least_edges"]

_SHARE = 1 / 8  # share of a budget, if the rows would take more


def least_edges(graph: Graph) -> int:
    """The minimum bytes for reading the edge features of a folder.

    Raises:
        InputError: the rows cannot be read from disk.
    """
    return least_share(FeatureFile.of(graph, "edge_features"))


def edge_share(graph: Graph, memory: int, room: int) -> int:
    """The share of a budget for edge features, with `room` bytes free after all minimums.

    As much as is useful, at most an eighth of the budget and half of the room.
    """
    file = FeatureFile.of(graph, "edge_features")
    least = least_share(file)
    return min(most_share(file), max(least, min(int(memory * _SHARE), least + room // 2)))


class EdgeRows:
    """Rows of edge features; opened by the first batch, and again after `close`.

    Args:
        graph: from a folder.
        share: bytes for cache, staging and tables.
        threads: threads of the copy, 0 for all.
    """

    def __init__(self, graph: Graph, share: int, threads: int = 0) -> None:
        self._file, self._share = FeatureFile.of(graph, "edge_features"), share
        self._threads = threads
        self._store: Store | None = None
        self._lock = threading.Lock()

    def gather(self, ids: Any, out: "Tensor | None" = None) -> "Tensor":
        """Gathers the rows of these edges, as `Store.gather`."""
        with self._lock:
            if self._store is None:
                self._store = Store(self._file, self._share, threads=self._threads)
            store = self._store
        return store.gather(ids, out)

    def counters(self) -> dict[str, Any]:
        """Counters since it was opened; empty before."""
        return {} if self._store is None else self._store.counters()

    def close(self) -> None:
        """Stops reading and frees the memory."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None
