"""report: a training run as one self-contained page: `foregather report RUN`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from foregather.errors import ForegatherError, StorageError
from foregather.units import format_bytes

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """Write report.html: accuracy, where time went, reads against the lower bound, the timeline."""

    run_folder: Annotated[Path, tyro.conf.Positional]
    """The folder of the run."""
    out: Path | None = None
    """The page; None: report.html in the folder."""
    batches: int = 32
    """Batches that the miss curve is planned for; 0 leaves it out."""
    json: bool = False
    """Print the facts as JSON."""

    def run(self) -> dict[str, Any]:
        """Reads the folder and writes the page."""
        from foregather.observe.report import charts_of, read_run, write_report

        facts = read_run(self.run_folder)
        said = ""
        if self.batches and facts["curve"] is None:
            try:
                facts["curve"] = self._curve()
            except ForegatherError as error:  # the graph is elsewhere: the rest is still worth it
                said = f"no miss curve: {error}"
        page = write_report(self.run_folder, facts)
        out = self.out or self.run_folder / "report.html"
        try:
            out.write_text(page, encoding="utf-8")
            plots = self.run_folder / "plots"
            plots.mkdir(exist_ok=True)
            for name, chart in charts_of(facts).items():
                (plots / f"{name}.svg").write_text(chart, encoding="utf-8")
        except OSError as error:
            raise StorageError(f"cannot write {out}: {error.strerror}") from error
        return {"report": str(out), "bytes": out.stat().st_size, "note": said}

    def _curve(self) -> list[dict[str, Any]]:
        """Plans some batches with caches of several sizes; kept beside the run."""
        from foregather.graph.graph import Graph
        from foregather.train.build import make_loader
        from foregather.train.epoch_plan import epoch_curve
        from foregather.train.settings import read_settings

        settings = read_settings(self.run_folder / "config.toml")
        loader = make_loader(Graph.open(settings.graph), settings)
        try:
            points = epoch_curve(loader, self.batches)
        finally:
            loader.close()
        (self.run_folder / "curve.json").write_text(json.dumps(points), encoding="utf-8")
        return points

    def show(self, facts: dict[str, Any]) -> str:
        """Where it is."""
        lines = [f"wrote     {facts['report']}, {format_bytes(facts['bytes'])}"]
        if facts["note"]:
            lines.append(f"note      {facts['note']}")
        return "\n".join(lines)
