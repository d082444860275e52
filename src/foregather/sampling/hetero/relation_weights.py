"""relation_weights: by which weights the edges of each relation are drawn."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType, check_edge_type, find_edge_type, show_edge_type
from foregather.graph.hetero.relation import Relation
from foregather.sampling.weights import DrawWeights

__all__ = ["RelationWeights"]

Float = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RelationWeights:
    """Weights of edges in the draw.

    Attributes:
        named: (edge type, weights) of those relations that are drawn by weight, sorted; None: all
            that have weights in the graph.
    """

    named: tuple[tuple[EdgeType, DrawWeights], ...] | None

    @staticmethod
    def make(given: Any) -> "RelationWeights | None":
        """Converts the caller's value: None or False, True, or a mapping from edge types.

        Raises:
            InputError: it is none of these.
        """
        if given is None or given is False:
            return None
        if isinstance(given, RelationWeights):
            return given
        if given is True:
            return RelationWeights(None)
        if not isinstance(given, Mapping):
            raise InputError(
                f"weights are a {type(given).__name__}, expected True for the graph's own, or a "
                "mapping from edge types to True or one number per edge"
            )
        named = {check_edge_type(key): DrawWeights.make(value) for key, value in given.items()}
        return RelationWeights(
            tuple((key, value) for key, value in sorted(named.items()) if value is not None)
        )

    def check(self, graph: HeteroGraph) -> None:
        """Checks that there are such weights.

        Raises:
            InputError: there are not, or a relation is named that does not exist.
        """
        if self.named is not None:
            for name, own in self.named:
                relation = graph.edges[find_edge_type(name, graph.edge_types)]
                if own.values is None and relation.weights is None:
                    raise InputError(
                        f"weights name relation {show_edge_type(name)}, which has none; pass one "
                        "number per edge"
                    )
                if own.values is not None and len(own.values) != relation.num_edges:
                    raise InputError(
                        f"weights of relation {show_edge_type(name)} hold {len(own.values)} "
                        f"numbers, but it has {relation.num_edges} edges; pass one per edge"
                    )
        elif all(relation.weights is None for relation in graph.edges.values()):
            raise InputError(
                "weights is True, but no relation of the graph has weights; make the graph with "
                "weights or pass a mapping from edge types to one number per edge"
            )

    def of(self, edge_type: EdgeType, relation: Relation) -> Float | None:
        """The weights of a relation's edges in the order of `relation`, or None if alike."""
        if self.named is None:
            return relation.weights
        own = dict(self.named).get(edge_type)
        if own is None or own.values is None:
            return None if own is None else relation.weights
        return own.values if relation.edge_ids is None else own.values[relation.edge_ids]
