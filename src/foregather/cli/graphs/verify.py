"""verify: checks that every byte of a graph folder is as written: `foregather verify FOLDER`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from foregather.graph.hetero.graph import HeteroGraph, is_typed_folder
from foregather.graph.integrity.add_checks import add_checks
from foregather.graph.integrity.checks import UNCHECKED
from foregather.graph.integrity.verify import verify
from foregather.units import format_bytes, format_number

__all__ = ["Verify"]


@dataclass(frozen=True)
class Verify:
    """Check a graph folder: checksums, headers, every id, labels and splits."""

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="GRAPH")]
    """The graph folder."""
    threads: int = 0
    """Threads to use; 0 uses all."""
    add_checks: bool = False
    """First add block checksums to the folder, if it has none or they are damaged."""
    json: bool = False
    """Print the facts as JSON."""

    def run(self) -> dict[str, Any]:
        """Checks everything; the first problem is raised as an error."""
        if self.add_checks:
            add_checks(self.path)
        if is_typed_folder(self.path):
            report = HeteroGraph.open(self.path).verify(self.threads)
        else:
            report = verify(self.path, self.threads)
        return {"name": self.path.name, **report.as_dict()}

    def show(self, facts: dict[str, Any]) -> str:
        """Returns what was checked, and warnings."""
        lines = [
            f"{facts['name']}: nothing wrong",
            f"  {format_number(len(facts['arrays']), 'array')}: "
            f"{format_bytes(facts['checksummed_bytes'])} in "
            f"{format_number(facts['chunks'], 'chunk')} matched against checksums",
            f"  {format_number(facts['num_nodes'], 'row')}, "
            f"{format_number(facts['num_edges'], 'edge')} in range and in order",
            f"  {format_number(facts['blocks'], 'block')} matched against checksums"
            if facts["blocks"] is not None
            else f"  {UNCHECKED}",
        ]
        return "\n".join(lines + [f"  warning: {text}" for text in facts["warnings"]])
