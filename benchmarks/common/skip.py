"""skip: ends a script that cannot run on this machine, with one sentence and an exit code."""

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

from foregather.units import format_bytes

__all__ = ["SKIPPED", "need_disk", "skip"]

SKIPPED = 77  # the exit code by which test harnesses tell "not run here" from "failed"


def skip(reason: str) -> NoReturn:
    """Ends the process: the script was not run, for this reason."""
    print(f"skipped: {reason}", flush=True)
    sys.exit(SKIPPED)


def need_disk(folder: "str | os.PathLike[str]", size: int) -> None:
    """Skips unless `size` bytes are free where `folder` is."""
    free = shutil.disk_usage(folder).free
    if free < size:
        where = Path(folder).resolve().name
        skip(f"{format_bytes(size)} must be free in {where}, and {format_bytes(free)} are")
