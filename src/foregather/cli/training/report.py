"""report: a run, or several compared, as one self-contained page: `foregather report RUN`."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from foregather.errors import ForegatherError, InputError, StorageError
from foregather.files import write_safely
from foregather.targets import check_target
from foregather.units import format_bytes

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """Write a page about a run: report.html. Given several runs, one that compares them.

    Scores, where the time went, reads and their lower bound, the timeline. The page is one file
    that needs no network.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")]
    """The folder of the run; or those of up to eight runs that are compared."""
    out: Path | None = None
    """Where the page goes. Without it: report.html in the folder of the run, or comparison.html
    here. A file that is not a report is not replaced."""
    batches: int = 32
    """Batches that the miss curve of a run from disk is planned for; 0 leaves it out."""
    json: bool = False
    """Print the facts as JSON."""

    def run(self) -> dict[str, Any]:
        """Reads the folder and writes the page."""
        from foregather.observe.page.compare import MOST_RUNS

        if not 1 <= len(self.runs) <= MOST_RUNS:
            raise InputError(
                f"{len(self.runs)} runs are given; name one, or up to {MOST_RUNS} to compare"
            )
        self._check_out()
        return self._one(self.runs[0]) if len(self.runs) == 1 else self._several()

    def _several(self) -> dict[str, Any]:
        """The page that compares runs."""
        from foregather.observe.report import read_run, write_comparison

        found = [read_run(folder) for folder in self.runs]
        page = write_comparison(found).encode()
        out = self._out()
        write_safely(out, page)
        damaged = [f"{one['name']}: {text}" for one in found for text in one["damaged"]]
        return {"report": str(out), "bytes": len(page), "note": "", "damaged": damaged}

    def _one(self, folder: Path) -> dict[str, Any]:
        """The page and the plots of one run."""
        from foregather.observe.report import read_run, save_charts, was_planned, write_report

        facts, said = read_run(folder), ""
        if self.batches and facts["curve"] is None and was_planned(facts):
            try:
                facts["curve"] = self._curve(folder)
            except (ForegatherError, MemoryError, OverflowError) as error:
                said = f"no miss curve: {error}"  # the graph is elsewhere: the rest is still useful
        out, data = self._out(), write_report(facts).encode()
        write_safely(out, data)
        save_charts(folder, facts)
        damaged = facts["damaged"]
        return {"report": str(out), "bytes": len(data), "note": said, "damaged": damaged}

    def _out(self) -> Path:
        if self.out is not None:
            return self.out
        single = len(self.runs) == 1
        return self.runs[0] / "report.html" if single else Path("comparison.html")

    def _check_out(self) -> None:
        from foregather.observe.report import is_report

        if self.out is None and len(self.runs) == 1:
            return
        out = self._out()
        check_target(out)
        if os.path.lexists(out) and not is_report(out):
            raise StorageError(
                f"{out.name} exists and is not the report of a run, so it is kept; name "
                "another file"
            )

    def _curve(self, folder: Path) -> list[dict[str, Any]]:
        """Plans some batches with caches of several sizes; the result is kept in the run folder."""
        from foregather.graph.graph import Graph
        from foregather.loader.disk.epoch_plan import epoch_curve
        from foregather.train.settings import code_names, read_settings
        from foregather.train.settings.from_settings import make_loader

        settings = read_settings(folder / "config.toml", inside=True)
        if (code := code_names(settings).get("sampler.kind")) is not None:
            raise InputError(f"the run's sampler is {code}, and a report runs no code of a run")
        loader = make_loader(Graph.open(settings.graph), settings)
        try:
            points = epoch_curve(loader, self.batches)
        finally:
            loader.close()
        write_safely(folder / "curve.json", json.dumps(points).encode())
        return points

    def show(self, facts: dict[str, Any]) -> str:
        """Returns where the page is."""
        lines = [f"wrote     {facts['report']}, {format_bytes(facts['bytes'])}"]
        if facts["note"]:
            lines.append(f"note      {facts['note']}")
        lines += [f"damaged   {text}" for text in facts["damaged"]]
        return "\n".join(lines)
