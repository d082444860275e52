"""train_ranks: carries `train` and `train-full` through on one of several ranks.

A rank that fails exits at once, with its own number in the message: the others are waiting for it
in a collective and only learn from its exit that it will not join.
"""

import json as text_format
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from foregather.errors import ForegatherError, InputError, RankError
from foregather.observe.progress import quiet
from foregather.train.settings import Settings

if TYPE_CHECKING:
    from foregather.dist import Grid
    from foregather.train.rank_agreement import RunGrid
    from foregather.train.runs.run import Run

__all__ = ["count_ranks", "restarted_run", "train_over_ranks"]


def count_ranks() -> int:
    """Ranks that torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def restarted_run(run: str) -> Path | None:
    """Returns the run to resume if torchrun restarted the ranks.

    Raises:
        InputError: torchrun may restart ranks, but the run has no name to find it by.
    """
    if int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) == 0:
        return None
    if not run:
        raise InputError(
            "run is not given, but torchrun may start the ranks again (--max-restarts); name the "
            'folder with run = "FOLDER", so that they find the run that they began'
        )
    again = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    return Path(run) if again and Path(run, "config.toml").is_file() else None


def train_over_ranks(
    begin: "Callable[[RunGrid], Run]",
    settings: Settings,
    json: bool,
    finish: "Callable[[Run, dict[str, Any]], dict[str, Any]] | None" = None,
) -> dict[str, Any]:
    """Trains to the end on this rank; returns the summary on rank 0, nothing on the others.

    Args:
        begin: makes the run, or resumes it.
        settings: of the run.
        json: whether errors are printed as JSON too.
        finish: what all ranks do after training, with the summary; returns it.
    """
    from foregather.dist import Grid
    from foregather.train.rank_agreement import SaidElsewhereError
    from foregather.train.runs.run_loop import run_loop

    rank = int(os.environ.get("RANK", "0"))
    try:
        with (
            nullcontext() if rank == 0 else quiet(),
            Grid(settings.grid.replication, timeout=settings.grid.timeout) as grid,
        ):
            try:
                with begin(grid) as run:
                    facts = run_loop(run)
                    if finish is not None:
                        facts = finish(run, facts)
            except SaidElsewhereError:
                _end(2)
            except ForegatherError as error:
                _fail(rank, error, json, grid)
            except Exception as error:
                print(f"foregather: rank {rank}:", file=sys.stderr)
                traceback.print_exc()
                _tell(error, grid)
                _end(1)
    except ForegatherError as error:
        _fail(rank, error, json)
    except KeyboardInterrupt:
        if rank > 0:
            raise SystemExit(130) from None
        raise
    return facts if rank == 0 else {}


def _fail(rank: int, error: ForegatherError, json: bool, grid: "Grid | None" = None) -> NoReturn:
    text = str(error)
    if not text.startswith(f"rank {rank}"):
        text = f"rank {rank}: {text}"
    if json:
        print(text_format.dumps({"error": text, "kind": type(error).__name__}), flush=True)
    print(f"foregather: {text}", file=sys.stderr, flush=True)
    _tell(error, grid)
    _end(2)


def _tell(error: Exception, grid: "Grid | None") -> None:
    """Tells torchrun and the other ranks why this one exits."""
    from foregather.dist.transport.last_word import record

    record(error)
    if grid is not None and not isinstance(error, RankError):
        grid.watch.leave(f"{type(error).__name__}: {error}", fatal=True)


def _end(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a normal exit would first join threads that wait for other ranks
