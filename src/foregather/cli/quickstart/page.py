"""page: a short training run on the graph of the quickstart, and its report as one file."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foregather.files import write_safely
from foregather.units import format_bytes, format_count

if TYPE_CHECKING:
    from foregather.observe.charts.chart import Chart

__all__ = ["quickstart_charts", "write_page"]


def quickstart_charts(
    curves: Mapping[str, Mapping[str, Any]], storage: Mapping[str, Mapping[str, Any]]
) -> "list[Chart]":
    """What neighbours add to features, and what reading features from disk costs.

    Args:
        curves: validation accuracy of each epoch, and the test accuracy, by model.
        storage: losses and seconds of each epoch, and what was read, in memory and from disk.
    """
    from foregather.observe.charts.bars import flat_bars, show_seconds
    from foregather.observe.charts.lines import line_chart

    colours = {name: f"run{number + 1}" for number, name in enumerate(curves)}
    lines = {name: list(enumerate(curve["valid"], 1)) for name, curve in curves.items()}
    gain = line_chart(
        "What neighbours add to features", ("epoch", "accuracy"), lines, whole=True, kinds=colours
    )
    reached = ", ".join(f"{name} {curve['test']:.3f}" for name, curve in curves.items())
    whole, tenth = storage.values()
    same = "equal losses" if whole["loss"] == tenth["loss"] else "LOSSES THAT DIFFER"
    bars = [
        (name, f"run{number + 1}", sum(run["seconds"]), show_seconds(sum(run["seconds"])))
        for number, (name, run) in enumerate(storage.items())
    ]
    return [
        gain.saying(f"Accuracy on the test split: {reached}. The MLP sees features alone."),
        flat_bars("What a tenth of the feature rows costs", bars).saying(
            f"Time of {len(whole['seconds'])} epochs, with {same}; from disk "
            f"{format_count(tenth['requests'])} reads, {format_bytes(tenth['bytes'])}."
        ),
    ]


def write_page(
    graph: Path, page: Path, epochs: int, seed: int, first: "Sequence[Chart]" = ()
) -> None:
    """Trains in a temporary run folder and writes the page of that run.

    Args:
        graph: the graph folder.
        page: the file to write.
        epochs: of the run.
        seed: of the run.
        first: charts that stand before those of the run.

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
        write_safely(page, write_report(facts, first).encode())
