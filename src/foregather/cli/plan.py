"""plan: predicts what training will read at several budgets: `foregather plan GRAPH`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from foregather.errors import BudgetError, InputError
from foregather.graph.graph import Graph
from foregather.observe.plots import check_figure, new_figure, save_figure
from foregather.observe.progress import Progress
from foregather.units import format_bytes, format_count, parse_size

if TYPE_CHECKING:
    from foregather.loader.loader import Loader

__all__ = ["Plan"]


@dataclass(frozen=True)
class Plan:
    """Print, for several budgets, what stays in memory, what an epoch reads, and the runner-up."""

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="GRAPH")]
    """The graph folder."""
    memory: tuple[str, ...] = ("auto", "0.5GB", "1GB", "2GB", "4GB")
    """Budgets to plan for; auto: most of this machine's free memory."""
    fanouts: tuple[int, ...] = (10, 10)
    """Neighbours kept at each layer; -1 for all."""
    batch_size: int = 1024
    """Input nodes per batch."""
    split: str = "train"
    """The split to train on."""
    batches: int = 64
    """Plan only this many batches of an epoch; 0 plans all."""
    seed: int = 0
    """Random seed of the samples."""
    orders: tuple[str, ...] = ()
    """Also predict reads with the feature rows in these orders (communities, bfs, rcm, metis, hot,
    hot+communities, ...; all: those that need no other package), and whether a rewrite pays."""
    dtypes: bool = False
    """Also predict reads with narrower feature rows (float16, int8), with their measured error."""
    plot: Path | None = None
    """Draw requests by memory to this file (.png, .pdf or .svg)."""
    ranks: int = 1
    """Forecast the traffic between this many ranks instead (both modes; see
    docs/howto/ranks.md)."""
    replication: int = 1
    """With --ranks: how many ranks hold the same block."""
    link: str = "25GB/s,2us"
    """With --ranks: bandwidth and latency of a rank's link."""
    bulk: int = 8
    """With --ranks: batches that a rank samples at once."""
    rank_memory: str = "1GB"
    """With --ranks: a rank's budget for other ranks' feature rows."""
    rank_room: str = "auto"
    """With --ranks: total memory of a rank; auto: most of this machine's free memory."""
    rehearse: tuple[int, int] = (2, 2)
    """With --ranks: grid rows and bulks that are counted and extrapolated."""
    explain: bool = False
    """Show the ways of reading considered at each budget."""
    json: bool = False
    """Print the facts as JSON."""

    def run(self) -> dict[str, Any]:
        """Samples and plans at each budget."""
        if self.batches < 0 or not self.memory:
            raise InputError("pass at least one budget, and 0 or more batches")
        from foregather.loader.arguments import called_fanouts
        from foregather.observe.usable_memory import usable_memory
        from foregather.sampling.neighbor import check_fanouts

        budgets = sorted(
            usable_memory() if m == "auto" else parse_size(m, "--memory") for m in self.memory
        )
        check_figure(self.plot)
        graph = Graph.open(self.path)
        with called_fanouts("--fanouts"):
            check_fanouts(self.fanouts)
        if self.ranks != 1:
            return self._forecast(graph)
        points = []
        with Progress("planning", len(budgets), "budgets") as bar:
            for memory in budgets:
                points.append({"memory": memory, **self._point(graph, memory)})
                points[-1]["ways"] = self._ways(graph, memory)
                if (self.orders or self.dtypes) and "error" not in points[-1]:
                    points[-1] |= self._forecasts(graph, memory)
                bar.advance(1)
        facts: dict[str, Any] = {
            "graph": str(self.path),
            "graph_bytes": graph.nbytes,
            "points": points,
        }
        if self.plot is not None:
            _draw(points, self.plot)
            facts["plot"] = str(self.plot)
        return facts

    def _forecast(self, graph: Graph) -> dict[str, Any]:
        from foregather.cli.plan_ranks import forecast_facts
        from foregather.observe.usable_memory import usable_memory

        if min(self.ranks, *self.rehearse) < 1:
            raise InputError("pass at least one rank, one grid row and one bulk to rehearse")
        facts = forecast_facts(
            graph,
            fanouts=self.fanouts,
            split=self.split,
            batch_size=self.batch_size,
            seed=self.seed,
            ranks=self.ranks,
            replication=self.replication,
            link=self.link,
            bulk=self.bulk,
            memory=parse_size(self.rank_memory, "--rank-memory"),
            room=usable_memory()
            if self.rank_room == "auto"
            else parse_size(self.rank_room, "--rank-room"),
            rehearse=self.rehearse,
        )
        return {"graph": str(self.path), **facts}

    def _loader(self, graph: Graph, **options: Any) -> "Loader":
        from foregather.loader.loader import Loader
        from foregather.loader.options import BatchContents

        fixed: dict[str, Any] = {"shuffle": True, "seed": self.seed, "bulk": "auto"}
        fixed |= {"input_nodes": self.split, "batch_size": self.batch_size}
        fixed["contents"] = BatchContents("seeds", pyg=False)
        return Loader(graph, list(self.fanouts), **fixed, **options)

    def _forecasts(self, graph: Graph, memory: int) -> dict[str, Any]:
        from foregather.cli.plan_orders import dtype_facts, order_facts

        loader = self._loader(graph, memory=memory)
        facts: dict[str, Any] = {}
        try:
            if self.orders:
                facts["orders"] = order_facts(loader, self.orders, self.batches)
            if self.dtypes:
                facts["dtypes"] = dtype_facts(loader, self.batches)
        finally:
            loader.close()
        return facts

    def _ways(self, graph: Graph, memory: int) -> list[dict[str, Any]]:
        """Lists the choice, the runner-up and the others."""
        from foregather.loader.memory.ways import prospects
        from foregather.plan.candidate import rank_words

        def make(**options: Any) -> "Loader":
            return self._loader(graph, **options)

        found = prospects(make, memory, self.batches)
        first = next((one for one in found if one.chosen), None)
        words = rank_words(found, first, "not")
        return [
            {**one.facts(), "rank": rank, "line": one.line(rank)}
            for one, rank in zip(found, words, strict=True)
        ]

    def _point(self, graph: Graph, memory: int) -> dict[str, Any]:
        try:
            loader = self._loader(graph, memory=memory)
        except BudgetError as error:
            return {"error": str(error)}
        if loader.layout is None:
            return {"in_memory": True}
        plan = loader.plan(0, self.batches or None)
        loader.close()
        facts: dict[str, Any] = {
            "batches": plan.batches,
            "epoch_batches": plan.total,
            "topology": plan.layout.topology,
            "shares": plan.layout.shares,
            "bulk": plan.layout.bulk,
        }
        if plan.reads is not None and plan.predicted is not None:
            facts |= {
                "rows": plan.reads.rows,
                "hits": plan.reads.hits,
                "requests": plan.reads.requests,
                "blocks": plan.reads.blocks,
                "block_bound": plan.reads.block_bound,
                "block_bytes": plan.layout.block,
                "bytes": plan.reads.bytes,
                "seconds": plan.predicted.seconds,
            }
        if self.explain:
            facts["explain"] = plan.explain()
        return facts

    def show(self, facts: dict[str, Any]) -> str:
        """Returns the table as text."""
        if "ranks" in facts:
            from foregather.cli.plan_ranks import show_forecast

            return show_forecast(facts)
        lines = [
            f"{'memory':>10} {'topology':>9} {'hits':>6} {'requests':>10} {'bytes':>10} "
            f"{'ratio':>6} {'s/batch':>8}"
        ]
        for point in facts["points"]:
            lines.append(f"{format_bytes(point['memory']):>10} {_cells(point)}")
            if "explain" in point:
                lines += ["", point["explain"], ""]
        lines += [
            f"{format_bytes(point['memory'])} is not enough: {point['error']}"
            for point in facts["points"]
            if "error" in point
        ]
        if any("requests" in point for point in facts["points"]):
            lines.append(
                "ratio: blocks read / the fewest any policy could read with this memory; s/batch: "
                "predicted disk seconds"
            )
        from foregather.loader.memory.ways import heading

        for point in facts["points"]:
            lines += ["", f"memory {format_bytes(point['memory'])}:", heading()]
            lines += [way["line"] for way in point["ways"]]
        lines.append(
            "the choice has the fewest seconds of an epoch: work (sampling and planning, measured "
            "here) + disk (predicted); bytes are per epoch (in memory: read once, which no epoch "
            "repeats); peak is without the interpreter, torch and the model"
        )
        if self.orders or self.dtypes:
            from foregather.cli.plan_orders import show_forecasts

            lines += show_forecasts(facts["points"])
        if "plot" in facts:
            lines.append(f"plotted    {facts['plot']}")
        return "\n".join(lines)


def _cells(point: dict[str, Any]) -> str:
    if "error" in point:
        return f"{'not enough':>9}"
    if point.get("in_memory"):
        return "everything fits: nothing is read from disk during training"
    if "requests" not in point:
        return f"{point['topology']:>9} no feature rows are read"
    bound = point["block_bound"]
    ratio = "" if bound < 0 else f"{point['blocks'] / max(1, bound):.2f}"  # none where repacked
    return (
        f"{point['topology']:>9} {point['hits'] / max(1, point['rows']):>6.0%} "
        f"{format_count(point['requests']):>10} {format_bytes(point['bytes']):>10} "
        f"{ratio:>6} "
        f"{point['seconds'] / max(1, point['batches']):>8.3f}"
    )


def _draw(points: list[dict[str, Any]], path: Path) -> None:
    read = [point for point in points if "requests" in point]
    figure, axes = new_figure("Reads per epoch by memory", "memory (GB)", "a batch")
    x = [point["memory"] / 1e9 for point in read]
    for name, label in (("blocks", "blocks read"), ("block_bound", "lower bound")):
        axes.plot(x, [p[name] / max(1, p["batches"]) for p in read], marker="o", label=label)
    axes.set_ylim(bottom=0)
    axes.legend()
    save_figure(figure, path)
