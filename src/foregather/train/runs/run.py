"""run: one training run in one folder: created, resumed and finished.

The folder appears complete: settings, environment and a first checkpoint. From then on a process
may be killed at any moment; `Run.resume` continues from the newest intact checkpoint, to the same
weights as an undisturbed run. Metrics are part of the checkpoints, so none is lost or repeated.
Over ranks, rank 0 writes, all read, and every call here is collective.
"""

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from foregather.errors import InputError, StorageError
from foregather.files import absolute, clear_partial, storage_error, write_safely
from foregather.graph.hetero.graph import is_typed_folder
from foregather.graph.integrity.checks import UNCHECKED
from foregather.graph.on_disk.workspace import Workspace
from foregather.observe.machine import describe_machine
from foregather.observe.usable_memory import trim_memory
from foregather.train.checkpoints.checkpoint import (
    bad_weight,
    checkpoint_name,
    latest_checkpoint,
    random_state,
    read_checkpoint,
    seed_everything,
    set_random_state,
    write_checkpoint,
)
from foregather.train.checkpoints.prune import Pruner
from foregather.train.checkpoints.ranks import (
    check_torch,
    latest_together,
    read_all,
    write_together,
)
from foregather.train.hetero.make import check_plain
from foregather.train.rank_agreement import RunGrid, Together
from foregather.train.runs.run_folder import check_resumed, check_seen, choose_folder, lock_folder
from foregather.train.settings import Settings, shared_facts, write_settings
from foregather.train.settings.from_settings import board_writer, torch_threads
from foregather.train.trainers.full_graph import FullGraphTrainer
from foregather.train.trainers.linking import LinkTrainer
from foregather.train.trainers.sampled import SampledTrainer
from foregather.train.trainers.torch_threads import check_measured
from foregather.train.trainers.trainer import Record, Trainer
from foregather.train.trainers.typed import TypedTrainer
from foregather.train.trainers.unused_settings import unused_settings

__all__ = ["Run"]

_TELL_SECONDS = 1.0  # between epochs that are told, where none of them ends with a checkpoint
_BETWEEN_RANKS = 1_000_003  # distance between the seeds of ranks, so that dropout differs


class Run:
    """A training run and its folder; made by `create` or `resume`.

    Attributes:
        folder: the absolute path of the run folder.
        settings: the settings; its `run` is the folder as named by the user.
        trainer: the training and its progress.
        say: called with every message for the user.
        together: the ranks that train, one or many.
        typed: whether the graph has node types.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        threads: int,
        say: Callable[[str], None],
        together: Together,
        begun: dict[str, Any] | None = None,
    ) -> None:
        self.folder, self.settings, self.say = absolute(folder), settings, say
        self.together = together
        together.agree(shared_facts(settings))
        together.all_do(lambda: self._prepare(threads), "looking at the settings")
        self.trainer: Trainer
        self.typed = together.all_do(self._look_at_graph, "looking at the graph")
        check_measured(settings, together.size, self.typed)
        if settings.train.task == "link":
            self.trainer = LinkTrainer(settings, self.folder, say, together, begun)
        elif self.typed:
            self.trainer = TypedTrainer(settings, self.folder, say, together, begun)
        elif settings.train.method == "full-graph":
            self.trainer = FullGraphTrainer(settings, together, begun, say)
        else:
            self.trainer = SampledTrainer(settings, self.folder, say, together, begun)
        seed_everything(settings.train.seed + _BETWEEN_RANKS * self.together.rank)
        self._pruner = Pruner(self._read_checkpoint)
        self._saved, self._told = time.monotonic(), -math.inf
        self._lock: int | None = None

    def _prepare(self, threads: int) -> None:
        """Checks that each rank does by itself, before anything is opened."""
        if not self.settings.graph:
            raise InputError("graph is not given; name the graph folder to train on")
        if self.together.grid is not None:
            check_torch()
        torch.set_num_threads(threads)
        if self.settings.watch.tensorboard and self.together.first:
            board_writer()

    def _look_at_graph(self) -> bool:
        """Whether the graph has node types; refuses settings that are for the other kind."""
        typed = is_typed_folder(self.settings.graph)
        if not typed and self.settings.train.task != "link":
            check_plain(self.settings)
        return typed

    def _read_checkpoint(self, path: Path) -> None:
        """Raises if a checkpoint of this run is damaged."""
        if self.together.grid is None:
            read_checkpoint(path)
        else:
            read_all(path, self.together.size, self.trainer.like)

    @staticmethod
    def create(
        settings: Settings,
        say: Callable[[str], None] = print,
        grid: RunGrid | None = None,
        check: Callable[[], None] | None = None,
    ) -> "Run":
        """Starts a run; the folder is created once everything is checked.

        Args:
            settings: the settings.
            say: called with messages for the user.
            grid: the ranks, if there are several.
            check: looks on rank 0, before anything is made, whether what follows can be done.

        Raises:
            InputError: a setting does not fit the graph.
            StorageError: the folder exists, or cannot be made.
        """
        together = Together(grid)
        if check is not None:
            together.first_does(check, "looking ahead")
        folder = together.first_does(lambda: choose_folder(settings), "choosing the folder")
        threads = torch_threads(settings)
        run = Run(folder, replace(settings, run=str(folder)), threads, say, together)
        run._make_folder(torch.get_num_threads())
        for text in unused_settings(settings, together.size, run.typed) if together.first else ():
            say(text)
        graph = run.trainer.graph
        if graph.path is not None and not graph.checked and together.first:
            say(f"{graph.path.name} has {UNCHECKED}")
        return run

    def _make_folder(self, threads: int) -> None:
        """Makes the folder in a workspace and moves it into place; nothing there is replaced."""
        final = self.folder
        work = Workspace(final)  # held by rank 0; the others know its name
        partial = work.path / "run"
        graph = self.trainer.graph
        environment = {
            "graph": {"digest": graph.digest, "text": repr(graph)},
            "model": self.trainer.shape,
            "threads": threads,
            "ranks": self.together.size,
            **self.trainer.facts(),
            "machine": describe_machine(graph.path or "."),
        }

        def begin() -> None:
            work.acquire()
            try:
                (partial / "checkpoints").mkdir(parents=True)
            except OSError as error:
                raise storage_error(error, final, "making") from error
            write_safely(partial / "config.toml", write_settings(self.settings).encode())
            text = json.dumps(environment, indent=1)
            write_safely(partial / "environment.json", text.encode())

        def end() -> None:
            try:
                work.commit(partial.name)
            except StorageError:
                raise
            except OSError as error:
                raise storage_error(error, final, "making") from error

        try:
            self.together.first_does(begin, "making the folder")
            self.together.all_do(lambda: check_seen(partial), "looking for the folder")
            self.folder = partial
            self.save()
            self.folder = final
            self.together.first_does(end, "naming the folder")
        finally:
            if self.together.first:
                work.close()
        self._hold()

    @staticmethod
    def resume(
        folder: Path,
        settings: Settings | None = None,
        say: Callable[[str], None] = print,
        grid: RunGrid | None = None,
        trust_code: bool = False,
        check: Callable[[], None] | None = None,
    ) -> "Run":
        """Resumes from the newest intact checkpoint.

        Args:
            folder: of the run.
            settings: None takes those of the run; others may differ only in settings that change no
                result.
            say: called with messages for the user.
            grid: the ranks, as many as the run was started with.
            trust_code: allow code that the run's own settings name; code named in the caller's
                `settings` is always allowed.
            check: as of `create`.

        Raises:
            InputError: other settings, another graph or another number of ranks; the message shows
                the difference. Or the run names code and is not trusted.
            FormatError: this is not a run, or no checkpoint can be read.
        """
        together, named, folder = Together(grid), folder, absolute(folder)
        if check is not None:
            together.first_does(check, "looking ahead")
        wanted, facts = together.all_do(
            lambda: check_resumed(named, settings, together.size, trust_code),
            "looking at the run",
        )
        wanted = replace(wanted, run=str(named))
        run = Run(folder, wanted, int(facts["threads"]), say, together, facts)
        trainer, places = run.trainer, folder / "checkpoints"
        graph, device = trainer.graph, trainer.facts()["device"]
        if graph.digest != facts["graph"]["digest"]:
            raise InputError(
                f"{folder.name} was trained on {facts['graph']['text']} with digest "
                f"{facts['graph']['digest']}, but {wanted.graph} is {graph!r} with digest "
                f"{graph.digest}; name the same graph, or start a new run"
            )
        before = facts.get("device", "cpu")
        if before != device:
            say(f"trained on {before} before, now on {device}: equal only up to rounding")
        run._hold()
        if grid is None:
            state, path, damaged = latest_checkpoint(places)
        else:
            shared, own, path, damaged = latest_together(places, run.together, trainer.like)
            mine = {name: own.get(name) for name in trainer.own}  # older ones have fewer
            state = {"training": shared["training"] | mine, "random": own["random"]}
        clear_partial(folder)
        if together.first:
            Workspace(folder).clear_left()
        for sentence in damaged:
            say(sentence)
        trainer.load_state_dict(state["training"])
        set_random_state(state["random"])
        say(f"resumed from {path.name}")
        run.write_metrics()
        return run

    def _hold(self) -> None:
        """Locks the folder: one process at a time works in it; the lock ends with the process."""

        def lock() -> None:
            self._lock = lock_folder(self.folder)

        self.together.first_does(lock, "locking the folder")

    # ---- while training --------------------------------------------------------------------

    def save(self) -> Path:
        """Writes a checkpoint of the current state.

        Raises:
            StorageError: the disk is full or refuses; earlier checkpoints are kept.
            NumericError: a weight is NaN or infinite; the last good checkpoint is kept.
        """
        trainer, (done, step) = self.trainer, self.trainer.position()
        failed = bad_weight(trainer.model, done)
        if (found := self.together.all_or_none(failed, "looking at the weights")) is not None:
            raise found
        state = {"training": trainer.state_dict(), "random": random_state()}
        keep = self.settings.checkpoint.keep
        self._saved, folder = time.monotonic(), self.folder / "checkpoints"
        if self.together.grid is None:
            path = write_checkpoint(folder, done, step, state)
            self._pruner.prune(path, keep)
            return path
        path = folder / checkpoint_name(done, step)
        mine = {name: state["training"].pop(name) for name in trainer.own}
        own = {"random": state.pop("random"), **mine}
        if write_together(path, state, own, self.together, trainer.like):
            self.together.first_does(lambda: self._pruner.prune(path, keep), "removing checkpoints")
        return path

    def try_to_save(self) -> bool:
        """Like `save`, but a disk error is only reported and training continues."""
        try:
            self.save()
        except StorageError as error:
            self.say(f"no checkpoint: {error}; training continues, and the last one is kept")
            return False
        return True

    def is_due(self) -> bool:
        """Whether the last checkpoint is older than `checkpoint.minutes`; rank 0 decides."""
        minutes = self.settings.checkpoint.minutes
        late = minutes > 0 and time.monotonic() - self._saved >= 60 * minutes
        return late and self.together.first

    def is_time_to_tell(self) -> bool:
        """Whether the last word to disk and people is a second old: epochs may be far shorter."""
        return time.monotonic() - self._told >= _TELL_SECONDS

    def write_metrics(self) -> None:
        """Writes metrics.jsonl, one line per epoch; a disk error is only reported."""
        self._told = time.monotonic()
        if not self.together.first:
            return
        lines = "".join(json.dumps(record) + "\n" for record in self.trainer.history)
        try:
            write_safely(self.folder / "metrics.jsonl", lines.encode())
        except StorageError as error:
            self.say(f"metrics not written: {error}")

    def finish(self, facts: Record) -> None:
        """Writes the best weights and the summary.

        Raises:
            StorageError: the disk is full; the checkpoints are kept, so resume once there is room.
        """
        weights = self.trainer.best_weights()

        def write() -> None:
            write_safely(self.folder / "model.safetensors", save(weights))
            write_safely(self.folder / "summary.json", json.dumps(facts, indent=1).encode())

        self.together.first_does(write, "writing the weights")

    def close(self, failed: bool = False) -> None:
        """Frees the training's resources and unlocks the folder; a collective call."""
        if self.together.grid is None or not failed:  # after a failure other ranks may not join
            self.trainer.give_back()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        trim_memory()  # a program may run another after this one

    def __repr__(self) -> str:
        done, wanted = self.trainer.epochs_done(), self.settings.train.epochs
        model, graph = self.settings.model.kind, self.settings.graph
        return f"Run({str(self.folder)!r}: {model} on {graph}, epoch {done} of {wanted})"

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(kind is not None and issubclass(kind, Exception))
