"""info: what is in a graph folder: `foregather info FOLDER`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from foregather.cli.graphs.typed_info import links_text, typed_facts, typed_lines
from foregather.graph.describe import describe, plot_degrees
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import is_typed_folder
from foregather.graph.integrity.checks import CHECKED, UNCHECKED
from foregather.graph.integrity.verify import verify
from foregather.observe.plots import check_figure
from foregather.units import format_bytes, format_count, format_number

__all__ = ["Info"]


@dataclass(frozen=True)
class Info:
    """Describe a graph folder: counts, degrees, labels, splits and bytes."""

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="GRAPH")]
    """The graph folder."""
    plot: Path | None = None
    """Draw the degree distribution to this file (.png, .pdf or .svg)."""
    verify: bool = False
    """Also check every byte and every id."""
    json: bool = False
    """Print the facts as JSON."""

    def run(self) -> dict[str, Any]:
        """Opens, describes and, on request, verifies and draws."""
        check_figure(self.plot)
        if is_typed_folder(self.path):
            return typed_facts(self.path, self.verify, self.plot is not None)
        graph = Graph.open(self.path)
        report = verify(graph).as_dict() if self.verify else None
        facts = {"name": self.path.name, "digest": graph.digest, **describe(graph)}
        facts["checked"] = graph.checked
        if report is not None:
            facts["verified"] = report
        if self.plot is not None:
            facts["plot"] = plot_degrees(facts, self.plot).name
        return facts

    def show(self, facts: dict[str, Any]) -> str:
        """Returns the facts as text, one per line."""
        if "edges" in facts:
            return "\n".join(typed_lines(facts) + _check_lines(facts))
        lines = [
            f"{facts['name']}  (digest {facts['digest']})",
            f"  nodes        {format_count(facts['num_nodes'])}  ({facts['ids']} ids)",
            *_id_lines(facts["original_ids"]),
            f"  edges        {format_count(facts['num_edges'])}",
            *(_degree_line(name, facts[name]) for name in ("in_degree", "out_degree")),
            f"  isolated     {format_count(facts['isolated'])}",
            f"  self-loops   {format_count(facts['self_loops'])}",
            f"  duplicates   {format_count(facts['duplicate_edges'])}",
            f"  symmetric    {'yes' if facts['symmetric'] else 'no'}",
        ]
        if facts["homophily"] is not None:
            share = f"{facts['homophily']:.3f} of {format_count(facts['homophily_edges'])}"
            lines.append(f"  homophily    {share} edges between labelled nodes")
        lines += _node_lines(facts)
        lines += _check_lines(facts)
        if "plot" in facts:
            lines.append(f"  plot         {facts['plot']}")
        return "\n".join(lines)


def _id_lines(facts: dict[str, Any]) -> list[str]:
    if facts["kind"] == "same":
        return []
    example = f", node 0 is {facts['example']!r:.80}" if "example" in facts else ""
    return [f"  source ids   {facts['kind']}{example}"]


def _degree_line(name: str, facts: dict[str, Any] | None) -> str:
    label = name.replace("_", "-")
    if facts is None:
        return f"  {label:<12} (no nodes)"
    return (
        f"  {label:<12} min {facts['min']}, median {facts['median']}, mean {facts['mean']:.2f}, "
        f"p99 {facts['quantiles']['p99']}, max {format_count(facts['max'])}"
    )


def _node_lines(facts: dict[str, Any]) -> list[str]:
    lines = []
    features, labels = facts["features"], facts["labels"]
    if features is not None:
        lines.append(
            f"  features     {features['width']} x {features['dtype']}, "
            f"{format_bytes(features['row_bytes'])} per row"
            + (f", rows in order {features['order']}" if "order" in features else "")
        )
    if labels is not None:
        classes = "" if labels["num_classes"] is None else f"{labels['num_classes']} classes, "
        lines.append(f"  labels       {labels['kind']}, {classes}{labels['missing']} missing")
        names = labels.get("classes")
        for number, count in labels.get("top_classes", [])[:3]:
            shown = str(number) if names is None else f"{number} ({names[number]})"
            lines.append(f"    class {shown:<14} {format_count(count)}")
    for name, count in facts["splits"].items():
        lines.append(f"  split        {name}: {format_count(count)}")
    for name, entry in facts["links"].items():
        lines.append(f"  links        {name}: {links_text(entry)}")
    return lines


def _verified_line(report: dict[str, Any]) -> str:
    return (
        f"  verified     {format_bytes(report['checksummed_bytes'])} in "
        f"{format_number(report['chunks'], 'chunk')}, "
        f"{format_number(report['num_edges'], 'edge')}: nothing wrong"
    )


def _check_lines(facts: dict[str, Any]) -> list[str]:
    lines = [
        f"  on disk      {format_bytes(facts['bytes'])}",
        f"  checks       {CHECKED if facts['checked'] else UNCHECKED}",
    ]
    for name, entry in facts["arrays"].items():
        shape = " x ".join(format_count(n) for n in entry["shape"])
        size = format_bytes(entry["bytes"])
        lines.append(f"    {name:<20} {entry['dtype']:<8} {shape:<24} {size}")
    if "verified" in facts:
        lines.append(_verified_line(facts["verified"]))
        lines += [f"  warning      {text}" for text in facts["verified"]["warnings"]]
    return lines
