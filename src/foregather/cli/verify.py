"""verify: is every byte of a graph folder as it was written: `foregather verify FOLDER`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from foregather.graph.integrity.add_checks import add_checks
from foregather.graph.integrity.checks import UNCHECKED
from foregather.graph.integrity.verify import verify
from foregather.units import format_bytes, format_count

__all__ = ["Verify"]


@dataclass(frozen=True)
class Verify:
    """Check a graph folder: checksums, headers, every id, labels and splits."""

    path: Annotated[Path, tyro.conf.Positional]
    """The graph folder."""
    threads: int = 0
    """Threads to use; 0 uses all."""
    add_checks: bool = False
    """Give the folder block checksums first, where it has none or they are damaged."""
    json: bool = False
    """Print JSON for programs."""

    def run(self) -> dict[str, Any]:
        """Checks everything; the first problem is raised as an error."""
        if self.add_checks:
            add_checks(self.path)
        return {"name": self.path.name, **verify(self.path, self.threads).as_dict()}

    def show(self, facts: dict[str, Any]) -> str:
        """What was checked, and warnings."""
        lines = [
            f"{facts['name']}: nothing wrong",
            f"  {len(facts['arrays'])} arrays, {format_bytes(facts['checksummed_bytes'])} in "
            f"{facts['chunks']} chunks match their checksums",
            f"  {format_count(facts['num_nodes'])} rows, {format_count(facts['num_edges'])} edges "
            "in range and in order",
            f"  {format_count(facts['blocks'])} block checksums match"
            if facts["blocks"] is not None
            else f"  {UNCHECKED}",
        ]
        return "\n".join(lines + [f"  warning: {text}" for text in facts["warnings"]])
