"""Buffer: page-aligned memory for direct reads.

The memory is an anonymous private mapping: it starts at a multiple of 4096 bytes, is zero, takes
no RAM until it is touched, and lives as long as the array or any view of it.
"""

import contextlib
import mmap

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError

__all__ = ["PAGE", "aligned_buffer"]

PAGE = 4096
_HUGE_PAGE = 2 << 20


def aligned_buffer(nbytes: int) -> npt.NDArray[np.uint8]:
    """A zeroed uint8 array of `nbytes` that starts at a multiple of 4096.

    Raises:
        InputError: `nbytes` is not positive.
        MemoryError: the address space is exhausted.
    """
    if nbytes <= 0:
        raise InputError(f"a buffer of {nbytes} bytes was requested; request at least 1")
    try:
        memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"cannot reserve a buffer of {nbytes} bytes: {error}") from error
    if nbytes >= _HUGE_PAGE:
        # Fewer, larger pages are cheaper to pin; kernels without them return EINVAL.
        with contextlib.suppress(OSError, AttributeError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)
