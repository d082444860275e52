"""Feature files for tests of the disk side: written as a graph folder has them."""

from pathlib import Path

import numpy as np
import pytest

from foregather import _core
from foregather.gather.feature_file import FeatureFile
from foregather.graph.on_disk.npy import file_bytes, pack_header

BACKENDS = ("io_uring", "pread", "buffered")


def write_rows(path: Path, rows: np.ndarray, scale: np.ndarray | None = None) -> FeatureFile:
    tail = file_bytes(rows.nbytes) - 4096 - rows.nbytes
    path.write_bytes(pack_header(rows.dtype, rows.shape) + rows.tobytes() + bytes(tail))
    number, width = rows.shape
    return FeatureFile(path, path.name, number, width, rows.dtype, scale)


def random_rows(dtype: str, rows: int, width: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    if dtype == "int8":
        return random.integers(-127, 128, (rows, width), np.int8)
    return random.standard_normal((rows, width)).astype(dtype)


def need(backend: str, folder: Path) -> str:
    reason = _core.probe_reader(str(folder))["backends"][backend]
    if reason is not None:
        pytest.skip(f"{backend}: {reason}")
    return backend


def working(folder: Path) -> list[str]:
    found = _core.probe_reader(str(folder))["backends"]
    made = [name for name, reason in found.items() if reason is None]
    assert "buffered" in made  # everywhere
    return made


def largest(*plans: _core.Plan) -> int:
    """Bytes of the longest request: what staging must hold."""
    return max((int(plan.request_length.max(initial=4096)) for plan in plans), default=4096)
