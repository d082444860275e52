"""skip: ends a script that cannot run on this machine, with one sentence; that is no failure."""

import os
import shutil
from pathlib import Path
from typing import NoReturn

from foregather.units import format_bytes

__all__ = ["MARK", "Skipped", "need_disk", "skip"]

MARK = "skipped: "  # by which `run.py` tells a script that did not run from one that did


class Skipped(SystemExit):
    """The end of a script that was not run; a script of several parts may go on."""


def skip(reason: str) -> NoReturn:
    """Ends the process: the script was not run, for this reason."""
    print(f"{MARK}{reason}", flush=True)
    raise Skipped(0)


def need_disk(folder: "str | os.PathLike[str]", size: int) -> None:
    """Skips unless `size` bytes are free where `folder` is."""
    free = shutil.disk_usage(folder).free
    if free < size:
        where = Path(folder).resolve().name
        skip(f"{format_bytes(size)} must be free in {where}, and {format_bytes(free)} are")
