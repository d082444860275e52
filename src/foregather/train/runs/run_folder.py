"""run_folder: chooses, checks and loads run folders."""

import fcntl
import json
import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import nn

from foregather.errors import FormatError, InputError, StorageError
from foregather.files import check_inside, is_there, read_regular, storage_error
from foregather.train.checkpoints.checkpoint import read_tensors
from foregather.train.metrics import Labelled
from foregather.train.settings import Settings, code_names, difference, read_settings
from foregather.train.settings.from_settings import make_model
from foregather.train.tasks.goal import Goal, goal_of_run

__all__ = [
    "check_code",
    "check_resumed",
    "check_seen",
    "choose_folder",
    "free_folder",
    "load_goal",
    "load_model",
    "lock_folder",
    "read_environment",
    "read_finished",
]

#: Sections and keys that change no result, so a resumed run may change them.
_FREE = (
    *("graph", "run", "memory", "checkpoint", "watch"),
    *("grid.replication", "grid.topology", "grid.mode", "grid.timeout", "train.device"),
    "train.final",
    "full_graph.timeline",
)
_MOST_BYTES = 1 << 24  # of environment.json
_MOST = 1 << 31  # an implausible number of columns, classes, threads or ranks


def free_folder(graph: str) -> Path:
    """Returns runs/GRAPH-1, or the next free number."""
    name = Path(graph).resolve()
    stem = name.parent.name if name.name == "graph" else name.name
    number = 1
    while Path("runs", f"{stem}-{number}").exists():
        number += 1
    return Path("runs", f"{stem}-{number}")


def choose_folder(settings: Settings) -> Path:
    """Returns the requested folder, or the next free one.

    Raises:
        StorageError: it exists.
    """
    folder = Path(settings.run) if settings.run else free_folder(settings.graph)
    if os.path.lexists(folder):
        raise StorageError(
            f"{folder} already exists; continue with --resume {folder}, or choose another --run"
        )
    return folder


def check_seen(folder: Path) -> None:
    """Checks that this rank sees the folder that rank 0 made.

    Raises:
        StorageError: it does not.
    """
    if not folder.is_dir():
        raise StorageError(
            f"this rank does not see {folder.parent.resolve()}, where rank 0 made the run; put "
            "it on a file system that all ranks share"
        )


def check_code(
    settings: Settings, folder: Path, trust_code: bool, said: Collection[str] = ()
) -> None:
    """Refuses code that a folder names, unless the caller trusts it or named it too.

    Args:
        settings: as the folder has them.
        folder: of the run.
        trust_code: the caller said so.
        said: settings given by the caller.

    Raises:
        InputError: it names code.
    """
    for key, name in code_names(settings).items():
        if not trust_code and key not in said:
            raise InputError(
                f"{folder.name} names code to run, {key} = {name!r}; pass --trust-code if you "
                "trust the maker of the folder"
            )


def check_resumed(
    folder: Path, settings: Settings | None, ranks: int, trust_code: bool = False
) -> tuple[Settings, dict[str, Any]]:
    """Returns the settings to continue with, and the facts that the run was started with.

    Args:
        folder: of the run.
        settings: None takes those of the run.
        ranks: the current number of ranks.
        trust_code: code that the run's own settings name may be run.

    Raises:
        InputError: other settings that change results, or another number of ranks; or the run
            names code and is not trusted.
        FormatError: this is not a run.
    """
    _check_run(folder)
    old = read_settings(folder / "config.toml", inside=True)
    if settings is None:
        check_code(old, folder, trust_code)
    if settings is not None and settings.train.metric == "auto":  # whatever the run has
        settings = replace(settings, train=replace(settings.train, metric=old.train.metric))
    if settings is not None and (changed := difference(old, settings, _FREE)):
        raise InputError(
            f"{folder.name} was started with other settings: {'; '.join(changed)}; resume it "
            "without them, or start a new run"
        )
    facts = read_environment(folder)
    before = facts.get("ranks", 1)
    if before != ranks:
        why = "a step takes a batch of each rank, so another number is another training"
        if old.train.method == "full-graph":
            why = "each rank goes on from the history of its own chunks"
        raise InputError(
            f"{folder.name} was started on {before} ranks, but here are {ranks}; {why}: start "
            f"{before}, or start a new run"
        )
    if os.path.lexists(folder / "checkpoints"):
        check_inside(folder / "checkpoints")
    wanted = settings or old
    if not is_there(Path(wanted.graph)):
        raise StorageError(
            f"{folder.name} was trained on the graph {wanted.graph}, which is not here; resume "
            "from the folder where the run was started, or pass --graph FOLDER"
        )
    return wanted, facts


def _check_run(folder: Path) -> None:
    if not all(is_there(folder / name) for name in ("config.toml", "environment.json")):
        raise FormatError(f"{folder} is not a run folder; name one made by foregather train")


def read_finished(folder: Path, trust_code: bool) -> tuple[Settings, dict[str, Any], bytes]:
    """The settings of a finished run, what it was started with, and the bytes of its weights.

    Raises:
        InputError: the run names code and is not trusted.
        FormatError: this is not a run, or it has not finished.
    """
    _check_run(folder)
    if not is_there(folder / "model.safetensors"):
        if is_there(folder / "summary.json"):  # which is written after it
            made = any(folder.glob("checkpoints/*"))
            do = f"train --resume {folder} makes it again from the checkpoint"
            raise FormatError(
                f"{folder.name} has finished, but its model.safetensors is missing; "
                f"{do if made else 'restore the file, or train again'}"
            )
        raise FormatError(
            f"{folder.name} has not finished; continue it with train --resume {folder}"
        )
    settings = read_settings(folder / "config.toml", inside=True)
    check_code(settings, folder, trust_code, said=("sampler.kind",))
    return settings, read_environment(folder), read_tensors(folder / "model.safetensors")


def load_model(folder: Path, trust_code: bool = False) -> tuple[nn.Module, Settings]:
    """Loads the best model of a finished run, and its settings.

    The scores of a regression are standardised; `load_goal` has what turns them back.

    Args:
        folder: of the run.
        trust_code: the class that the run's settings name may be imported and run.

    Raises:
        InputError: the run names code and is not trusted.
        FormatError: this is not a run, or it has not finished.
    """
    settings, facts, data = read_finished(folder, trust_code)
    if settings.train.method == "full-graph":
        raise InputError(
            f"{folder.name} was trained on the full graph, so all its nodes are inferred at once; "
            "use foregather infer without --nodes, or the infer() of a FullGraph with its weights"
        )
    if "typed" in facts:
        raise InputError(
            f"{folder.name} was trained on a typed graph, whose model is made for its types; load "
            "it with foregather.train.hetero.load.load_typed"
        )
    shape = facts["model"]
    try:
        weights = load(data)
        with torch.device("meta"):  # sizes are compared before memory is allocated
            sizes = {name: value.to("meta") for name, value in weights.items()}
            make_model(settings, **shape).load_state_dict(sizes)
        model = make_model(settings, **shape)
        model.load_state_dict(weights)
    except (SafetensorError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise FormatError(
            f"model.safetensors of {folder.name} does not fit its model: {error}"
        ) from error
    return model, settings


def load_goal(folder: Path, settings: Settings, graph: Labelled) -> Goal:
    """The task of a finished run, and the metric that rated it.

    Raises:
        FormatError: it is damaged.
    """
    return goal_of_run(read_environment(folder), settings.train, graph.labels)


def read_environment(folder: Path) -> dict[str, Any]:
    """What environment.json says of the model, the graph, the threads and the ranks."""
    _check_run(folder)
    try:
        facts = json.loads(read_regular(folder / "environment.json", _MOST_BYTES))
        counts = [facts["threads"], facts["model"]["width"], facts["model"]["classes"]]
        counts.append(facts.get("ranks", 1))
        texts = (facts["graph"]["digest"], facts["graph"]["text"])
        whole = all(type(count) is int and 0 < count < _MOST for count in counts)
        if not whole or len(facts["model"]) != 2 or not all(isinstance(t, str) for t in texts):
            raise ValueError("a field has an impossible value")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(
            f"environment.json of {folder.name} is damaged ({error}); restore it, or train again"
        ) from error
    return dict(facts)


def lock_folder(folder: Path) -> int:
    """Locks the folder of a run for this process; the lock ends with it, or with the descriptor.

    Raises:
        StorageError: another process trains in it, or the lock cannot be opened.
    """
    flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        lock = os.open(folder / ".lock", flags)
    except OSError as error:
        raise storage_error(error, f"{folder.name}/.lock", "opening") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise StorageError(
            f"{folder.name} is being trained by another process; wait for it"
        ) from error
    return lock
