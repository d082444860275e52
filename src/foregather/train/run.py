"""run: one training run in one folder, made, carried on and finished.

The folder appears whole: settings, environment and a first checkpoint. From then on a process may
be killed at any moment; `Run.resume` goes on from the newest whole checkpoint, to the same weights
as an undisturbed run. Metrics are part of the checkpoints, so none is lost or told twice. Over
ranks rank 0 writes, all read, and each call here is made by all of them together.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from foregather.errors import InputError, StorageError
from foregather.files import absolute, clear_partial, storage_error, write_safely
from foregather.graph.graph import Graph
from foregather.graph.integrity.checks import UNCHECKED
from foregather.graph.on_disk.workspace import Workspace
from foregather.loader.loader import Loader
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
from foregather.train.device import find_device
from foregather.train.fit import Record, Training
from foregather.train.from_settings import (
    board_writer,
    choose_topology,
    make_loader,
    make_model,
    make_optimizer,
    make_sampler,
)
from foregather.train.metrics import (
    check_classes,
    check_split,
    check_valid,
    count_classes,
    wants_edge_attr,
)
from foregather.train.parallel_model import model_facts, spread, whole_weights
from foregather.train.rank_agreement import RunGrid, Together
from foregather.train.run_counters import Meter
from foregather.train.run_folder import check_resumed, check_seen, choose_folder, lock_folder
from foregather.train.settings import Settings, shared_facts, write_settings

__all__ = ["Run"]

_BETWEEN_RANKS = 1_000_003  # seeds of ranks are so far apart: each drops other values out


class Run:
    """A training and its folder; `create` or `resume` makes one.

    Attributes:
        folder: where everything is, from the root on.
        settings: what was asked for; its `run` is the folder as it was named.
        graph: what is trained on.
        training: model, optimiser, loader and history.
        shape: feature columns and classes that the model was made for.
        say: called with every sentence for people.
        together: the ranks that train, one or many.
        device: where the model is.
        topology: over ranks, where neighbour lists are.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        threads: int,
        say: Callable[[str], None],
        together: Together,
    ) -> None:
        self.folder, self.settings, self.say = absolute(folder), settings, say
        self.together = together
        together.agree(shared_facts(settings))
        self.graph, model = self.together.all_do(lambda: self._open(threads), "opening the graph")
        together.agree(model_facts(model))
        self.topology = self.together.first_does(
            lambda: choose_topology(self.graph, settings), "choosing where the topology is"
        )
        loader = self._make_loader(model)
        batches: Any = iter(loader)
        first = next(batches)
        batches.close()
        self.together.all_do(
            lambda: check_classes(model, first, self.shape["classes"]), "trying the model"
        )
        meter = Meter(loader)
        if loader.ranks is None:
            meter.give_back()  # an epoch begins with an empty cache, after any check
        else:
            loader.ranks.gather_ledger()  # what was asked for the check has crossed by then
        loader.set_epoch(0)
        parallel = spread(model, settings.grid.weights, self.together)
        optimizer, scheduler = make_optimizer(model, settings.optimizer, settings.train.epochs)
        self.training = Training(
            model,
            loader,
            optimizer,
            scheduler,
            parallel=parallel,
            together=self.together,
            meter=meter,
        )
        self._open_loader = True
        seed_everything(settings.train.seed + _BETWEEN_RANKS * self.together.rank)
        self._pruner = Pruner(self._read_checkpoint)
        self._saved = time.monotonic()
        self._lock: int | None = None

    def _make_loader(self, model: nn.Module) -> Loader:
        edges, grid = None if wants_edge_attr(model) else False, self.together.grid
        return make_loader(self.graph, self.settings, grid, self.device, self.topology, edges)

    def _read_checkpoint(self, path: Path) -> None:
        """Raises where a checkpoint of this run is not whole."""
        if self.together.grid is None:
            read_checkpoint(path)
        else:
            read_all(path, self.together.size, self.training.like)

    def _open(self, threads: int) -> tuple[Graph, nn.Module]:
        """What a rank does by itself: the graph, and a model that fits it."""
        settings = self.settings
        if not settings.graph:
            raise InputError("graph is not given; name the graph folder to train on")
        if self.together.grid is not None:
            check_torch()
        torch.set_num_threads(threads)
        graph = Graph.open(settings.graph)
        if graph.features is None:
            raise InputError("the graph has no features; convert it with them to train on it")
        make_sampler(settings.sampler)
        if settings.watch.tensorboard and self.together.first:
            board_writer()
        self.device = find_device(settings.train.device)
        self.shape = {"width": graph.features.width, "classes": count_classes(graph)}
        check_split(graph, settings.train.split)
        check_valid(graph, settings.train.valid)
        return graph, make_model(settings, **self.shape).to(self.device)

    @staticmethod
    def create(
        settings: Settings, say: Callable[[str], None] = print, grid: RunGrid | None = None
    ) -> "Run":
        """Starts a run; the folder is made once everything fits together.

        Args:
            settings: what is asked for.
            say: called with sentences for people.
            grid: the ranks, where there are several.

        Raises:
            InputError: a setting does not fit the graph.
            StorageError: the folder exists, or cannot be made.
        """
        together = Together(grid)
        folder = together.first_does(lambda: choose_folder(settings), "choosing the folder")
        threads = settings.train.threads or torch.get_num_threads()
        run = Run(folder, replace(settings, run=str(folder)), threads, say, together)
        run._make_folder(threads)
        if run.graph.path is not None and not run.graph.checked and together.first:
            say(f"{run.graph.path.name} has {UNCHECKED}")
        return run

    def _make_folder(self, threads: int) -> None:
        """Makes the folder in a workspace and moves it into place; nothing there is replaced."""
        final = self.folder
        work = Workspace(final)  # held by rank 0; the others know its name
        partial = work.path / "run"
        environment = {
            "graph": {"digest": self.graph.digest, "text": repr(self.graph)},
            "model": self.shape,
            "threads": threads,
            "ranks": self.together.size,
            "device": self.device.type,
            "topology": self.topology,
            "machine": describe_machine(self.graph.path or "."),
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
    ) -> "Run":
        """Goes on from the newest whole checkpoint.

        Args:
            folder: of the run.
            settings: None takes those of the run; others may differ only in what changes no result.
            say: called with sentences for people.
            grid: the ranks, as many as the run was started with.
            trust_code: code that the run's own settings name may be run; what the caller's
                `settings` name is his own word.

        Raises:
            InputError: other settings, another graph or another number of ranks; the message shows
                the difference. Or the run names code and is not trusted.
            FormatError: this is no run, or no checkpoint can be read.
        """
        together, named, folder = Together(grid), folder, absolute(folder)
        wanted, facts = together.all_do(
            lambda: check_resumed(named, settings, together.size, trust_code),
            "looking at the run",
        )
        run = Run(folder, replace(wanted, run=str(named)), int(facts["threads"]), say, together)
        if run.graph.digest != facts["graph"]["digest"]:
            raise InputError(
                f"{folder.name} was trained on {facts['graph']['text']} with digest "
                f"{facts['graph']['digest']}, but {wanted.graph} is {run.graph!r} with digest "
                f"{run.graph.digest}; name the same graph, or start a new run"
            )
        before = facts.get("device", "cpu")
        if before != run.device.type:
            say(f"trained on {before} before, on {run.device.type} now: equal up to rounding only")
        run._hold()
        training, places = run.training, folder / "checkpoints"
        if grid is None:
            state, path, damaged = latest_checkpoint(places)
        else:
            shared, own, path, damaged = latest_together(places, run.together, training.like)
            counted = {"counted": own["counted"]}
            state = {"training": shared["training"] | counted, "random": own["random"]}
        clear_partial(folder)
        if together.first:
            Workspace(folder).clear_left()
        for sentence in damaged:
            say(sentence)
        training.load_state_dict(state["training"])
        set_random_state(state["random"])
        say(f"resumed from {path.name}")
        run.write_metrics()
        return run

    def _hold(self) -> None:
        """One run at a time works in a folder; the lock ends with the process."""

        def lock() -> None:
            self._lock = lock_folder(self.folder)

        self.together.first_does(lock, "locking the folder")

    # ---- while training --------------------------------------------------------------------

    def save(self) -> Path:
        """Writes a checkpoint of where training is now.

        Raises:
            StorageError: the disk is full or refuses; earlier checkpoints are still there.
            NumericError: a weight is NaN or infinite; the last good checkpoint is kept.
        """
        failed = bad_weight(self.training.model, len(self.training.history))
        if (found := self.together.all_or_none(failed, "looking at the weights")) is not None:
            raise found
        state = {"training": self.training.state_dict(), "random": random_state()}
        position = self.training.loader.state_dict()
        done, keep = len(self.training.history), self.settings.checkpoint.keep
        batch = 0 if position["epoch"] > done else position["batch"]
        self._saved, folder = time.monotonic(), self.folder / "checkpoints"
        if self.together.grid is None:
            path = write_checkpoint(folder, done, batch, state)
            self._pruner.prune(path, keep)
            return path
        path = folder / checkpoint_name(done, batch)
        own = {"random": state.pop("random"), "counted": state["training"].pop("counted")}
        if write_together(path, state, own, self.together, self.training.like):
            self.together.first_does(lambda: self._pruner.prune(path, keep), "removing checkpoints")
        return path

    def try_to_save(self) -> bool:
        """The same, but a disk that refuses is only reported: training goes on."""
        try:
            self.save()
        except StorageError as error:
            self.say(f"no checkpoint: {error}; training goes on, and the last one is kept")
            return False
        return True

    def is_due(self) -> bool:
        """Whether the last checkpoint is older than `checkpoint.minutes`; rank 0 decides."""
        minutes = self.settings.checkpoint.minutes
        late = minutes > 0 and time.monotonic() - self._saved >= 60 * minutes
        return late and self.together.first

    def write_metrics(self) -> None:
        """Writes metrics.jsonl, one line an epoch; a disk that refuses is only reported."""
        if not self.together.first:
            return
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
        weights = whole_weights(self.training.best or self.training.model.state_dict())

        def write() -> None:
            write_safely(self.folder / "model.safetensors", save(weights))
            write_safely(self.folder / "summary.json", json.dumps(facts, indent=1).encode())

        self.together.first_does(write, "writing the weights")

    def give_back(self) -> None:
        """Frees what the loader holds, with its counters kept; all ranks call this."""
        if not self._open_loader:
            return
        self._open_loader = False
        if self.training.loader.ranks is not None:
            self.training.loader.ranks.gather_ledger()  # all that was asked for has crossed by then
        self.training.meter.give_back()
        trim_memory()

    def reopen(self) -> None:
        """The loader again after `give_back`; all ranks call this."""
        if self._open_loader:
            return
        if self.together.grid is not None:  # on one rank a loop opens by itself what it needs
            self.training.loader = self._make_loader(self.training.model)
            self.training.meter.switch(self.training.loader)
        self._open_loader = True

    def close(self, failed: bool = False) -> None:
        """Frees the loader's memory and lets others work in the folder; all ranks call this."""
        if self.together.grid is None or not failed:  # after a failure other ranks may not come
            self.give_back()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        trim_memory()  # a program may run another after this one

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(kind is not None and issubclass(kind, Exception))
