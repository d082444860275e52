"""run_folder: the folder of a run from outside: which to make, resume or load from."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from foregather.errors import FormatError, InputError, StorageError
from foregather.train.build import make_model
from foregather.train.settings import Settings, difference, read_settings

__all__ = ["check_resumed", "check_seen", "choose_folder", "free_folder", "load_model"]

#: Sections and keys that change no result, so a resumed run may have others.
_FREE = (
    *("graph", "run", "memory", "checkpoint", "watch"),
    *("grid.replication", "grid.topology", "grid.mode", "grid.timeout", "train.device"),
)
_MOST = 1 << 31  # columns, classes, threads or ranks that nobody has


def free_folder(graph: str) -> Path:
    """runs/GRAPH-1, or the next number that is free."""
    name = Path(graph).resolve()
    stem = name.parent.name if name.name == "graph" else name.name
    number = 1
    while Path("runs", f"{stem}-{number}").exists():
        number += 1
    return Path("runs", f"{stem}-{number}")


def choose_folder(settings: Settings) -> Path:
    """The folder that is asked for, or the next free one.

    Raises:
        StorageError: it exists.
    """
    folder = Path(settings.run) if settings.run else free_folder(settings.graph)
    if folder.exists():
        raise StorageError(
            f"{folder} exists already; go on with --resume {folder}, or choose another --run"
        )
    return folder


def check_seen(folder: Path) -> None:
    """Whether this rank sees what rank 0 made.

    Raises:
        StorageError: it does not.
    """
    if not folder.is_dir():
        raise StorageError(
            f"this rank does not see {folder.parent.resolve()}, where rank 0 made the run; put "
            "it on a file system that all ranks share"
        )


def check_resumed(
    folder: Path, settings: Settings | None, ranks: int
) -> tuple[Settings, dict[str, Any]]:
    """The settings to go on with, and the facts that the run was started with.

    Args:
        folder: of the run.
        settings: None takes those of the run.
        ranks: how many there are now.

    Raises:
        InputError: other settings that change results, or another number of ranks.
        FormatError: this is no run.
    """
    _check_run(folder)
    old = read_settings(folder / "config.toml")
    if settings is not None and (changed := difference(old, settings, _FREE)):
        raise InputError(
            f"{folder.name} was started with other settings: {'; '.join(changed)}; resume it "
            "without them, or start a new run"
        )
    facts = _read_environment(folder)
    before = facts.get("ranks", 1)
    if before != ranks:
        raise InputError(
            f"{folder.name} was started on {before} ranks, but here are {ranks}; a step takes a "
            f"batch of each rank, so another number is another training: start {before}, or "
            "start a new run"
        )
    return settings or old, facts


def _check_run(folder: Path) -> None:
    if not (folder / "config.toml").is_file() or not (folder / "environment.json").is_file():
        raise FormatError(f"{folder} is not the folder of a run; name one that train made")


def load_model(folder: Path) -> tuple[nn.Module, Settings]:
    """The best model of a finished run, and what it was trained with.

    Raises:
        FormatError: this is no run, or it has not finished.
    """
    _check_run(folder)
    if not (folder / "model.safetensors").is_file():
        raise FormatError(f"{folder.name} has not finished; go on with train --resume {folder}")
    settings = read_settings(folder / "config.toml")
    shape = _read_environment(folder)["model"]
    try:
        weights = load_file(folder / "model.safetensors")
        with torch.device("meta"):  # sizes are compared before memory is taken for them
            sizes = {name: value.to("meta") for name, value in weights.items()}
            make_model(settings, **shape).load_state_dict(sizes)
        model = make_model(settings, **shape)
        model.load_state_dict(weights)
    except (SafetensorError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise FormatError(
            f"model.safetensors of {folder.name} does not fit its model: {error}"
        ) from error
    return model, settings


def _read_environment(folder: Path) -> dict[str, Any]:
    """What environment.json says of the model, the graph, the threads and the ranks."""
    try:
        facts = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
        counts = [facts["threads"], facts["model"]["width"], facts["model"]["classes"]]
        counts.append(facts.get("ranks", 1))
        texts = (facts["graph"]["digest"], facts["graph"]["text"])
        whole = all(type(count) is int and 0 < count < _MOST for count in counts)
        if not whole or len(facts["model"]) != 2 or not all(isinstance(t, str) for t in texts):
            raise ValueError("a field has no possible value")
    except OSError as error:
        raise StorageError(f"cannot read environment.json: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(
            f"environment.json of {folder.name} is damaged ({error}); restore it, or train again"
        ) from error
    return dict(facts)
