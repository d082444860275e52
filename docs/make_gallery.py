"""make_gallery: makes the pictures of docs/gallery.md anew, from small runs on this machine.

    python docs/make_gallery.py            # a minute or a few; writes docs/images/gallery/*.svg
    python docs/make_gallery.py --nodes 2k --epochs 2 --out FOLDER

Every picture is drawn by the library from the files of a run, as in the run's own `plots` folder;
the commands are those that the page names. Figures in them are of a small synthetic graph.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

OUT = Path(__file__).parent / "images" / "gallery"

#: Picture of the gallery -> the run and the name of its chart.
PICTURES = {
    "scores": ("disk", "scores"),
    "classes": ("disk", "classes"),
    "miss_curve": ("disk", "curve"),
    "reads": ("disk", "bound"),
    "timeline": ("disk", "timeline"),
    "stages": ("disk", "stages"),
    "pipeline": ("staged", "ranks"),
    "ledger": ("staged", "links"),
    "staleness": ("staged", "staleness"),
    "layers": ("staged", "layers"),
}
#: Picture of the gallery -> the title of a chart of the compared runs.
COMPARED = {
    "compared_score": "Validation accuracy by time",
    "compared_seconds": "Time per epoch (median)",
}


def commands(nodes: str, epochs: int) -> list[list[str]]:
    """What is run, in order, in a folder of its own; paths are relative to it."""
    synth = ["synth", "graph", "--nodes", nodes, "--features", "256", "--classes", "8"]
    train = ["train", "--graph", "graph", "--train.epochs", str(epochs)]
    train += ["--train.batch-size", "128", "--train.threads", "1"]
    from_disk = ["--memory.storage", "features", "--memory.budget", "80MB"]
    staged = ["train", "--graph", "graph", "--run", "staged", "--train.method", "full-graph"]
    staged += ["--train.epochs", str(4 * epochs), "--model.kind", "gcnii", "--model.layers", "8"]
    staged += ["--full-graph.mode", "fast", "--full-graph.chunks", "4", "--full-graph.measure", "2"]
    foregather = ["-m", "foregather"]
    ranks = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "--"]
    return [
        [*foregather, *synth],
        [*foregather, *train, "--run", "disk", *from_disk],
        [*foregather, *train, "--run", "memory"],
        [*ranks, "foregather", *staged],
        *([*foregather, "report", run] for run in ("disk", "memory", "staged")),
        [*foregather, "report", "disk", "memory"],
    ]


def draw_compared(folder: Path) -> dict[str, str]:
    """The charts that compare the runs from disk and from memory, as files."""
    from foregather.observe.page.compare import comparison_charts
    from foregather.observe.report import read_run

    charts = comparison_charts([read_run(folder / run) for run in ("disk", "memory")])
    by_title = {chart.title: chart for chart in charts}
    return {name: by_title[title].file() for name, title in COMPARED.items()}


def main() -> None:
    """Runs the commands and copies their pictures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", default="20k")
    options.add_argument("--epochs", type=int, default=6)
    options.add_argument("--out", type=Path, default=OUT)
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        for command in commands(given.nodes, given.epochs):
            subprocess.run([sys.executable, *command], check=True, cwd=place)
        for name, (run, chart) in PICTURES.items():
            shutil.copyfile(Path(place, run, "plots", f"{chart}.svg"), given.out / f"{name}.svg")
        for name, drawn in draw_compared(Path(place)).items():
            (given.out / f"{name}.svg").write_text(drawn, encoding="utf-8")
    print(f"{len(PICTURES) + len(COMPARED)} pictures in {given.out}")


if __name__ == "__main__":
    main()
