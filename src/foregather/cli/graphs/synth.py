"""synth: the command that makes a synthetic graph folder.

It only parses and prints; `foregather.graph.synthetic` does the work and checks the options, which
are the fields of `Recipe` under the same names.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import tyro

from foregather.errors import InputError
from foregather.graph.hetero.synthetic.make import synthesize_typed
from foregather.graph.hetero.synthetic.recipe import TypedRecipe
from foregather.graph.recipe import Recipe
from foregather.graph.synthetic import synthesize
from foregather.units import format_bytes, format_count, format_number, parse_count

__all__ = ["Synth"]

_COUNTS = ("nodes", "edges", "community")  # written 20k, 10M, 1.1e8


@dataclass(frozen=True)
class Synth:
    """Make a synthetic graph: power-law degrees, communities, and classes a GNN can learn.

    The same options give the same bytes on every machine and for any number of threads. Memory
    stays under 500 MB for any number of nodes; with --types it holds the features of one type or
    the edges of two relations.
    """

    dst: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DST")]
    """Folder to make."""

    nodes: str
    """Number of nodes: 20k, 10M, 1.1e8."""

    degree: float = 16.0
    """Mean number of sources per node."""

    edges: str | None = None
    """Number of edges, instead of --degree: 160M, 1.6B."""

    features: int = 128
    """Feature columns; 0 for none."""

    classes: int = 40
    """Number of classes."""

    dtype: str = "float32"
    """Stored features: float32, float16, or int8 (with one scale per column)."""

    ids: str = "shuffled"
    """shuffled: neighbours are far apart on disk (the hard case); natural: communities together."""

    skew: int = 4
    """1, 2, 4 or 8: power-law exponent of the degrees none, 3, 2.33 or 2.14."""

    mixing: float = 0.5
    """Share of sources drawn from the whole graph; the rest come from the node's community."""

    community: str | None = None
    """Nodes of a community; about 512 when not given."""

    label_noise: float = 0.05
    """Share of labels replaced by a random class."""

    signal: float = 1.75
    """How well features separate the classes, relative to noise of 1; more helps MLPs catch up."""

    split: tuple[float, float, float] = (0.6, 0.2, 0.2)
    """Shares of train, valid and test; the rest is in no split."""

    seed: int = 0
    """Random seed of the graph."""

    threads: int = 0
    """Threads to compute with; 0 for all. The graph does not depend on it."""

    overwrite: bool = False
    """Replace DST if it is a graph folder."""

    json: bool = False
    """Print the facts as JSON."""

    types: int | None = None
    """Node types; with this the graph has types t0, t1, ... and relations between them."""

    relations: int | None = None
    """Relations of a graph with types, in pairs of one way and back; 2 for each type but one."""

    times: str = "none"
    """Times of a graph with types: none, node or edge."""

    weights: bool = False
    """Give the edges of a graph with types weights."""

    def run(self) -> dict[str, Any]:
        """Makes the graph."""
        if self.types is not None:
            return self._run_typed()
        for name in ("relations", "times", "weights"):
            if getattr(self, name) != getattr(Synth, name):
                raise InputError(f"--{name} is for a graph with types; give --types too")
        options = {f.name: getattr(self, f.name) for f in fields(Recipe)}
        for name in _COUNTS:
            if options[name] is not None:
                options[name] = parse_count(options[name], f"--{name}")
        facts = synthesize(self.dst, threads=self.threads, overwrite=self.overwrite, **options)
        return {"graph": str(self.dst), **facts}

    def _run_typed(self) -> dict[str, Any]:
        """Makes a graph with node types; what only a plain one has is refused."""
        for name in ("dtype", "ids", "community"):
            if getattr(self, name) != getattr(Synth, name):
                raise InputError(f"--{name} is for a plain graph; leave it out with --types")
        names = {one.name for one in fields(TypedRecipe)}
        options = {name: getattr(self, name) for name in names}
        options["nodes"] = nodes = parse_count(self.nodes, "--nodes")
        options["edges"] = (
            round(nodes * self.degree) if self.edges is None else parse_count(self.edges, "--edges")
        )
        facts = synthesize_typed(
            self.dst, threads=self.threads, overwrite=self.overwrite, **options
        )
        return {"graph": str(self.dst), **facts}

    def show(self, facts: dict[str, Any]) -> str:
        """Returns the summary as text, with what to do next."""
        if "relations" in facts:
            return _show_typed(facts)
        features = f"{facts['features']} x {facts['dtype']}" if facts["features"] else "none"
        splits = ", ".join(f"{name} {format_count(n)}" for name, n in facts["splits"].items())
        lines = [
            f"{facts['graph']}",
            f"  nodes     {format_count(facts['nodes'])} ({facts['ids']} ids)",
            f"  edges     {format_count(facts['edges'])}",
            f"  features  {features}",
            f"  classes   {facts['classes']} in {format_count(facts['communities'])} communities",
            f"  splits    {splits}",
            f"  written   {format_bytes(facts['bytes'])} in {facts['seconds']:.1f} s "
            f"({facts['bytes_per_second'] / 1e6:.0f} MB/s)",
            f"  memory    {format_bytes(facts['peak_memory'])} at its peak",
        ]
        if facts["edges_capped"]:
            lines.append(
                f"  note      {format_number(facts['edges_capped'], 'edge')} fewer than requested: "
                "the largest nodes have every other node as a source"
            )
        lines.append(f"next: foregather info {facts['graph']}")
        return "\n".join(lines)


def _show_typed(facts: dict[str, Any]) -> str:
    lines = [
        f"{facts['graph']}",
        f"  nodes     {format_count(facts['nodes'])} of "
        f"{format_number(len(facts['types']), 'type')}",
        *(f"    {name:<8}{format_count(count)}" for name, count in facts["types"].items()),
        f"  edges     {format_count(facts['edges'])} of "
        f"{format_number(len(facts['relations']), 'relation')}",
        *(
            f"    ({source}, {name}, {target}): {format_count(count)}"
            for source, name, target, count in facts["relations"]
        ),
        f"  features  {facts['features'] or 'none'}",
        f"  classes   {facts['classes']}",
        f"  times     {facts['times']}",
        f"  written   {format_bytes(facts['bytes'])} in {facts['seconds']:.1f} s "
        f"({facts['bytes_per_second'] / 1e6:.0f} MB/s)",
        f"  memory    {format_bytes(facts['peak_memory'])} at its peak",
        f"next: foregather info {facts['graph']}",
    ]
    return "\n".join(lines)
