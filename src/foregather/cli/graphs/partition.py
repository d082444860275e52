"""partition: cuts a graph into blocks for ranks: `foregather partition GRAPH OUT --parts P`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from foregather.dist.forecast.cut_quality import measure_cut
from foregather.dist.renumber import Order, metis_order, renumber
from foregather.dist.sampling.partition import Balance, cut_rows
from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.units import format_count, format_number

__all__ = ["PartitionCommand"]


@dataclass(frozen=True)
class PartitionCommand:
    """Cut a graph into blocks of rows for ranks, and renumber it so that blocks are consecutive."""

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="GRAPH")]
    """The graph folder."""
    out: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[OUT]")] = None
    """The folder to make; not needed with --dry-run."""
    parts: int = 2
    """Blocks: ranks divided by replication."""
    order: Order = "natural"
    """natural keeps the order of nodes; metis cuts few edges (needs foregather[metis])."""
    balance: Balance = "edges"
    """What blocks of the natural order are balanced by."""
    dry_run: bool = False
    """Only report the quality of the cut."""
    overwrite: bool = False
    """Replace an existing folder."""
    json: bool = False
    """Print the facts as JSON."""

    def run(self) -> dict[str, Any]:
        """Cuts, measures and, unless it is a dry run, writes."""
        if self.out is None and not self.dry_run:
            raise InputError("no target folder was given; name one, or use --dry-run")
        graph = Graph.open(self.path)
        if self.order == "metis":
            order, starts = metis_order(graph, self.parts)
        else:
            order = np.arange(graph.num_nodes)
            starts = cut_rows(graph.indptr, self.parts, self.balance)
        part = np.empty(graph.num_nodes, np.int64)
        part[order] = np.repeat(np.arange(self.parts), np.diff(starts))
        facts = {
            "name": self.path.name,
            "order": self.order,
            **measure_cut(graph, part, self.parts),
        }
        if self.out is not None and not self.dry_run:
            made = renumber(
                graph, order, starts, self.out, how=self.order, overwrite=self.overwrite
            )
            facts["made"] = made.name
        return facts

    def show(self, facts: dict[str, Any]) -> str:
        """Returns one line per block, then the totals."""
        lines = [
            f"{facts['name']} in {format_number(facts['parts'], 'block')}, order {facts['order']}",
            f"  {'block':>5} {'nodes':>14} {'edges':>16} {'cut':>16} {'halo':>14}",
        ]
        columns = (facts[name] for name in ("nodes", "edges", "cut", "halo"))
        for block, (nodes, edges, cut, halo) in enumerate(zip(*columns, strict=True)):
            lines.append(
                f"  {block:>5} {format_count(nodes):>14} {format_count(edges):>16} "
                f"{format_count(cut):>16} {format_count(halo):>14}"
            )
        lines += [
            f"  cut        {facts['cut_share']:.1%} of edges come from another block",
            f"  halo       {facts['halo_share']:.2f} remote nodes per node",
            f"  balance    {facts['balance_nodes']:.2f} nodes, {facts['balance_edges']:.2f} edges "
            "(largest block over mean)",
        ]
        if "made" in facts:
            lines.append(f"  made       {facts['made']}")
        return "\n".join(lines)
