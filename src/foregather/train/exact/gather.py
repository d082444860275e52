"""gather: gathers the feature rows of parts, from memory or from disk.

The rows of a part are in one buffer that the next part reuses, so a part must be finished before
the next one is requested.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from foregather.gather.disk import DiskFeatures
from foregather.gather.feature_file import FeatureFile
from foregather.gather.memory import gather, gathered_dtype
from foregather.graph.features import Features
from foregather.loader.memory.division import planned_steps
from foregather.observe.calibration import load_calibration
from foregather.observe.trace import span
from foregather.plan import choose
from foregather.plan.planner import Planner
from foregather.train.exact.deal import Shape
from foregather.train.exact.room import Room

__all__ = ["gathered"]

_SOON = 2  # the next plan is queued this many parts before the end of a bulk, so reads never stop


def gathered(
    source: Features | FeatureFile,
    shapes: Iterator[Shape],
    room: Room,
    threads: int,
    facts: dict[str, Any],
) -> Iterator[tuple[Shape, Tensor]]:
    """Yields each part with its rows; adds the bytes read to `facts`."""
    buffer = _Buffer(source)
    if isinstance(source, Features):
        for shape in shapes:
            with span("gather"):
                rows = gather(source, shape.nodes, buffer.rows(len(shape.nodes)), threads)
            yield shape, rows
        return
    bulks = _bulks(shapes, room.bulk)
    current, later = next(bulks, ()), next(bulks, ())
    if not current:
        return
    best = choose(
        [_nodes(source, current)],
        source.geometry(),
        room.slots,
        load_calibration(source.path.parent),
        repack=False,
    ).best
    planner = Planner(
        source.geometry(best.block_bytes),
        room.slots,
        merge_gap=best.merge_gap,
        pages=best.caching == "page",
        steps=planned_steps(room.bulk),
    )
    with DiskFeatures(
        source, room.slots, staging=room.staging, depth=best.depth, threads=threads
    ) as features:
        features.append(planner.plan(_nodes(source, current), _nodes(source, later)))
        while current:
            after: tuple[Shape, ...] = ()
            for number, shape in enumerate(current):
                if number == max(0, len(current) - _SOON) and later:
                    after = next(bulks, ())
                    with span("plan"):
                        features.append(planner.plan(_nodes(source, later), _nodes(source, after)))
                with span("gather"):
                    rows = features.step(buffer.rows(len(shape.nodes)))
                yield shape, rows
            current, later = later, after
        facts["bytes"] += int(features.counters()["bytes"])


class _Buffer:
    """Memory for the rows of one part; grows to the largest."""

    def __init__(self, source: Features | FeatureFile) -> None:
        self._dtype = (
            gathered_dtype(source) if isinstance(source, Features) else source.gathered_dtype
        )
        self._width = source.width
        self._kept = np.empty((0, source.width), self._dtype)

    def rows(self, count: int) -> Tensor:
        """Returns room for this many rows."""
        if len(self._kept) < count:
            self._kept = np.empty((0, self._width), self._dtype)  # before there is another
            self._kept = np.empty((count, self._width), self._dtype)
        return torch.from_numpy(self._kept[:count])


def _bulks(shapes: Iterator[Shape], size: int) -> Iterator[tuple[Shape, ...]]:
    while bulk := tuple(itertools.islice(shapes, size)):
        yield bulk


def _nodes(source: FeatureFile, bulk: tuple[Shape, ...]) -> list[Any]:
    return list(source.rows(shape.nodes for shape in bulk))
