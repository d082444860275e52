"""dtype_forecast: what narrower feature rows would cost and save, before they are written.

Reads are predicted by plans of the Loader's own batches, with a cache of as many bytes as it has
now; errors are measured on rows spread evenly over the file, with the rounding of `convert`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.gather.feature_file import FeatureFile
from foregather.graph.features import Features, column_scale, quantize
from foregather.loader.disk.order_forecast import sampled_rows
from foregather.observe.calibration import load_calibration
from foregather.plan.choice import ReadCandidate, choose
from foregather.plan.planner import file_geometry
from foregather.units import format_bytes, format_count

if TYPE_CHECKING:
    from foregather.loader.loader import Loader

__all__ = ["DtypeForecast", "explain_dtypes", "forecast_dtypes"]

Array = npt.NDArray[Any]

#: What `convert --dtype` can make of float rows, wide ones first.
_DTYPES = ("float32", "float16", "int8")
_MEASURED = 1 << 14  # rows on which the error is measured


@dataclass(frozen=True)
class DtypeForecast:
    """An epoch with feature rows of one dtype.

    Attributes:
        dtype: of the stored rows.
        way: the cheapest way of reading the sampled batches.
        epoch_seconds: predicted seconds of the disk for an epoch.
        error: root mean square of what rounding changes, over that of the rows; 0 where it changes
            nothing, infinite where numbers do not fit.
    """

    dtype: str
    way: ReadCandidate
    epoch_seconds: float
    error: float

    def facts(self) -> dict[str, Any]:
        """As JSON-able values."""
        return {
            "dtype": self.dtype,
            "caching": self.way.caching,
            "requests": self.way.requests,
            "bytes": self.way.bytes,
            "epoch_seconds": self.epoch_seconds,
            "relative_rms": self.error,
        }


def forecast_dtypes(loader: "Loader", batches: int = 64) -> tuple[DtypeForecast, ...]:
    """Predicts an epoch for the stored dtype and every narrower one.

    Args:
        loader: with a budget under which feature rows are read from disk.
        batches: how many are sampled, in bulks of the Loader.

    Raises:
        InputError: rows are not float32 or float16, or are not read from disk.
    """
    features = loader.graph.features
    if features is None or features.dtype.name not in _DTYPES[:2]:
        kind = "there are none" if features is None else f"these are {features.dtype}"
        raise InputError(f"narrower rows are predicted for float32 and float16 features, {kind}")
    bulks, layout = sampled_rows(loader, batches)
    file = FeatureFile.of(loader.graph)
    disk = load_calibration(file.path.parent)
    count, cache = sum(map(len, bulks)), layout.num_slots * file.row_bytes
    found = []
    for dtype in _DTYPES[_DTYPES.index(features.dtype.name) :]:
        row = file.width * np.dtype(dtype).itemsize
        slots = min(len(file), cache // row)
        way = choose(bulks, file_geometry(len(file), row), slots, disk).best
        seconds = way.seconds * len(loader._maker.seeds) / max(1, count)
        found.append(DtypeForecast(dtype, way, seconds, _error(features, dtype)))
    return tuple(found)


def _error(features: Features, dtype: str) -> float:
    """Measured on rows of the file itself, wherever they lie."""
    if features.dtype == np.dtype(dtype):
        return 0.0
    step = max(1, features.num_rows // _MEASURED)
    rows = features[np.arange(0, features.num_rows, step)].astype(np.float64)
    if dtype == "int8":
        if not np.isfinite(rows).all():
            return float("inf")
        scale = column_scale(np.abs(rows).max(axis=0, initial=0.0))
        stored = quantize(rows, scale) * scale.astype(np.float64)
    else:
        with np.errstate(over="ignore"):
            stored = rows.astype(dtype).astype(np.float64)
    kept = np.isfinite(rows)
    if not np.isfinite(stored[kept]).all():
        return float("inf")
    power = float(np.square(rows[kept]).sum())
    return float(np.sqrt(np.square(stored[kept] - rows[kept]).sum() / power)) if power else 0.0


def explain_dtypes(found: Sequence[DtypeForecast]) -> str:
    """The forecasts as a table."""
    lines = [
        f"{'dtype':<8} {'way':<16} {'requests':>9} {'bytes':>9} {'s/epoch':>9} "
        f"{'relative error':>14}"
    ]
    for one in found:
        way = f"{one.way.caching}, {one.way.block_bytes >> 10} KiB"
        lines.append(
            f"{one.dtype:<8} {way:<16} {format_count(one.way.requests):>9} "
            f"{format_bytes(one.way.bytes):>9} {one.epoch_seconds:>9.2f} {one.error:>14.2g}"
        )
    lines.append("errors are root mean squares over rows of this graph; foregather convert --dtype")
    return "\n".join(lines)
