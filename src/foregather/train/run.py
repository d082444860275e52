"""run: one training run in one folder, made, carried on and finished.

The folder appears whole: settings, environment and a first checkpoint. From then on a process may
be killed at any moment; `Run.resume` goes on from the newest whole checkpoint, to the same weights
as an undisturbed run. Metrics are part of the checkpoints, so none is lost or told twice.
"""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from foregather.errors import FormatError, InputError, StorageError
from foregather.graph.files import storage_error
from foregather.graph.graph import Graph
from foregather.observe.machine import describe_machine
from foregather.train.build import make_loader, make_model, make_optimizer
from foregather.train.checkpoint import (
    latest_checkpoint,
    random_state,
    seed_everything,
    set_random_state,
    write_checkpoint,
    write_safely,
)
from foregather.train.fit import Record, Training
from foregather.train.score import check_classes, count_classes
from foregather.train.settings import Settings, difference, read_settings, write_settings

__all__ = ["Run", "free_folder", "load_model"]

#: Sections and keys that change no result, so a resumed run may have others.
_FREE = ("graph", "run", "memory", "checkpoint", "watch")
_MOST = 1 << 31  # columns, classes or threads that nobody has


def free_folder(graph: str) -> Path:
    """runs/GRAPH-1, or the next number that is free."""
    name = Path(graph).resolve()
    stem = name.parent.name if name.name == "graph" else name.name
    number = 1
    while Path("runs", f"{stem}-{number}").exists():
        number += 1
    return Path("runs", f"{stem}-{number}")


class Run:
    """A training and its folder; `create` or `resume` makes one.

    Attributes:
        folder: where everything is.
        settings: what was asked for.
        graph: what is trained on.
        training: model, optimiser, loader and history.
        shape: feature columns and classes that the model was made for.
        say: called with every sentence for people.
    """

    def __init__(
        self, folder: Path, settings: Settings, threads: int, say: Callable[[str], None]
    ) -> None:
        if not settings.graph:
            raise InputError("graph is not given; name the graph folder to train on")
        torch.set_num_threads(threads)
        self.folder, self.settings, self.say = folder, settings, say
        self.graph = Graph.open(settings.graph)
        if self.graph.features is None:
            raise InputError("the graph has no features; convert it with them to train on it")
        self.shape = {"width": self.graph.features.width, "classes": count_classes(self.graph)}
        loader = make_loader(self.graph, settings)
        model = make_model(settings, **self.shape)
        check_classes(model, next(iter(loader)), self.shape["classes"])
        loader.close()  # what was read for the check does not count
        loader.set_epoch(0)
        optimizer, scheduler = make_optimizer(model, settings.optimizer, settings.train.epochs)
        self.training = Training(model, loader, optimizer, scheduler)
        seed_everything(settings.train.seed)
        self._saved = time.monotonic()
        self._lock: int | None = None

    @staticmethod
    def create(settings: Settings, say: Callable[[str], None] = print) -> "Run":
        """Starts a run; the folder is made once everything fits together.

        Raises:
            InputError: a setting does not fit the graph.
            StorageError: the folder exists, or cannot be made.
        """
        folder = Path(settings.run) if settings.run else free_folder(settings.graph)
        if folder.exists():
            raise StorageError(
                f"{folder} exists already; go on with --resume {folder}, or choose another --run"
            )
        threads = settings.train.threads or torch.get_num_threads()
        run = Run(folder, replace(settings, run=str(folder)), threads, say)
        run._make_folder(threads)
        return run

    def _make_folder(self, threads: int) -> None:
        """Makes the folder under another name and moves it into place."""
        final, partial = self.folder, self.folder.with_name(self.folder.name + ".partial")
        environment = {
            "graph": {"digest": self.graph.digest, "text": repr(self.graph)},
            "model": self.shape,
            "threads": threads,
            "machine": describe_machine(self.graph.path or "."),
        }
        try:
            shutil.rmtree(partial, ignore_errors=True)
            (partial / "checkpoints").mkdir(parents=True)
            write_safely(partial / "config.toml", write_settings(self.settings).encode())
            text = json.dumps(environment, indent=1)
            write_safely(partial / "environment.json", text.encode())
            self.folder = partial
            self.save()
            self.folder = final
            partial.rename(final)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise storage_error(error, final, "making") from error
        self._hold()

    @staticmethod
    def resume(
        folder: Path, settings: Settings | None = None, say: Callable[[str], None] = print
    ) -> "Run":
        """Goes on from the newest whole checkpoint.

        Args:
            folder: of the run.
            settings: None takes those of the run; others may differ only in what changes no result.
            say: called with sentences for people.

        Raises:
            InputError: other settings or another graph; the message shows the difference.
            FormatError: this is no run, or no checkpoint can be read.
        """
        if not (folder / "config.toml").is_file() or not (folder / "environment.json").is_file():
            raise FormatError(f"{folder} is not the folder of a run; name one that train made")
        old = read_settings(folder / "config.toml")
        if settings is not None and (changed := difference(old, settings, _FREE)):
            raise InputError(
                f"{folder.name} was started with other settings: {'; '.join(changed)}; resume it "
                "without them, or start a new run"
            )
        wanted = settings or old
        facts = _read_environment(folder)
        run = Run(folder, replace(wanted, run=str(folder)), facts["threads"], say)
        if run.graph.digest != facts["graph"]["digest"]:
            raise InputError(
                f"{folder.name} was trained on {facts['graph']['text']} with digest "
                f"{facts['graph']['digest']}, but {wanted.graph} is {run.graph!r} with digest "
                f"{run.graph.digest}; name the same graph, or start a new run"
            )
        run._hold()
        state, path, damaged = latest_checkpoint(folder / "checkpoints")
        for sentence in damaged:
            say(sentence)
        run.training.load_state_dict(state["training"])
        set_random_state(state["random"])
        say(f"resumed from {path.name}")
        run.write_metrics()
        return run

    def _hold(self) -> None:
        """One process at a time works in a run; the lock ends with the process."""
        self._lock = os.open(self.folder / ".lock", os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StorageError(
                f"{self.folder.name} is being trained by another process; wait for it"
            ) from error

    # ---- while training --------------------------------------------------------------------

    def save(self) -> Path:
        """Writes a checkpoint of where training is now.

        Raises:
            StorageError: the disk is full or refuses; earlier checkpoints are still there.
        """
        state = {"training": self.training.state_dict(), "random": random_state()}
        position = self.training.loader.state_dict()
        done, keep = len(self.training.history), self.settings.checkpoint.keep
        batch = 0 if position["epoch"] > done else position["batch"]
        self._saved = time.monotonic()
        return write_checkpoint(self.folder / "checkpoints", done, batch, state, keep)

    def try_to_save(self) -> bool:
        """The same, but a disk that refuses is only reported: training goes on."""
        try:
            self.save()
        except StorageError as error:
            self.say(f"no checkpoint: {error}; training goes on, and the last one is kept")
            return False
        return True

    def save_when_due(self) -> None:
        """Writes a checkpoint where the last one is older than `checkpoint.minutes`."""
        minutes = self.settings.checkpoint.minutes
        if minutes > 0 and time.monotonic() - self._saved >= 60 * minutes:
            self.try_to_save()

    def write_metrics(self) -> None:
        """Writes metrics.jsonl, one line an epoch; a disk that refuses is only reported."""
        lines = "".join(json.dumps(record) + "\n" for record in self.training.history)
        try:
            write_safely(self.folder / "metrics.jsonl", lines.encode())
        except StorageError as error:
            self.say(f"metrics not written: {error}")

    def finish(self, facts: Record) -> None:
        """Writes the best weights and the summary.

        Raises:
            StorageError: the disk is full; the checkpoints are there, so resume when it is not.
        """
        weights = self.training.best or self.training.model.state_dict()
        plain = {name: value.detach().cpu().clone().contiguous() for name, value in weights.items()}
        write_safely(self.folder / "model.safetensors", save(plain))
        write_safely(self.folder / "summary.json", json.dumps(facts, indent=1).encode())

    def close(self) -> None:
        """Frees the loader's memory and lets others work in the folder."""
        self.training.loader.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def load_model(folder: Path) -> tuple[nn.Module, Settings]:
    """The best model of a finished run, and what it was trained with.

    Raises:
        FormatError: this is no run, or it has not finished.
    """
    if not (folder / "config.toml").is_file() or not (folder / "environment.json").is_file():
        raise FormatError(f"{folder} is not the folder of a run; name one that train made")
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
    """What environment.json says of the model, the graph and the threads."""
    try:
        facts = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
        counts = (facts["threads"], facts["model"]["width"], facts["model"]["classes"])
        texts = (facts["graph"]["digest"], facts["graph"]["text"])
        whole = all(type(count) is int and 0 < count < _MOST for count in counts)
        if not whole or len(facts["model"]) != 2 or not all(isinstance(t, str) for t in texts):
            raise ValueError("a field has no possible value")
    except OSError as error:
        raise StorageError(f"cannot read environment.json: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(
            f"environment.json of {folder.name} is damaged ({error}); restore it, or train again"
        ) from error
    return dict(facts)
