"""space: refuses a typed conversion that cannot fit on its disk, before it starts.

What is counted is what is known without reading tables: rows of Parquet files and of databases, and
arrays of NumPy. Text files say nothing about their rows, so the check never refuses for them.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from foregather.errors import StorageError
from foregather.graph.convert.typed.databases.table import DatabaseTable
from foregather.graph.convert.typed.description.node_spec import NodeSpec
from foregather.graph.convert.typed.description.spec import Spec
from foregather.graph.convert.typed.relations import EdgeColumns
from foregather.graph.convert.typed.tables import count_rows
from foregather.units import format_bytes

__all__ = ["check_space"]


def check_space(folder: Path, spec: Spec) -> None:
    """Refuses tables whose graph cannot fit next to `folder`.

    Raises:
        StorageError: says what it needs and what is free.
    """
    relations = list(_relations(spec))
    need = sum(_node_bytes(node) for node in spec.nodes)
    need += sum(kept for kept, _ in relations)
    need += max((spooled for _, spooled in relations), default=0)  # one relation at a time
    free = shutil.disk_usage(folder).free
    if need > free:
        raise StorageError(
            f"the graph needs at least {format_bytes(need)} of disk while it is made, "
            f"{format_bytes(free)} are free (no space left); choose a larger disk, or leave "
            "columns out"
        )


def _node_bytes(node: NodeSpec) -> int:
    """The least that the columns of a type take."""
    rows = 0 if node.file is None else count_rows(node.file) or 0
    total = rows * (4 * len(node.features) + (8 if node.time is not None else 0))
    for path in node.arrays.values():
        if path.suffix.lower() != ".npy" or not path.is_file():
            continue
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError):  # said when it is read
            continue
        total += array.size * min(4, array.dtype.itemsize)
    return total


def _relations(spec: Spec) -> Iterator[tuple[int, int]]:
    """For each relation the bytes of its ids, and of its edges on the way; both directions."""
    for edge in spec.edges:
        rows, ways = count_rows(edge.file) or 0, 2 if edge.reverse else 1
        columns = EdgeColumns(edge.time is not None, edge.weight is not None, len(edge.features))
        if edge.missing == "refuse":  # otherwise rows may be left out
            yield 4 * ways * rows, ways * rows * columns.dtype(1).itemsize
    for node in spec.nodes:
        if not isinstance(node.file, DatabaseTable):  # rows without a key are not known
            continue
        missing = {one.name: one.missing for one in node.file.entry.columns}
        for key in node.foreign:
            if key.column in missing:
                rows = node.file.rows - missing[key.column]
                yield 8 * rows, 2 * rows * EdgeColumns().dtype(1).itemsize
