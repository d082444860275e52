"""write: appends the rows of parts to an array file, and refuses NaN and infinity."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError, NumericError
from foregather.graph.on_disk.writer import ArrayWriter
from foregather.observe.progress import Progress

__all__ = ["write_rows"]


def write_rows(
    path: Path, parts: Iterator[npt.NDArray[np.float32]], bar: Progress
) -> dict[str, Any]:
    """Makes the file; returns its entry for a meta.json.

    Raises:
        NumericError: a row is NaN or infinite.
        InputError: there are no rows.
        StorageError: the disk refused.
    """
    writer: ArrayWriter | None = None
    try:
        for rows in parts:
            if not np.isfinite(rows).all():
                raise NumericError(
                    f"rows {0 if writer is None else writer.rows:,} and following are NaN or "
                    "infinite; check the features of these nodes and the weights"
                )
            if writer is None:
                writer = ArrayWriter(path, np.float32, rows.shape[1:])
            writer.append(np.ascontiguousarray(rows))
            bar.advance(len(rows))
        if writer is None:
            raise InputError("the graph has no nodes, so there is nothing to infer")
        return writer.close()
    except BaseException:
        if writer is not None:
            writer.abort()
        raise
