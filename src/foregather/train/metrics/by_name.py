"""by_name: metrics by their names in settings, and which of them fit a task."""

import difflib
from collections.abc import Callable

from foregather.errors import InputError
from foregather.train.metrics.distances import MAE, R2, RMSE
from foregather.train.metrics.labels_right import ACCURACY, MACRO_F1, MICRO_F1
from foregather.train.metrics.metric import Metric
from foregather.train.metrics.ranked_labels import AVERAGE_PRECISION, ROC_AUC
from foregather.train.metrics.ranked_links import MRR, hits_at, ndcg_at, recall_at

__all__ = ["FAMILIES", "METRICS", "find_metric", "fitting_metrics"]

#: All metrics without a number in their name.
METRICS: dict[str, Metric] = {
    one.name: one
    for one in (ACCURACY, MACRO_F1, MICRO_F1, ROC_AUC, AVERAGE_PRECISION, MAE, RMSE, R2, MRR)
}
#: Metrics called NAME@K, by NAME: made for a K.
FAMILIES: dict[str, Callable[[int], Metric]] = {
    "hits": hits_at,
    "recall": recall_at,
    "ndcg": ndcg_at,
}
_ALIASES = {"auc": "roc_auc"}
_MOST = 1 << 31


def find_metric(name: str, task: str) -> Metric:
    """The metric of this name, for a task.

    Raises:
        InputError: it is unknown, or does not fit the task; the message says which do.
    """
    found = METRICS.get(_ALIASES.get(name, name)) or _of_family(name)
    fitting = ", ".join(fitting_metrics(task))
    if found is None:
        near = difflib.get_close_matches(name, [*METRICS, *_ALIASES], 1, 0.6)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"train.metric is {name!r}, expected one of {fitting}{meant}")
    if task not in found.tasks:
        raise InputError(
            f"train.metric is {name!r}, which is for {' and '.join(found.tasks)}, but the task is "
            f"{task}; use one of {fitting}"
        )
    return found


def _of_family(name: str) -> Metric | None:
    family, _, number = name.partition("@")
    if family not in FAMILIES or not number.isdecimal() or not 0 < int(number) < _MOST:
        return None
    return FAMILIES[family](int(number))


def fitting_metrics(task: str) -> list[str]:
    """Names of the metrics that fit a task."""
    found = [name for name, one in METRICS.items() if task in one.tasks]
    return found + [f"{name}@K" for name, make in FAMILIES.items() if task in make(1).tasks]
