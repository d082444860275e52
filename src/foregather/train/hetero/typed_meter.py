"""typed_meter: counts nodes, edges and bytes of the batches of epochs, by type and relation.

Counts that are not in a record yet are part of checkpoints, so a resumed run counts every batch of
an epoch once.
"""

from collections.abc import Mapping
from typing import Any

from foregather.graph.hetero.names import show_edge_type
from foregather.nn.hetero.schema import Schema
from foregather.train.runs.run_counters import Meter

__all__ = ["TypedMeter", "add_counts"]


class TypedMeter(Meter):
    """Counts the batches that a typed model is trained on.

    Args:
        loader: closed by `give_back`.
        schema: types and relations.
    """

    def __init__(self, loader: Any, schema: Schema) -> None:
        self._loader, self._schema = loader, schema
        self._seen, self._moved, self._beside = {}, {}, {}
        self._training, self._early = False, False

    def _look(self) -> None:
        """Nothing is read from disk once the graph is in memory."""

    def give_back(self) -> None:
        """Closes the loader."""
        self._loader.close()

    def count(self, batch: Any, counts: bool = True) -> None:
        """Counts a batch of the epoch; over ranks, one that only fills the last step as nothing."""
        found = {"batches": 1}
        for place, one in enumerate(self._schema.nodes):
            store = batch[one.name]
            found[f"nodes.{place}"] = int(store.num_nodes)
            arrays = (store[array.name] for array in one.arrays)
            found[f"bytes.{place}"] = sum(int(values.nbytes) for values in arrays)
        for place, edge_type in enumerate(self._schema.edges):
            store = batch[edge_type]
            parts = store.layers if "layers" in store else [store]
            found[f"edges.{place}"] = sum(int(one.edge_index.shape[1]) for one in parts)
        for name, count in found.items():
            self._moved[name] = self._moved.get(name, 0) + (count if counts else 0)

    def by_name(self, counts: Mapping[str, Any]) -> dict[str, Any]:
        """Counts of `take_moved`, by the names of types and relations."""
        types, edges = self._schema.node_types, self._schema.edges
        found: dict[str, Any] = {"batches": int(counts.get("batches", 0))}
        for kind in ("nodes", "bytes"):
            found[kind] = {
                name: int(counts.get(f"{kind}.{place}", 0)) for place, name in enumerate(types)
            }
        found["edges"] = {
            show_edge_type(name): int(counts.get(f"edges.{place}", 0))
            for place, name in enumerate(edges)
        }
        return found

    @staticmethod
    def is_count(name: str) -> bool:
        """Whether a key is one of this meter."""
        return name == "batches" or name.split(".")[0] in ("nodes", "bytes", "edges")


def add_counts(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The sum of several `by_name`."""
    total: dict[str, Any] = {"batches": 0, "nodes": {}, "bytes": {}, "edges": {}}
    for part in parts:
        total["batches"] += part["batches"]
        for kind in ("nodes", "bytes", "edges"):
            for name, count in part[kind].items():
                total[kind][name] = total[kind].get(name, 0) + count
    return total
