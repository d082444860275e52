"""Do models of links reach the same metric with foregather's runs as with PyG?

Every cell is one model on one real graph, trained by `foregather train` and by PyG for the same
number of epochs: on the batches of PyG's `LinkNeighborLoader` with pyg-lib (sage, rgcn), or with
PyG's own model (LightGCN, DistMult); see `link_training/sides.py`. Scores are exact: rows of all
nodes with every edge, or the trees of each link with every edge that it may see; ranks are filtered
and against all targets (knowledge graphs: targets and sources), Hits@20 against OGB's negatives,
recall@20 of all items, average precision against one sampled target for each future link.

"within" is said where the means differ by no more than the larger of the two deviations over
seeds. Epochs are as many as a few minutes on two shared cores allow, so published figures are of
longer trainings; the column `epochs` says how many. These figures were looked up in November 2026:
in copies of the leaderboard of ogbl-ddi and OGB's example (its defaults), in the READMEs of the
repositories LightGCN, CoDEx and LibKGE of their authors, and in tables of others that quote
them where it says so; that LightGCN's paper has 0.1830 is from a table of others, too.

Changed after results were seen, for both sides: the learning rate of the graphs of events, which
was 0.003 and is 0.01; two epochs with 0.003 gave 0.661 ± 0.015 (PyG 0.646 ± 0.010) on bitcoin_otc
and 0.587 ± 0.006 (PyG 0.589 ± 0.008) on collegemsg, two seeds each. And ogbl_ddi, which learned
nothing in five epochs with triplets, an MLP that is told source and target, and 32,768 links a
step: it has now the negatives, the decoder (of the product of both rows), dropout, clipping and
batches of OGB's example, with 64 columns. The cells `ogbl_ddi sage mlp`, `triplets` and `mlp
triplets` have one or both of the old choices; they are run to tell which of them it was, with
`--alone` on foregather's side alone. Its epoch is that of the best validation.

    FOREGATHER_DATA=folder python benchmarks/link_accuracy.py [--only NAME] [--epochs N] [--keep D]
"""

import argparse
import json
import statistics
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

from beside.found import find_peers
from common.report import Report
from link_training.cells import CELLS, Cell
from link_training.sides import run_ours, run_peer


def spread(values: list[float]) -> float:
    """The standard deviation; 0 of one value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


class Kept:
    """Results of runs, kept in a folder so that a long table can be made in pieces."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def get(self, key: str, make: object) -> dict[str, float]:
        """A result, kept or made."""
        path = None if self.folder is None else self.folder / f"{key.replace(' ', '_')}.json"
        if path is not None and path.exists():
            return json.loads(path.read_text())
        begin, busy = time.perf_counter(), time.process_time()
        found = make()
        result = {
            "test": found["test"],
            "seconds": time.perf_counter() - begin,
            "processor": time.process_time() - busy,
            "baseline": (found.get("baseline") or {}).get("test"),
            "baseline_is": found.get("baseline_is"),
            "scored": found.get("scored", "exact"),
            "curve": found.get("curve", []),
        }
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(result))
        return result


def limited(cell: Cell, epochs: int, seeds: int) -> Cell:
    """The same with fewer epochs and seeds; 0: as it is."""
    most = cell.changes["train"]["epochs"]
    train = {**cell.changes["train"], "epochs": min(most, epochs or most)}
    changes = {**cell.changes, "train": train}
    return replace(cell, changes=changes, seeds=min(cell.seeds, seeds or cell.seeds))


def measure(name: str, cell: Cell, kept: Kept, peers: bool) -> list[object]:
    """A row of the table."""
    epochs = cell.changes["train"]["epochs"]
    sides: dict[str, list[dict[str, float]]] = {"ours": [], "pyg": []}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made: list[Path] = []

        def graph() -> str:
            if not made:
                made.append(folder / "graph")
                cell.graph().save(made[0])
            return str(made[0])

        for seed in range(cell.seeds):
            for side in ("ours", "pyg") if peers else ("ours",):
                run = folder / f"{side}{seed}"

                def make(side: str = side, run: Path = run, seed: int = seed) -> dict[str, float]:
                    settings = cell.settings(graph(), str(run), seed)
                    if side == "ours":
                        return run_ours(settings)
                    run.mkdir()
                    return run_peer(settings, cell.peer, run)

                sides[side].append(kept.get(f"{name} {epochs} {side} {seed}", make))
                print(name, side, seed, sides[side][-1], flush=True)
    ours, pyg = ([one["test"] for one in found] for found in sides.values())
    first = sides["ours"][0]
    other, verdict = "-", "-"
    if pyg:
        apart = abs(statistics.mean(ours) - statistics.mean(pyg))
        most = max(spread(ours), spread(pyg))
        other = f"{statistics.mean(pyg):.4f} ± {spread(pyg):.4f}"
        better = statistics.mean(ours) > statistics.mean(pyg)
        verdict = "within" if apart <= most else "better" if better else "worse"
        if len(ours) == 1:
            verdict = f"one seed, {'+' if better else '-'}{apart:.4f}"
    return [
        name,
        cell.metric,
        epochs,
        len(ours),
        f"{statistics.mean(ours):.4f} ± {spread(ours):.4f}",
        other,
        verdict,
        f"{first['baseline_is']} {first['baseline']:.4f}",
        f"{statistics.mean(one['seconds'] for one in sides['ours']):.0f}",
        f"{statistics.mean(one['seconds'] for one in sides['pyg']):.0f}" if pyg else "-",
        cell.published or "-",
    ]


def main() -> None:
    """Measures the cells that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default="", help="names of cells, with commas; NAME:EPOCHS:SEEDS limits one"
    )
    parser.add_argument("--keep", type=Path, help="folder of results that are there")
    parser.add_argument("--epochs", type=int, default=0, help="how many at most; 0: all")
    parser.add_argument("--seeds", type=int, default=0, help="how many at most; 0: all")
    parser.add_argument("--alone", action="store_true", help="foregather's side alone")
    parser.add_argument("--quick", action="store_true", help="one epoch, one seed")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    names = [name.strip() for name in args.only.split(",") if name.strip()] or list(CELLS)
    peers = find_peers(False)
    report = Report("link_accuracy", __doc__)
    for sentence in peers.missing:
        report.line(sentence)
    most = (1, 1) if args.quick else (args.epochs, args.seeds)
    rows = []
    for text in names:
        name, *own = text.split(":")
        limits = [int(one) for one in own] if own else most
        cell = limited(CELLS[name], *limits)
        rows.append(measure(name, cell, Kept(args.keep), peers.neighbor_loader and not args.alone))
    head = ["graph and model", "metric", "epochs", "seeds", "foregather", "PyG", "verdict"]
    report.table([*head, "baseline", "seconds", "PyG's seconds", "published"], rows)
    report.line(f"Peers: {peers.versions()}.")
    report.write()


if __name__ == "__main__":
    main()
