"""Worlds of ranks that the figures of bulk sampling share; each is measured once a process."""

import functools
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from common.namespaces import why_not
from common.skip import skip
from common.world import run_over_links

from foregather.graph.synthetic import synthesize

__all__ = ["RATE", "Size", "graph_path", "measure", "median_of", "scenes", "size_of", "told"]

HERE = Path(__file__).parent
RATE = "200mbit"
SAGE, LADIES = [15, 10, 5], [512, 512]
MODES = ("replicated", "owner", "paper")
RANKS = (1, 2, 4, 8)
QUICK = (100_000, 2_000_000, 64, 256)  # nodes, edges, columns, seeds of a minibatch
WHOLE = (1_000_000, 20_000_000, 128, 1024)
EPOCH = (8, 8, 3)  # minibatches of all ranks, at most so many a bulk, measured epochs


class Size:
    """What is run: smaller where it is quick."""

    def __init__(self, quick: bool) -> None:
        self.nodes, self.edges, self.width, self.seeds = QUICK if quick else WHOLE
        self.batches, self.bulk, self.repeats = EPOCH


def size_of(quick: bool) -> Size:
    return Size(quick)


def told(quick: bool) -> str:
    """Graph and minibatches, for people."""
    size = Size(quick)
    return (
        f"synthetic power-law graph, {size.nodes:,} nodes, {size.edges:,} edges, {size.width} "
        f"float32 features; SAGE with hidden width 64; {size.seeds} seeds a minibatch, "
        f"{size.batches} minibatches an epoch over all ranks; gloo ranks with one thread each, in "
        "network namespaces on one machine of 2 cores (ranks beyond two share them)"
    )


@functools.cache
def _graph(quick: bool) -> tuple[Any, Path]:
    """A folder that lasts as long as the process, and the graph in it."""
    size, folder = Size(quick), tempfile.TemporaryDirectory()
    path = Path(folder.name) / "graph"
    synthesize(path, size.nodes, edges=size.edges, features=size.width, classes=16)
    return folder, path


def graph_path(quick: bool) -> Path:
    """The graph of the figures."""
    return _graph(quick)[1]


def measure(
    quick: bool, ranks: int, rate: str | None, cases: list[dict[str, Any]], **more: Any
) -> list[dict[str, Any]]:
    """Cases of one world, each with its epochs."""
    if reason := why_not():
        skip(reason)
    size, (folder, path) = Size(quick), _graph(quick)
    spec = {"graph": str(path), "cases": cases, "batches": size.batches, "bulk": size.bulk}
    spec |= {"seeds": size.seeds, "repeats": size.repeats, **more}
    place = Path(folder.name) / "spec.json"
    place.write_text(json.dumps(spec))
    run_over_links(str(HERE / "rank.py"), ranks, rate, [str(place)], 450 if quick else 3600)
    found: list[dict[str, Any]] = json.loads(place.with_name("found.json").read_text())
    return found


def median_of(case: dict[str, Any], name: str) -> float:
    """Of the measured epochs."""
    return statistics.median(epoch[name] for epoch in case["epochs"])


@functools.cache
def scenes(quick: bool) -> list[dict[str, Any]]:
    """Epochs in all modes, with both samplers, over 1, 2, 4 and 8 ranks, links shaped and not.

    Eight ranks on a few cores take long, so they run with shaped links alone.
    """
    made = []
    for ranks in RANKS:
        for rate in {1: (None,), 8: (RATE,)}.get(ranks, (None, RATE)):
            cases = [
                {"rule": rule, "sizes": sizes, "mode": mode}
                for rule, sizes in (("sage", SAGE), ("ladies", LADIES))
                for mode in (MODES if ranks > 1 else MODES[:1])
            ]
            for case in measure(quick, ranks, rate, cases, probe=rate is not None):
                made.append({**case, "ranks": ranks, "rate": rate or "none"})
                print(_line(made[-1]), flush=True)
    return made


def _line(case: dict[str, Any]) -> str:
    parts = {name: median_of(case, name) for name in ("sampling", "features", "propagation")}
    said = ", ".join(f"{name} {seconds:.2f}" for name, seconds in parts.items())
    return f"{case['ranks']} {case['rate']} {case['rule']} {case['mode']}: {said}"
