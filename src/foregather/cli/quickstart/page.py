"""page: a short training run on the graph of the quickstart, and its report as one file."""

import tempfile
from pathlib import Path

from foregather.files import write_safely

__all__ = ["write_page"]


def write_page(graph: Path, page: Path, epochs: int, seed: int) -> None:
    """Trains in a temporary run folder and writes the page of that run.

    Raises:
        StorageError: the page cannot be written.
    """
    from foregather.observe.report import read_run, write_report
    from foregather.train.runs.run import Run
    from foregather.train.runs.run_loop import run_loop
    from foregather.train.settings import Settings, TrainSettings

    with tempfile.TemporaryDirectory() as place:
        wanted = TrainSettings(epochs=epochs, batch_size=512, seed=seed)
        settings = Settings(graph=str(graph), run=str(Path(place) / "run"), train=wanted)
        with Run.create(settings, lambda text: None) as run:
            run_loop(run)
        facts = read_run(Path(place) / "run") | {"name": "quickstart"}
        write_safely(page, write_report(facts).encode())
