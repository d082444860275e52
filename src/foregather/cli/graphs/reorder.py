"""foregather reorder: writes a graph folder again, with its feature rows in an order."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from foregather.errors import InputError
from foregather.graph.order import Order, reorder
from foregather.units import format_bytes, format_count

__all__ = ["Reorder"]


@dataclass(frozen=True)
class Reorder:
    """Put the feature rows of a graph folder in an order in which training reads less."""

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """The graph folder."""
    out: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[OUT]")] = None
    """The folder to make; without it, --overwrite replaces the graph folder itself."""
    order: Order = "communities"
    """How rows lie: by communities, by breadth-first search (bfs, rcm), by METIS parts, by how
    often they are drawn (hot); hot+ puts a tenth first. ids puts them back."""
    memory: str = "2GB"
    """Memory for finding the order and for moving rows."""
    overwrite: bool = False
    """Replace an existing graph folder, once the new one is complete."""
    threads: int = 0
    """Threads, 0 for all cores."""
    json: bool = False
    """Print the facts as JSON."""

    def run(self) -> dict[str, Any]:
        """Finds the order and writes the folder."""
        if self.out is None and not self.overwrite:
            raise InputError(
                "no target folder was given; name one, or use --overwrite to replace the graph "
                "folder itself"
            )
        return reorder(
            self.path,
            self.out or self.path,
            self.order,
            memory=self.memory,
            overwrite=self.overwrite,
            threads=self.threads,
        )

    def show(self, facts: dict[str, Any]) -> str:
        """Returns what was made, a line each."""
        return "\n".join(
            [
                f"{Path(facts['folder']).name}: {format_count(facts['nodes'])} feature rows "
                f"({format_bytes(facts['feature_bytes'])}) in order {facts['order']}",
                f"  scratch    {format_bytes(facts['scratch_bytes'])} while rows were moved",
                "  ids        nodes keep theirs: samples, splits and results are as before",
            ]
        )
