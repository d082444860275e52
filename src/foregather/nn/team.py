"""team: lets the core's kernels of models run on the threads of torch's operators.

Those look for more work for some milliseconds after each operator; a kernel between two operators
would share the cores with them. Where torch brings no OpenMP runtime of GNU's, nothing changes.
"""

import ctypes
import os
from pathlib import Path

import torch

from foregather import _core

__all__ = ["join_torch"]


def join_torch() -> bool:
    """Tells the core where torch's runtime is entered; returns whether that was found."""
    entry = 0
    for path in sorted(Path(torch.__file__).parent.glob("lib/libgomp*.so*")):
        try:  # only what torch itself has loaded
            runtime = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
            entry = ctypes.cast(runtime.GOMP_parallel, ctypes.c_void_p).value or 0
        except (OSError, AttributeError):
            continue
    _core.set_team(entry)
    return entry != 0
