"""last_word: reports the failure of a process with a grid, wherever the error was raised.

Torch raises its own errors when gradients are exchanged, in the user's `backward`, and they name no
rank. An error that leaves a `with Grid(...)` or the main program is inspected: if links between
ranks failed, it becomes the verdict of the watch, a `RankError` that names the rank; an error of
this rank alone is reported to the others. Both go to the error file of torchrun. The user need not
call anything.
"""

import atexit
import json
import os
import sys
import threading
import time
import traceback
from types import TracebackType
from typing import TYPE_CHECKING, Any

from foregather.dist.transport.link_error import is_link_error
from foregather.errors import RankError

if TYPE_CHECKING:
    from foregather.dist.transport.rank_grid import RankGrid

__all__ = ["hook", "name_failure", "record", "release", "watch_over"]

_NAME = "a collective of the program"
_grids: list["RankGrid"] = []  # open ones
_stuck: list[threading.Thread] = []  # threads of closed grids that wait for other ranks
_hooked = False


def watch_over(grid: "RankGrid") -> None:
    """Makes uncaught errors of this process name the failed rank."""
    _grids.append(grid)


def hook() -> None:
    """Hooks uncaught errors of this process; earlier hooks still run."""
    global _hooked
    if not _hooked:
        _hooked = True
        before, before_threads = sys.excepthook, threading.excepthook

        def main(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
            said = _last_word(error)
            before(type(said), said, said.__traceback__)
            _end_if_stuck()

        def thread(facts: "threading.ExceptHookArgs") -> None:
            if facts.exc_value is not None and is_link_error(facts.exc_value):
                said = _last_word(facts.exc_value)
                values: Any = (type(said), said, said.__traceback__, facts.thread)
                facts = threading.ExceptHookArgs(values)
            before_threads(facts)

        sys.excepthook, threading.excepthook = main, thread
        atexit.register(_close_all)


def release(grid: "RankGrid", stuck: list[threading.Thread]) -> None:
    """Unregisters a closed grid; some of its threads may still wait for other ranks."""
    if grid in _grids:
        _grids.remove(grid)
    _stuck.extend(stuck)


def name_failure(grid: "RankGrid", error: BaseException) -> RankError | None:
    """Returns the verdict if links between ranks failed.

    Otherwise tells the others why this rank exits.
    """
    if isinstance(error, RankError):
        return None
    if is_link_error(error):
        return grid.watch.verdict(_NAME, error)
    if isinstance(error, SystemExit | KeyboardInterrupt | GeneratorExit):
        grid.watch.leave(f"{type(error).__name__} {error}".rstrip())
    else:
        grid.watch.leave(_sentence(error), fatal=True)
    return None


def record(error: BaseException) -> None:
    """Writes torchrun's error file, if it wants one."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    extra = {"py_callstack": "".join(lines), "timestamp": str(int(time.time()))}
    message = {"message": {"message": _sentence(error), "extraInfo": extra}}
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(message, file)
    except OSError as refused:
        print(f"foregather: torchrun's error file is not written: {refused}", file=sys.stderr)


def _sentence(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _last_word(error: BaseException) -> BaseException:
    said = error
    if _grids and (named := name_failure(_grids[-1], error)) is not None:
        named.__cause__ = error
        said = named
    record(said)
    return said


def _end_if_stuck() -> None:
    """Exits with code 1 if a normal exit would wait for other ranks."""
    for grid in list(_grids):
        grid.close(failed=True)
    if any(thread.is_alive() for thread in _stuck):
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _close_all() -> None:
    """Closes grids before Python exits, so that no thread is inside torch then."""
    for grid in list(_grids):
        grid.watch.close("it ended")
