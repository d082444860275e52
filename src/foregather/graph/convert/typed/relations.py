"""relations: writes one relation, and the way back along it, from edges in any order.

Edges go through a spool for each direction, so neither their number nor the size of a row is
bounded by memory. The arrays are those of `Relation.of`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.graph.arrays import id_dtype
from foregather.graph.convert.topology import EdgeRules, TopologyWriter
from foregather.graph.hetero.on_disk.stored import edge_folder
from foregather.graph.on_disk.writer import FolderWriter

__all__ = ["EdgeColumns", "RelationOut"]

Array = npt.NDArray[Any]
_CALLED = {"edge_ids": "edge_ids", "edge_time": "time", "edge_weight": "weights"}


@dataclass(frozen=True, slots=True)
class EdgeColumns:
    """What the edges of a relation have besides their ends."""

    time: bool = False
    weight: bool = False
    width: int = 0  # of their features; 0 for none

    def dtype(self, most: int) -> np.dtype[Any]:
        """The spooled form of an edge; the target comes first, it is the key."""
        ident = np.dtype("<u8" if id_dtype(most).itemsize == 8 else "<u4")
        fields: list[Any] = [("target", ident), ("source", ident), ("ids", "<i8")]
        fields += [("time", "<i8")] if self.time else []
        fields += [("weight", "<f4")] if self.weight else []
        fields += [("features", "<f4", (self.width,))] if self.width else []
        return np.dtype(fields)


class RelationOut:
    """Collects the edges of a relation, then writes its arrays.

    Args:
        writer: the folder being made.
        number: of the relation.
        back: number of its reverse, or None.
        counts: nodes of the source type and of the target type.
        columns: what the edges have.
        memory: bytes this may use; half of it while edges are collected.
        threads: threads of the kernels, 0 for all.
    """

    def __init__(
        self,
        writer: FolderWriter,
        number: int,
        back: int | None,
        counts: tuple[int, int],
        columns: EdgeColumns,
        memory: int,
        threads: int,
    ) -> None:
        self._writer, self._counts, self._memory = writer, counts, memory
        self._dtype = columns.dtype(max(*counts, 1))
        self.edges = 0
        ways = [number] if back is None else [number, back]
        each = memory // (2 * len(ways))
        self._ways = {
            one: TopologyWriter(writer, self._dtype, EdgeRules(), each, threads, f"edges-{one}")
            for one in ways
        }

    def add(
        self,
        source: Array,
        target: Array,
        time: Array | None = None,
        weight: Array | None = None,
        features: Array | None = None,
    ) -> None:
        """Adds edges whose ends are nodes."""
        records = np.empty(len(source), self._dtype)
        records["ids"] = np.arange(self.edges, self.edges + len(source))
        for name, values in (("time", time), ("weight", weight), ("features", features)):
            if values is not None:
                records[name] = values
        self.edges += len(source)
        ends = (source, target)
        for topology in self._ways.values():
            records["source"], records["target"] = ends
            topology.append(records)
            ends = (target, source)

    def finish(self) -> None:
        """Writes the arrays; the order in which edges came is left out where it is that of rows."""
        sources, targets = self._counts
        for number, topology in self._ways.items():
            folder = edge_folder(number)

            def called(name: str, folder: str = folder) -> str:
                return f"{folder}/{_CALLED.get(name, name.removeprefix('edge_'))}"

            topology.memory = self._memory // 2
            topology.finish(targets, sources, called)
            if topology.in_order:
                self._writer.drop(f"{folder}/edge_ids")
            sources, targets = targets, sources
