"""metrics: metrics by name, and what they compare: a model's scores and a graph's labels."""

from foregather.train.metrics.by_name import METRICS, find_metric, fitting_metrics
from foregather.train.metrics.calls import check_classes, check_width, forward, wants_edge_attr
from foregather.train.metrics.labels import (
    Labelled,
    accuracy,
    check_split,
    check_valid,
    count_classes,
    has_labels,
    loss_of,
)
from foregather.train.metrics.metric import Accumulator, Metric
from foregather.train.metrics.reads import plan_facts, reads

__all__ = [
    "METRICS",
    "Accumulator",
    "Labelled",
    "Metric",
    "accuracy",
    "check_classes",
    "check_split",
    "check_valid",
    "check_width",
    "count_classes",
    "find_metric",
    "fitting_metrics",
    "forward",
    "has_labels",
    "loss_of",
    "plan_facts",
    "reads",
    "wants_edge_attr",
]
