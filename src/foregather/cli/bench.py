"""bench: compares cache policies on one trace: `foregather bench cache [GRAPH]`.

The trace is sampled as a loader would sample it; all policies get the same trace and memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.synthetic import synthetic_arrays
from foregather.observe.calibration import load_calibration
from foregather.observe.plots import check_figure, new_figure, save_figure
from foregather.plan.baselines.compare import Compared, compare, trace_bound
from foregather.plan.baselines.policies import POLICIES, Setting, find_policy
from foregather.plan.planner import Rows, file_geometry, to_rows
from foregather.sampling.neighbor import Neighbor
from foregather.units import format_count, parse_count, parse_size

__all__ = ["Bench"]

_PLOTTED = (("misses", "rows missed"), ("requests", "requests"), ("bytes", "bytes read"))


@dataclass(frozen=True)
class Bench:
    """Compare cache policies: misses, requests, bytes and predicted seconds by memory."""

    what: Annotated[Literal["cache"], tyro.conf.Positional]
    """What to compare."""
    path: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[GRAPH]")] = None
    """A graph folder; none makes a synthetic graph in memory."""
    nodes: str = "200k"
    """Nodes of the synthetic graph (power law, communities, shuffled ids)."""
    row_bytes: int = 512
    """Bytes of a feature row, if the graph has no features."""
    fanouts: tuple[int, ...] = (10, 5)
    """Neighbours kept at each layer."""
    batch_size: int = 256
    """Seeds per batch."""
    bulk: int = 64
    """Batches per bulk."""
    bulks: int = 3
    """Bulks in the trace."""
    memory: tuple[float, ...] = (0.05, 0.1, 0.25, 0.5)
    """Cache sizes, as shares of the feature bytes."""
    block: str = "16KiB"
    """Block size of the policies that read blocks."""
    policies: tuple[str, ...] = tuple(POLICIES)
    """Which policies."""
    seed: int = 0
    """Random seed of the trace."""
    plot: Path | None = None
    """Draw the table to this file (.png, .pdf or .svg); one panel per quantity."""
    json: bool = False
    """Print the facts as JSON."""

    def run(self) -> dict[str, Any]:
        """Samples the trace and plans it with every policy."""
        for name in self.policies:
            find_policy(name)
        if not self.memory or not all(0 <= share <= 1 for share in self.memory):
            raise InputError(f"memory is {self.memory}, expected shares from 0 to 1")
        parse_count(self.nodes)  # refused even if a graph is given
        check_figure(self.plot)
        graph = self._graph()
        row_bytes, disk = self.row_bytes, None
        if graph.features is not None:
            row_bytes = graph.features.width * graph.features.dtype.itemsize
        if self.path is not None:
            disk = load_calibration(self.path)
        trace = self._trace(graph)
        geometry = file_geometry(graph.num_nodes, row_bytes, parse_size(self.block))
        slots = [int(graph.num_nodes * share) for share in self.memory]
        found = compare(trace, Setting(geometry, 0), slots, self.policies, disk)
        bounds = [trace_bound(trace, geometry, size) for size in slots]
        facts: dict[str, Any] = {
            "rows": sum(len(batch) for bulk in trace for batch in bulk),
            "num_rows": graph.num_nodes,
            "row_bytes": row_bytes,
            "block_bytes": geometry.block_bytes,
            "disk": "assumed" if disk is None else disk.device,
            "table": [_facts(one, graph.num_nodes * row_bytes) for one in found],
            "bounds": [
                {"memory_share": share, "rows": rows, "blocks": blocks}
                for share, (rows, blocks) in zip(self.memory, bounds, strict=True)
            ],
        }
        if self.plot is not None:
            facts["plot"] = _draw(facts, self.plot)
        return facts

    def _graph(self) -> Graph:
        if self.path is not None:
            return Graph.open(self.path)
        made = synthetic_arrays(parse_count(self.nodes), features=0)
        size = len(made.indptr) - 1, len(made.indices)
        return Graph(*size, made.indptr, made.indices, splits=made.splits)

    def _trace(self, graph: Graph) -> list[list[Rows]]:
        from foregather.loader.arguments import called_fanouts
        from foregather.loader.seeds import Seeds

        split = "train" if "train" in graph.splits else None
        seeds = Seeds.make(graph, split, self.batch_size, shuffle=True, seed=self.seed)
        if len(seeds) == 0 or self.bulk < 1 or self.bulks < 1:
            raise InputError("the trace is empty; give input nodes and at least one bulk")
        with called_fanouts("--fanouts"):
            sampler = Neighbor(self.fanouts)
        trace = []
        for number in range(self.bulks):
            first = number * self.bulk
            places = [divmod(first + k, len(seeds)) for k in range(self.bulk)]
            nodes = [seeds.batch(epoch, batch)[0] for epoch, batch in places]
            bulk = sampler.sample_bulk(graph, nodes, seed=self.seed, first_batch=first)
            trace.append([rows.copy() for rows in to_rows(bulk, graph.num_nodes)])
        return trace

    def show(self, facts: dict[str, Any]) -> str:
        """Returns the table as text."""
        rows = max(1, facts["rows"])
        lines = [
            f"{format_count(facts['rows'])} rows of {facts['row_bytes']} bytes from "
            f"{format_count(facts['num_rows'])}, blocks of {facts['block_bytes'] >> 10} KiB; "
            "per 100 rows:",
            f"{'memory':>7} {'policy':8} {'misses':>8} {'requests':>9} {'KiB':>9} {'seconds':>9}",
        ]
        for one in facts["table"]:
            lines.append(
                f"{one['memory_share']:>7.0%} {one['policy']:8} {100 * one['misses'] / rows:>8.1f} "
                f"{100 * one['requests'] / rows:>9.1f} {100 * one['bytes'] / rows / 1024:>9.0f} "
                f"{one['seconds']:>9.3f}"
            )
        for bound in facts["bounds"]:
            lines.append(
                f"{bound['memory_share']:>7.0%} {'bound':8} {100 * bound['rows'] / rows:>8.1f} "
                f"{100 * bound['blocks'] / rows:>9.1f}"
            )
        lines.append(
            "seconds: disk time for the whole trace, predicted from the disk's calibration"
        )
        if facts["disk"] == "assumed":
            lines.append(
                "the disk was not measured, so default figures are used; run foregather doctor"
            )
        if "plot" in facts:
            lines.append(f"drawn to {facts['plot']}")
        return "\n".join(lines)


def _facts(one: Compared, feature_bytes: int) -> dict[str, Any]:
    return {
        "policy": one.policy,
        "memory": one.memory,
        "memory_share": one.memory / max(1, feature_bytes),
        "misses": one.summary.misses,
        "requests": one.summary.requests,
        "bytes": one.summary.bytes,
        "useful_bytes": one.summary.useful_bytes,
        "seconds": one.cost.seconds,
        "plan_seconds": one.plan_seconds,
        "measured_seconds": None if one.measured is None else one.measured.seconds,
    }


def _draw(facts: dict[str, Any], path: Path) -> str:
    figure, _ = new_figure("cache policies", "memory, share of the features", "")
    figure.clear()
    figure.set_size_inches(11, 7)
    panels = figure.subplots(2, 2).ravel()
    titles = [*_PLOTTED, ("seconds", "seconds, predicted")]
    for axes, (key, title) in zip(panels, titles, strict=True):
        for name in dict.fromkeys(one["policy"] for one in facts["table"]):
            points = [(o["memory_share"], o[key]) for o in facts["table"] if o["policy"] == name]
            axes.plot(*_columns(points), marker="o", label=name)
        bound = {"misses": "rows", "requests": "blocks"}.get(key)
        if bound:
            points = [(b["memory_share"], b[bound]) for b in facts["bounds"]]
            axes.plot(*_columns(points), color="black", linestyle="--", label="lower bound")
        axes.set(title=title, xlabel="memory, share of the features", ylim=(0, None))
        axes.grid(visible=True, alpha=0.3)
    panels[0].legend(fontsize="small")
    save_figure(figure, path)
    return path.name


def _columns(points: Sequence[tuple[float, float]]) -> tuple[Any, Any]:
    table = np.asarray(points, float)
    return table[:, 0], table[:, 1]
