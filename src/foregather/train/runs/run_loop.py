"""run_loop: runs a training to its end: epochs, checkpoints, signals, trace and summary.

An interrupt or termination is handled between two steps: a checkpoint is written, and then the
process exits as the signal demands. A second interrupt exits at once; the last checkpoint is kept.
Over ranks a signal to any of them stops all after the same step.
"""

import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from foregather.errors import FormatError, StorageError
from foregather.files import make_inside, write_safely
from foregather.observe.report import read_run, save_charts
from foregather.observe.trace import Trace, span
from foregather.train.runs.run import Run
from foregather.train.settings import WatchSettings, code_names
from foregather.train.settings.from_settings import board_writer
from foregather.train.trainers.trainer import Record, best_record, run_epochs
from foregather.units import format_bytes

__all__ = ["epoch_line", "run_loop"]

_DUE = 1  # exchanged by ranks when a checkpoint is due; signals have larger numbers
_TRACE_SECONDS = 60.0  # between writes of the trace while training runs


class _Signals:
    """Remembers the first interrupt or termination instead of ending the process."""

    def __init__(self) -> None:
        self.seen: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "_Signals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.seen = number
        self._restore()  # the next one ends the process at once

    def _restore(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)

    def __exit__(self, *error: object) -> None:
        self._restore()


def run_loop(run: Run) -> Record:
    """Trains to the end, evaluates the best weights, and writes the results.

    Returns:
        The summary: epochs, best epoch, the metric by split and how it was `scored`, seconds,
        everything read and sent (with the part `beside` the batches of epochs), and the folder.

    Raises:
        KeyboardInterrupt: by SIGINT, after a checkpoint.
        SystemExit: by SIGTERM, likewise.
    """
    settings, trainer, together = run.settings, run.trainer, run.together
    trainer.begin()
    if text := trainer.outlook():
        run.say(text)
    watch = settings.watch if together.first else WatchSettings(False, False, False)
    with (
        _Signals() as signals,
        _traced(watch.trace, watch.profile, run) as (trace, each_epoch),
        _board(watch.tensorboard, run) as to_board,
    ):
        totals: dict[str, float] = {}

        def after_step() -> None:
            if trainer.position()[1] == 0:
                return  # the epoch is complete: its record and checkpoint come next
            asked = together.largest(signals.seen or (_DUE if run.is_due() else 0))
            if asked > _DUE:
                _stop(run, asked)
            if asked == _DUE:
                run.try_to_save()

        def after_epoch(record: Record) -> None:
            now = trace.totals()
            record["stages"] = {name: now[name] - totals.get(name, 0.0) for name in now}
            totals.update(now)
            done = trainer.epochs_done()
            saved = done % settings.checkpoint.epochs == 0 or done == settings.train.epochs
            saved = saved or bool(together.largest(int(run.is_due())))
            told = saved or run.is_time_to_tell()
            if told:
                run.write_metrics()
            to_board(record)  # before the checkpoint: what follows it is repeated
            if saved:
                run.try_to_save()
            if told:
                run.say(epoch_line(record, settings.train.epochs))
            if text := trainer.explain(record):
                run.say(text)
            each_epoch()
            asked = together.largest(signals.seen or 0)
            if asked and done < settings.train.epochs:
                _stop(run, asked)

        with _kept_at_disk_errors(run):
            run_epochs(
                trainer,
                settings.train.epochs,
                patience=settings.train.patience,
                after_step=after_step,
                after_epoch=after_epoch,
            )
        if trainer.epochs_done() % settings.checkpoint.epochs and _stopped_early(run):
            run.try_to_save()
        facts = _summary(run)
    run.write_metrics()
    run.finish(facts)
    if together.first:
        _plot(run)
    return facts


def _stopped_early(run: Run) -> bool:
    """Whether patience ended it, so that the last epoch may have no checkpoint."""
    return run.trainer.epochs_done() < run.settings.train.epochs


def _plot(run: Run) -> None:
    """Draws the charts; a disk error is only reported."""
    _try(run, "plots", lambda: save_charts(run.folder, read_run(run.folder)))


def epoch_line(record: Record, epochs: int) -> str:
    """Describes an epoch in one line; includes what was read or sent beside its batches."""
    scored, beside = record.get("scored", "sampled"), record.get("beside", {})
    parts = [f"epoch {record['epoch']:>{len(str(epochs))}}/{epochs}", f"loss {record['loss']:.4f}"]
    if "train" in record or "valid" in record:
        parts.append(record.get("metric", "accuracy"))
    if "train" in record:
        parts.append(f"train {record['train']:.4f} (sampled)")
    if "valid" in record:
        parts.append(f"valid {record['valid']:.4f} ({scored})")
    waited = f" ({record['waited']:.2f} waiting for batches)" if "waited" in record else ""
    parts.append(f"{record['seconds']:.2f} s{waited}")
    if record.get("ran", "exact") != "exact":
        parts.append(record["ran"])
    if "sent" in record:
        parts.append(f"{format_bytes(record['sent'] + beside.get('sent', 0))} sent")
    if record.get("rows"):
        own = f"{record['local'] / record['rows']:.0%} own rows, " if "local" in record else ""
        hits = record["hits"] / record["rows"]
        read = ""
        if "sent" not in record:
            read = f"{format_bytes(record['bytes'] + beside.get('bytes', 0))} read, "
        parts.append(f"{read}{own}{hits:.0%} hits")
    parts.append(f"peak {format_bytes(record['peak_memory'])}")
    return "  ".join(parts)


@contextmanager
def _kept_at_disk_errors(run: Run) -> Iterator[None]:
    """Writes a checkpoint when an epoch on the full graph cannot write or read its activations.

    Weights and optimiser are those before that epoch, so nothing but the epoch is lost.
    """
    try:
        yield
    except StorageError as error:
        alone = run.together.size == 1 and run.settings.train.method == "full-graph"
        if not alone or not run.trainer.epochs_done():
            raise
        raise StorageError(f"{error}; {_saved_and_how_to_go_on(run)}") from error


def _saved_and_how_to_go_on(run: Run) -> str:
    """Writes a checkpoint; returns whether that was possible, and the command that continues."""
    saved = run.try_to_save()
    where = "a checkpoint was written" if saved else "the last checkpoint is older"
    ranks = run.together.size
    line = "foregather" if ranks == 1 else f"torchrun (with {ranks} ranks) -m foregather"
    trust = " --trust-code" if code_names(run.settings) else ""
    return f"stopped; {where}; continue with: {line} train --resume {run.settings.run}{trust}"


def _stop(run: Run, number: int) -> None:
    text = _saved_and_how_to_go_on(run)
    if number == signal.SIGINT:
        raise KeyboardInterrupt(text)
    run.say(text)
    raise SystemExit(128 + number)


def _summary(run: Run) -> Record:
    """The metric of the best weights, and the run in numbers."""
    trainer, history = run.trainer, run.trainer.history
    facts: Record = {"run": run.settings.run, "epochs": trainer.epochs_done()}
    best = best_record(history, trainer.metric)
    if best is not None:
        facts |= {"best_epoch": best["epoch"], "best_valid": best["valid"]}
        facts["best_valid_scored"] = best.get("scored", run.settings.train.evaluate)
    with span("evaluate"):
        facts |= trainer.final_scores()
    trainer.give_back()
    ended = trainer.take_beside()
    facts["seconds"] = sum(record["seconds"] for record in history)
    if any("waited" in record for record in history):
        facts["waited"] = sum(record["waited"] for record in history)
    for name in ended:
        others = sum(record.get("beside", {}).get(name, 0) for record in history) + ended[name]
        facts[name] = sum(record.get(name, 0) for record in history) + others
        facts.setdefault("beside", {})[name] = others
    facts["peak_memory"] = max((record["peak_memory"] for record in history), default=0)
    return facts


@contextmanager
def _traced(trace: bool, profile: bool, run: Run) -> Iterator[tuple[Trace, Callable[[], None]]]:
    """A trace of this process, written where the run goes to; torch's own of the first epoch.

    Yields:
        The trace, and what to call after each epoch.
    """
    profiler: Any = None
    made = Trace() if trace else Trace(most=0)
    if profile:
        profiler = torch.profiler.profile()
        made.ranges = torch.profiler.record_function
        profiler.start()
    written = time.perf_counter() - _TRACE_SECONDS

    def after_epoch() -> None:
        nonlocal profiler, written
        if profiler is not None:
            profiler.stop()
            _try(run, "profile", lambda: _export(profiler, run.folder / "profile.json"))
            profiler, made.ranges = None, None
        if trace and time.perf_counter() - written > _TRACE_SECONDS:
            _try(run, "trace", lambda: made.write(run.folder / "trace.json"))
            written = time.perf_counter()

    try:
        with made:
            yield made, after_epoch
    finally:
        if trace:
            _try(run, "trace", lambda: made.write(run.folder / "trace.json"))


def _export(profiler: Any, path: Path) -> None:
    """Writes torch's own trace atomically; torch itself would write through a link."""
    with tempfile.TemporaryDirectory() as place:
        profiler.export_chrome_trace(f"{place}/profile.json")
        write_safely(path, Path(place, "profile.json").read_bytes())


@contextmanager
def _board(wanted: bool, run: Run) -> Iterator[Callable[[Record], None]]:
    """TensorBoard's file of this run; epochs that a resumed run repeats replace their first tries.

    Yields:
        What to call with the record of an epoch. Without TensorBoard it does nothing.
    """
    if not wanted:
        yield lambda record: None
        return
    make_inside(run.folder / "tensorboard")  # never behind a link
    folder, first = str(run.folder / "tensorboard"), len(run.trainer.history) + 1
    with board_writer()(folder, purge_step=first) as board:

        def write(record: Record) -> None:
            for name in ("loss", "train", "valid", "seconds", "waited", "bytes", "sent"):
                if name in record:
                    rated = f"{record['metric']}/" if name in ("train", "valid") else ""
                    board.add_scalar(f"{rated}{name}", record[name], record["epoch"])
            board.flush()

        yield lambda record: _try(run, "TensorBoard file", lambda: write(record))


def _try(run: Run, what: str, write: Callable[[], None]) -> None:
    """Writes an optional file; a disk error is only reported."""
    try:
        write()
    except (OSError, RuntimeError, FormatError) as error:
        run.say(f"{what} not written: {error}")
