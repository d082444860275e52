"""linked_folder: the folder of a graph with links, made from one without."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.graph.integrity.checks import table_file
from foregather.graph.links.divide import Put
from foregather.graph.links.rule import NAMES
from foregather.graph.links.stored import link_folder
from foregather.graph.on_disk.files import storage_error
from foregather.graph.on_disk.meta import read_meta
from foregather.graph.on_disk.writer import ArrayWriter, FolderWriter

__all__ = ["LinkedFolder", "link_put"]

Array = npt.NDArray[Any]


class LinkedFolder:
    """The folder being made, and the one that it is made of."""

    def __init__(self, writer: FolderWriter, whole: Path) -> None:
        self.writer, self.whole = writer, whole
        self.meta = read_meta(whole)
        self._open: dict[str, ArrayWriter] = {}

    def put(self, inside: str = "") -> Put:
        """Takes rows of arrays whose names begin so."""

        def put(name: str, rows: Array) -> None:
            full = inside + name
            if full not in self._open:
                self._open[full] = self.writer.array(full, rows.dtype, rows.shape[1:])
            self._open[full].append(np.ascontiguousarray(rows))

        return put

    def finish(self, changed: set[str], num_nodes: int, num_edges: int, **facts: Any) -> None:
        """Closes what was put, takes the other arrays over, and finishes the folder."""
        for name in sorted(self._open):
            self.writer.close(name)
        tables = self.meta.tables or {}
        try:
            for name in self.meta.arrays.keys() - changed - self._open.keys():
                for file in (f"{name}.npy", table_file(name)):
                    (self.writer.folder / file).parent.mkdir(parents=True, exist_ok=True)
                    os.rename(self.whole / file, self.writer.folder / file)
                entry = self.meta.text["arrays"][name]
                self.writer.adopt(name, entry, tuple(tables[name].checksums))
        except OSError as error:
            raise storage_error(error, self.writer.dst, "making") from error
        self.writer.finish(num_nodes, num_edges, **facts)


def link_put(put: Put, first: int = 0, names: Iterable[str] = NAMES) -> Put:
    """Puts `train/sources` under the number that links of that name have.

    Args:
        put: takes rows of arrays.
        first: number of lists of links before these.
        names: lists that there are; rows of others, which are empty, are not put.
    """
    numbers = {name: number for number, name in enumerate(sorted(names), first)}

    def renamed(name: str, rows: Array) -> None:
        part, _, array = name.partition("/")
        if part in numbers:
            put(f"{link_folder(numbers[part])}/{array}", rows)

    return renamed
