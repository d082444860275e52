"""Report: a dated Markdown file with the machine in it, and the same text on the terminal."""

import datetime
import os
import statistics
from collections.abc import Sequence
from pathlib import Path

from foregather.observe.machine import describe_machine
from foregather.units import format_bytes

__all__ = ["FOLDER", "Report", "machine_line", "median_spread"]

# where reports are written; `run.py --quick` keeps its own away from the real ones
FOLDER = Path(os.environ.get("FOREGATHER_REPORTS") or Path(__file__).parents[1] / "reports")


def median_spread(values: Sequence[float], digits: int = 3) -> str:
    """Median and range of repeated measurements: "1.23 (1.20 to 1.31)"."""
    middle = statistics.median(values)
    return f"{middle:.{digits}g} ({min(values):.{digits}g} to {max(values):.{digits}g})"


class Report:
    """Collects lines and tables, then writes `reports/NAME_DATE.md`.

    Args:
        name: the script's name.
        question: its docstring; the first line becomes the title.
        date: ISO date, today unless given.
    """

    def __init__(self, name: str, question: str | None, date: str | None = None) -> None:
        self.date = date or datetime.date.today().isoformat()
        self.path = FOLDER / f"{name}_{self.date}.md"
        title, _, rest = (question or name).strip().partition("\n")
        self._lines = [f"# {title}", "", rest.strip(), "", f"Measured on {self.date}.", ""]
        self._lines += [machine_line(), ""]

    def line(self, text: str) -> None:
        """Adds a paragraph."""
        self._lines += [text, ""]

    def table(self, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Adds a table."""
        self._lines.append("| " + " | ".join(head) + " |")
        self._lines.append("|" + "---|" * len(head))
        self._lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
        self._lines.append("")

    def write(self) -> Path:
        """Prints the report and writes the file."""
        text = "\n".join(self._lines).rstrip() + "\n"
        print(text)
        FOLDER.mkdir(parents=True, exist_ok=True)
        self.path.write_text(text, encoding="utf-8")
        return self.path


def machine_line() -> str:
    """The machine in one line, with the load before the run."""
    facts = describe_machine()
    packages = ", ".join(f"{k} {v}" for k, v in facts["packages"].items() if v)
    disk = facts["disk"]
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    return (
        f"Machine: {facts['cpu']['model']}, {facts['cpu']['cores_allowed']} cores, "
        f"{format_bytes(facts['memory']['total'])}, Linux {facts['kernel']}, "
        f"{disk['filesystem']} on {disk['source']}, Python {facts['python']}, {packages}; "
        f"load average before the run {load}."
    )
