"""report: a training run as one self-contained page: `foregather report RUN`."""

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
    """Write report.html.

    Scores, where the time went, reads and their lower bound, the timeline.
    """

    run_folder: Annotated[Path, tyro.conf.Positional]
    """The folder of the run."""
    out: Path | None = None
    """The page; None: report.html in the folder. A file that is not a report is not replaced."""
    batches: int = 32
    """Batches that the miss curve is planned for; 0 leaves it out."""
    json: bool = False
    """Print the facts as JSON."""

    def run(self) -> dict[str, Any]:
        """Reads the folder and writes the page."""
        from foregather.observe.report import read_run, save_charts, write_report

        self._check_out()
        facts = read_run(self.run_folder)
        said = ""
        if self.batches and facts["curve"] is None and not self._has_no_plan(facts):
            try:
                facts["curve"] = self._curve()
            except (ForegatherError, MemoryError, OverflowError) as error:
                said = f"no miss curve: {error}"  # the graph is elsewhere: the rest is still useful
        page = write_report(self.run_folder, facts)
        out = self.out or self.run_folder / "report.html"
        data = page.encode()
        write_safely(out, data)
        save_charts(self.run_folder, facts)
        return {"report": str(out), "bytes": len(data), "note": said}

    def _check_out(self) -> None:
        from foregather.observe.report import is_report

        if self.out is None:
            return
        check_target(self.out)
        if os.path.lexists(self.out) and not is_report(self.out):
            raise StorageError(
                f"{self.out.name} exists and is not the report of a run, so it is kept; name "
                "another file"
            )

    def _has_no_plan(self, facts: dict[str, Any]) -> bool:
        """Whether there are no batches that could be planned: the full graph, or a typed one."""
        from foregather.train.settings import read_settings

        if isinstance(facts["environment"], dict) and "typed" in facts["environment"]:
            return True
        try:
            settings = read_settings(self.run_folder / "config.toml", inside=True)
        except ForegatherError:
            return False  # `_curve` says what is wrong with it
        return settings.train.method == "full-graph"

    def _curve(self) -> list[dict[str, Any]]:
        """Plans some batches with caches of several sizes; the result is kept in the run folder."""
        from foregather.graph.graph import Graph
        from foregather.loader.disk.epoch_plan import epoch_curve
        from foregather.train.settings import code_names, read_settings
        from foregather.train.settings.from_settings import make_loader

        settings = read_settings(self.run_folder / "config.toml", inside=True)
        if (code := code_names(settings).get("sampler.kind")) is not None:
            raise InputError(f"the run's sampler is {code}, and a report runs no code of a run")
        loader = make_loader(Graph.open(settings.graph), settings)
        try:
            points = epoch_curve(loader, self.batches)
        finally:
            loader.close()
        write_safely(self.run_folder / "curve.json", json.dumps(points).encode())
        return points

    def show(self, facts: dict[str, Any]) -> str:
        """Returns where the page is."""
        lines = [f"wrote     {facts['report']}, {format_bytes(facts['bytes'])}"]
        if facts["note"]:
            lines.append(f"note      {facts['note']}")
        return "\n".join(lines)
