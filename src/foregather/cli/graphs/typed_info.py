"""typed_info: what commands say about graphs with node types and relations."""

from pathlib import Path
from typing import Any

from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import show_edge_type
from foregather.units import format_bytes, format_count, format_number

__all__ = ["links_text", "made_links", "show_converted", "typed_facts", "typed_lines"]


def typed_facts(path: Path, verify: bool, plot: bool) -> dict[str, Any]:
    """Opens, describes and, on request, verifies.

    Raises:
        InputError: a plot was asked for.
    """
    if plot:
        raise InputError(
            f"{path.name} has several relations, each with its own degrees, and --plot draws one "
            "distribution; leave it out, and take the degrees from --json"
        )
    graph = HeteroGraph.open(path)
    report = graph.verify().as_dict() if verify else None
    facts = {"name": path.name, "digest": graph.digest, **graph.info()}
    facts["checked"] = graph.checked
    if report is not None:
        facts["verified"] = report
    return facts


def typed_lines(facts: dict[str, Any]) -> list[str]:
    """The facts as text: a block of lines for each type, then a line for each relation."""
    lines = [
        f"{facts['name']}  (digest {facts['digest']})",
        f"  nodes        {format_count(facts['num_nodes'])} of "
        f"{format_number(len(facts['nodes']), 'type')}",
        f"  edges        {format_count(facts['num_edges'])} of "
        f"{format_number(len(facts['edges']), 'relation')}",
    ]
    for entry in facts["nodes"]:
        lines.append(f"  type         {entry['type']}: {format_number(entry['num_nodes'], 'node')}")
        lines += [f"    {text}" for text in _of_type(entry)]
    for entry in facts["edges"]:
        lines.append(f"  relation     {show_edge_type(tuple(entry['type']))}: {_of_edges(entry)}")
    for entry in facts["links"]:
        of = show_edge_type(tuple(entry["type"]))
        lines.append(f"  links        {entry['name']} of {of}: {links_text(entry)}")
    return lines


def links_text(entry: dict[str, Any]) -> str:
    """What there is about one list of links."""
    parts = [format_number(entry["num_links"], "link")]
    if entry["labels"] is not None:
        parts.append(f"labels {entry['labels']}")
    if entry["time"]:
        parts.append("times")
    if entry["negatives"] is not None:
        parts.append(f"{format_number(entry['negatives'], 'negative')} for all")
    if entry["candidates"] is not None:
        parts.append(f"{format_number(entry['candidates'], 'candidate')} each")
    return ", ".join(parts)


def _shape(shape: list[int]) -> str:
    return " x ".join([format_count(n) for n in shape] or ["1"])


def _of_type(entry: dict[str, Any]) -> list[str]:
    lines = []
    for name, one in entry["features"].items():
        scaled = ", scaled" if one["scaled"] else ""
        lines.append(f"{'features':<11}{name}: {_shape(one['shape'])} x {one['dtype']}{scaled}")
    labels = entry["labels"]
    if labels is not None:
        classes = "" if labels["num_classes"] is None else f"{labels['num_classes']} classes, "
        lines.append(f"{'labels':<11}{labels['dtype']}, {classes}{labels['missing']} missing")
    if entry["time"] is not None:
        lines.append(f"{'time':<11}{entry['time']['first']} to {entry['time']['last']}")
    for name, count in entry["splits"].items():
        lines.append(f"{'split':<11}{name}: {format_count(count)}")
    if entry["ids"] != "0 to N-1":
        lines.append(f"{'ids':<11}original ids are {entry['ids']}")
    return lines


def _of_edges(entry: dict[str, Any]) -> str:
    parts = [format_number(entry["num_edges"], "edge")]
    if entry["in_degree"] is not None:
        degree = entry["in_degree"]
        parts.append(f"in-degree mean {degree['mean']:.2f}, max {format_count(degree['max'])}")
    if entry["time"] is not None:
        whose = "times" if entry["time_level"] == "edge" else "times of the sources"
        parts.append(f"{whose} {entry['time']['first']} to {entry['time']['last']}")
    if entry["order"] == "time":
        parts.append("rows by time")
    if entry["weights"]:
        parts.append("weights")
    if entry["features"] is not None:
        parts.append(
            f"features {_shape(entry['features']['shape'])} x {entry['features']['dtype']}"
        )
    return ", ".join(parts)


def made_links(facts: dict[str, Any]) -> list[str]:
    """What a conversion says about links that it made."""
    if "links" not in facts:
        return []
    sizes = ", ".join(f"{name} {format_count(count)}" for name, count in facts["links"].items())
    of = (
        f" of {show_edge_type(tuple(facts['links_relation']))}" if "links_relation" in facts else ""
    )
    if "links_relations" in facts:
        of = f" of {format_number(facts['links_relations'], 'relation')}"
    once = "; an edge and its reverse are one link" if facts.get("links_undirected") else ""
    return [f"  links{of}: {sizes}{once}"]


def show_converted(facts: dict[str, Any], dst: Path) -> str:
    """What `foregather convert` says about a typed graph."""
    lines = [
        f"{facts['graph']}: {format_number(facts['num_nodes'], 'node')} of "
        f"{format_number(len(facts['types']), 'type')}, "
        f"{format_number(facts['num_edges'], 'edge')} of "
        f"{format_number(len(facts['relations']), 'relation')} from {facts['source']}"
    ]
    lines += [f"  {name}: {format_number(n, 'node')}" for name, n in facts["types"].items()]
    for source, name, target, count in facts["relations"][:20]:
        lines.append(f"  ({source}, {name}, {target}): {format_number(count, 'edge')}")
    if len(facts["relations"]) > 20:
        lines.append(f"  and {format_number(len(facts['relations']) - 20, 'relation')} more")
    lines += made_links(facts)
    for name, count in facts["dropped"].items():
        was = "was" if count == 1 else "were"
        rows = format_number(count, "row")
        lines.append(f"  {rows} of {name} {was} left out: an end is no node")
    lines += [f"  {note}" for note in facts["notes"]]
    lines.append(
        f"  {format_bytes(facts['bytes'])} in {facts['seconds']:.1f} s, "
        f"peak memory {format_bytes(facts['peak_memory'])}"
    )
    lines.append(f"next: foregather info {dst}")
    return "\n".join(lines)
