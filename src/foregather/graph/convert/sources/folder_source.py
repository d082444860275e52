"""folder_source: a graph folder as a source, to make it undirected, cast it or copy it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.chunks import row_of
from foregather.graph.convert.source import EdgeChunk, Ids, RowStream, Small
from foregather.graph.features import Features
from foregather.graph.graph import Graph
from foregather.graph.mapped import fetch
from foregather.graph.original_ids import MAPPING_ARRAYS

__all__ = ["FolderSource"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class FeatureRows(RowStream):
    """Rows of a feature array; int8 with a scale is returned as float32."""

    source: Features

    def chunks(self, step: int) -> Iterator[Array]:
        """Reads the rows in order."""
        for start in range(0, self.count, step):
            yield self.source[start : start + step]


class FolderSource:
    """Reads an existing graph."""

    ids: Ids = "dense"

    def __init__(self, graph: Graph) -> None:
        if graph.links:
            raise InputError(
                f"the graph has links ({', '.join(graph.links)}), which a conversion of it would "
                "leave out; convert first, and divide the result into links"
            )
        self.graph = graph
        self.name = graph.path.name if graph.path else "graph"
        self.num_nodes: int | None = graph.num_nodes
        self.num_edges: int | None = graph.num_edges
        self.has_weight = graph.edge_weight is not None
        self.stored_once: bool | None = None
        self.features = _rows(graph.features)
        rows = _rows(graph.edge_features)
        self.edge_features = (rows.width, rows.dtype) if rows else None
        #: The ids that the nodes had in the graph's own source, to be copied.
        self.mapping = {
            name: values for name, values in graph.extra.items() if name in MAPPING_ARRAYS
        }

    def edges(self, step: int) -> Iterator[EdgeChunk]:
        """Reads the edges in CSC order."""
        graph, weight, extra = self.graph, self.graph.edge_weight, self.graph.edge_features
        for start in range(0, graph.num_edges, step):
            end = min(start + step, graph.num_edges)
            row = row_of(graph.indptr, start, "right") - 1
            last = row_of(graph.indptr, end, "left")
            bounds = np.clip(fetch(graph.indptr[row : last + 1]), start, end)
            yield EdgeChunk(
                np.array(fetch(graph.indices[start:end])),
                np.repeat(np.arange(row, last, dtype=np.int64), np.diff(bounds)),
                np.array(fetch(weight[start:end])) if weight is not None else None,
                extra[start:end] if extra is not None else None,
            )

    def small(self, budget: int) -> Small:
        """Labels and splits of the graph."""
        labels = None if self.graph.labels is None else np.array(fetch(self.graph.labels))
        splits = {name: np.array(fetch(ids)) for name, ids in self.graph.splits.items()}
        stored = self.graph.meta.get("labels")
        classes = stored.get("classes") if isinstance(stored, Mapping) else None
        return Small(labels, splits, classes if isinstance(classes, list) else None)

    def notes(self) -> list[str]:
        """There is nothing to report."""
        return []


def _rows(features: Features | None) -> FeatureRows | None:
    if features is None:
        return None
    dtype = np.dtype(np.float32) if features.scale is not None else features.data.dtype
    return FeatureRows(features.num_rows, features.width, dtype, features)
