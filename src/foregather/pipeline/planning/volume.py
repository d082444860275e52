"""volume: bytes that cross between ranks in an epoch, from its schedule and as closed forms.

The messages of a schedule add up to the closed forms, and the ledger equals both.

N nodes, b bytes per value. A boundary carries the rows of N nodes and the skip tensors that cross
there, once forward and once backward; a sweep carries them forward once more. Ways exchange, for
each aggregation, the rows that one way has and another reads (alpha_G N in all) or, if columns are
split, all rows that change place.
"""

from collections.abc import Sequence
from dataclasses import replace

from foregather.pipeline.passes.tensor_parallel import column_bounds
from foregather.pipeline.planning.messages import Sizes, sent_bytes
from foregather.pipeline.planning.schedule import Schedule

__all__ = [
    "column_bytes",
    "exchange_bytes",
    "pipeline_bytes",
    "schedule_bytes",
    "shared_weight_bytes",
]


def schedule_bytes(schedule: Schedule, sizes: Sizes, sweeps: int = 0) -> dict[str, int]:
    """Returns the bytes of all ranks: `rows` between stages, `exchange` between ways, `weights`.

    Args:
        schedule: of an epoch.
        sizes: of rows and weights.
        sweeps: forward passes without gradients before it; with columns there are none.
    """
    sent = sent_bytes(schedule, sizes)
    if sweeps and schedule.how != "columns":  # no history, so nothing to sweep
        once = sent_bytes(replace(schedule, how="chunkwise", gradients=False), sizes)
        sent = {purpose: sent[purpose] + sweeps * once[purpose] for purpose in sent}
    return {
        "rows": sent["forward"] + sent["backward"],
        "exchange": sent["exchange"] + sent["exchange_back"],
        "weights": sent["weights"],
    }


def pipeline_bytes(nodes: int, widths: Sequence[int], itemsize: int, sweeps: int = 0) -> int:
    """Returns the bytes of all boundaries: (2 + sweeps) N b times the sum of widths.

    With S - 1 boundaries of one width d and no sweep: 2 (S - 1) N d b.

    Args:
        nodes: N.
        widths: columns that cross each boundary, skip tensors included.
        itemsize: b, of the dtype at the boundaries.
        sweeps: forward passes without gradients.
    """
    return (2 + sweeps) * nodes * sum(widths) * itemsize


def exchange_bytes(crossing: int, widths: Sequence[int], itemsize: int, sweeps: int = 0) -> int:
    """Bytes between ways if nodes are divided: (2 + sweeps) alpha_G N b times the sum of widths.

    With L aggregations of one width d and no sweep: 2 L d b alpha_G N.

    Args:
        crossing: alpha_G N: the distinct rows that a way reads from others, summed over ways.
        widths: columns of the messages of each aggregation; those of the graph's own features do
            not cross, since every rank has them.
        itemsize: b.
        sweeps: forward passes without gradients.
    """
    return (2 + sweeps) * crossing * sum(widths) * itemsize


def column_bytes(
    rows: Sequence[int], widths: Sequence[int], itemsize: int, first: int | None = None
) -> int:
    """Bytes between ways if columns are divided: 4 b (N d - sum of n_w d_w) per aggregation.

    Way w has n_w rows and d_w columns. Where ways divide both evenly: 4 L N d b (P - 1) / P.

    Args:
        rows: n_w of each way.
        widths: columns of the messages of each aggregation.
        itemsize: b.
        first: width of a first layer that aggregates the graph's own features: every rank has
            them and they have no gradient, so only the sums change place, once.
    """
    return itemsize * (
        4 * sum(_moved(rows, d) for d in widths) + (0 if first is None else _moved(rows, first))
    )


def _moved(rows: Sequence[int], width: int) -> int:
    """Counts the values that change place when rows are traded for columns."""
    bounds = column_bounds(width, len(rows))
    kept = sum(n * (bounds[w + 1] - bounds[w]) for w, n in enumerate(rows))
    return sum(rows) * width - kept


def shared_weight_bytes(ranks: int, weights: int, itemsize: int) -> int:
    """Returns the bytes of summing gradients of shared weights: down the chain, and back."""
    return 2 * (ranks - 1) * weights * itemsize
