"""runs: starts workers, systems by turns, each in a cgroup of its own with no file in memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from common.cgroup import Cgroup

from foregather import BatchContents, BudgetError, Loader

from .cases import FANOUT, Case

__all__ = ["MODEL_BYTES", "memory_of", "run", "turns"]

MODEL_BYTES = 96 << 20  # activations and gradients of a step, and what threads need
HERE = Path(__file__).parents[1]


def memory_of(case: Case, share: float) -> int:
    """A share of the features, beside the least that our Loader takes without a cache.

    That least is for tables, bulks of eight and batches in flight; a system that needs less of it
    has the rest for its caches and for pages of its maps.
    """
    assert case.graph.features is not None
    contents = BatchContents(labels="seeds")
    try:
        Loader(
            case.graph, FANOUT, None, case.batch, bulk=8, memory=1, storage="disk",
            contents=contents,
        )  # fmt: skip
    except BudgetError as error:
        return int(case.graph.features.nbytes * share) + int(error.least or 0)
    raise SystemExit("a budget of one byte was accepted")


def drop(folder: Path) -> None:
    """Lets the kernel forget the files of a case."""
    for path in [*folder.glob("*.npy"), *(folder / "graph").glob("*.npy")]:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def run(case: Case, system: str, model: str, memory: int, **more: Any) -> dict[str, Any]:
    """One run; {"error": LINE} where the system did not get through with this memory."""
    given = {
        "system": system, "model": model, "memory": memory, "name": case.name,
        "folder": str(case.folder), "batch": case.batch, "fanout": FANOUT, "reserve": MODEL_BYTES,
        "least": 96, "count": 2048, "bulk": "auto", "storage": "auto", "superbatch": 64,
        "most": 111 * case.batch, **more,
    }  # fmt: skip
    drop(case.folder)
    with Cgroup(1 << 40) as group:
        given["group"] = str(group.folder) if group.works else ""
        done = subprocess.run(
            [sys.executable, "-m", "paper_ginex.worker", json.dumps(given)],
            cwd=HERE, capture_output=True, text=True, preexec_fn=group.join,
        )  # fmt: skip
        peak = group.read("memory.max_usage_in_bytes")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
        return {"error": last}
    said: dict[str, Any] = {**json.loads(done.stdout.splitlines()[-1]), "peak": peak}
    said.setdefault("way", (done.stderr.strip().splitlines() or [""])[-1])
    return said


def turns(
    case: Case, systems: tuple[str, ...], model: str, memory: int, rounds: int, **more: Any
) -> dict[str, list[dict[str, Any]]]:
    """Runs of all systems, round after round."""
    found: dict[str, list[dict[str, Any]]] = {system: [] for system in systems}
    for _ in range(rounds):
        for system in systems:
            made = run(case, system, model, memory, **more)
            print(case.name, model, system, made, file=sys.stderr, flush=True)
            found[system].append(made)
    return found
