"""run: all benchmarks one after the other; what this machine cannot run is skipped with a sentence.

    python benchmarks/run.py            # hours; each writes its dated report
    python benchmarks/run.py --quick    # minutes; small sizes, no report
    python benchmarks/run.py --only loader sampling

Each script says at its end how long it took. A script that fails does not stop the others: those
that did are listed last, and the exit code is not 0. One that cannot run here says why in its last
line, which begins with "skipped: ", and is no failure. The files of each go to a temporary folder
of its own in `--folder`, which is removed. Quick runs measure nothing: they show that each script
still works.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from common.skip import MARK

HERE = Path(__file__).parent
FOLDER = "{folder}"  # an argument that becomes the temporary folder


@dataclass(frozen=True)
class Entry:
    """One call of a script.

    Args:
        script: its name.
        whole: arguments of a whole run.
        quick: arguments of a small one, added to those.
        large: a whole run needs tens of gigabytes and hours, and is asked for by name.
    """

    script: str
    whole: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()
    large: bool = False


_SMALL = ("--nodes", "20000", "--edges", "200000")

# every script is here at least once
SUITE = (
    Entry("accuracy", (), ("--datasets", "cora", "--seeds", "1", "--cells", "0", "--dry")),
    Entry("aggregation", (), ("--quick",)),
    Entry("step", (), ("--quick", "--rounds", "1")),
    Entry("typed_step", (), ("--quick", "--rounds", "1")),
    Entry("before_after"),  # skipped without another tree
    Entry("block_checks", (FOLDER,), ("--nodes", "5k", "--rounds", "1")),
    Entry("build_csc", (), (*_SMALL, "--runs", "2")),
    Entry(
        "convert_bounded",
        ("--folder", FOLDER),
        ("--edges", "1M", "--nodes", "100k", "--memory", "200MB", "--limit", "450MB"),
    ),
    Entry(
        "convert_names",
        ("--folder", FOLDER),
        ("--edges", "100k", "--nodes", "20k", "--memory", "300MB", "--runs", "2"),
    ),
    Entry("convert_typed", ("--folder", FOLDER), ("--quick", "--memory", "400MB")),
    Entry("disk", (FOLDER,), ("--quick",)),
    Entry("disk_peers", (FOLDER,), ("--quick",)),
    Entry("disk_gather", (FOLDER,), ("--quick",)),
    Entry(
        "disk_topology",
        ("--folder", FOLDER),
        ("--nodes", "50k", "--batches", "4", "--rounds", "1", "--default-rounds", "1"),
    ),
    Entry("dist_epoch", (), (*_SMALL, "--ranks", "2", "--rates", "none", "--repeats", "1")),
    Entry(
        "dist_features",
        (),
        ("--nodes", "60000", "--edges", "600000", "--ranks", "4", "--checks", "2x1", "--each", "1"),
    ),
    Entry(
        "dist_model",
        (),
        (*_SMALL, "--batches", "4", "--repeats", "1", "--grids", "2x1", "--rates", "1gbit"),
    ),
    Entry("dist_sampling", (), (*_SMALL, "--ranks", "1", "2")),
    Entry("fused_leaves", (), ("--quick",)),
    Entry("gather", (), ("--matrix", "64MiB", "--rounds", "3")),
    Entry("layerwise", (), (*_SMALL, "--rounds", "2")),
    Entry("links", (), ("--quick",)),
    Entry("loader", (), (*_SMALL, "--rounds", "2", "--batches", "8", "--dry")),
    Entry("out_of_core", (FOLDER,), ("--nodes", "200k", "--quick")),
    Entry("order", (FOLDER,), ("--nodes", "50k", "--quick")),
    Entry("peers", ("--folder", FOLDER), ("--quick",)),
    Entry("pipeline_accuracy", (), ("--cells", "cora,gcnii", "--seeds", "1", "--dry")),
    Entry("pipeline_epoch", (), ("--quick",)),
    Entry("pipeline_memory", (), ("--quick",)),
    Entry("full_graph_memory", (), ("--quick",)),
    Entry("pipeline_simulator", (), ("--quick",)),
    Entry("pipeline_volume", (), ("--graphs", "cora", "--quick")),
    Entry("plan", ("speed",), ("--nodes", "50k", "--rounds", "1")),
    Entry("plan", ("reads",), ("--nodes", "10k", "--bulk", "4")),
    Entry("pyg_backend", ("--folder", FOLDER), ("--quick",)),
    Entry("pyg_epoch", (), ("--quick", "--minutes", "1")),
    Entry("real_data", (), ("--datasets", "cora", "--quick")),
    Entry("repack", (FOLDER,), ("--quick",)),
    Entry("sampling", (), ("--rounds", "1", "--rules")),
    Entry(
        "synth_rate",
        ("--folder", FOLDER),
        ("--nodes", "100k", "--features", "16", "--repeats", "1"),
    ),
    Entry("typed", (), ("--quick",)),
    Entry("synth_billion"),  # skipped without --yes
    Entry("typed_accuracy", (), ("--quick", "--only", "acm,tennis")),
    Entry("link_accuracy", (), ("--quick", "--only", "codex_s distmult,bitcoin_otc sage")),
    Entry("task_accuracy", (), ("--seeds", "1", "--epochs", "1", "--only", "tolokers")),
    Entry("one_node", (), ("--nodes", "2000", "--calls", "20")),
    Entry("billion", (FOLDER,), ("--nodes", "200k", "--edges", "3M", "--batches", "4"), large=True),
)


def run(entry: Entry, quick: bool, folder: Path) -> tuple[str, float, str]:
    """Runs one; how it ended ("ran", "skipped", "failed"), the seconds it took, why it skipped."""
    given = [*entry.whole, *(entry.quick if quick else ())]
    given = [str(folder) if part == FOLDER else part for part in given]
    environment = dict(os.environ, PYTHONUNBUFFERED="1")
    if quick:
        environment["FOREGATHER_REPORTS"] = str(folder / "reports")
        # next to other programs, threads that wait in a loop take most of the CPU seconds
        environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    begin = time.monotonic()
    command = [sys.executable, str(HERE / f"{entry.script}.py"), *given]
    last = ""
    with subprocess.Popen(
        command, cwd=HERE.parent, env=environment, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        for last in started.stdout:
            print(last, end="", flush=True)
    skipped = last.removeprefix(MARK).strip() if last.startswith(MARK) else ""
    outcome = "failed" if started.returncode else "skipped" if skipped else "ran"
    return outcome, time.monotonic() - begin, skipped


def main() -> int:
    """Runs those asked for, and ends with a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, no report")
    parser.add_argument("--only", nargs="+", help="names of scripts")
    parser.add_argument("--folder", type=Path, default=Path(), help="where files may be written")
    given = parser.parse_args()
    known = {entry.script for entry in SUITE}
    if unknown := set(given.only or ()) - known:
        parser.error(
            f"no script is called {sorted(unknown)[0]}; there are {', '.join(sorted(known))}"
        )
    chosen = [
        entry
        for entry in SUITE
        if (entry.script in given.only if given.only else given.quick or not entry.large)
    ]
    lines, failed, begin = [], [], time.monotonic()
    with tempfile.TemporaryDirectory(dir=given.folder, prefix=".foregather-bench-") as name:
        for number, entry in enumerate(chosen, 1):
            print(f"== {number}/{len(chosen)} {entry.script}", flush=True)
            place = Path(name).resolve() / f"{number}"  # what one leaves is not another's input
            place.mkdir()
            outcome, seconds, why = run(entry, given.quick, place)
            shutil.rmtree(place, ignore_errors=True)
            called = " ".join((entry.script, *(p for p in entry.whole[:1] if p != FOLDER)))
            because = f": {why}" if why else ""
            lines.append(f"{outcome:8} {seconds:7.1f} s  {called}{because}")
            print(f"== {called} {outcome} after {seconds:.1f} s", flush=True)
            if outcome == "failed":
                failed.append(called)
    print("\n".join(lines))
    print(f"{len(chosen)} runs took {(time.monotonic() - begin) / 60:.1f} minutes")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
