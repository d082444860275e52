"""prune: removes old checkpoints; only those that were read back count, and only those are removed.

A damaged checkpoint, or a file made by others, gives no safety: it never displaces an intact one,
and it is left for the user to inspect. The one just written is always kept.
"""

import os
import re
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from foregather.errors import FormatError, StorageError
from foregather.files import clear_partial
from foregather.train.checkpoints.checkpoint import list_checkpoints

__all__ = ["Pruner"]

Signature = tuple[tuple[str, int, int, int], ...]
_UNFINISHED = re.compile(r"checkpoint-\d{8}-\d{8}(\.damaged|\.safetensors)?\.partial")


class Pruner:
    """Removes checkpoints older than the newest intact ones.

    Args:
        read: reads a checkpoint; raises if it is damaged. A file is read once, and again if its
            size, time or inode changed.
    """

    def __init__(self, read: Callable[[Path], object]) -> None:
        self._read = read
        self._whole: dict[str, Signature] = {}

    def is_whole(self, path: Path) -> bool:
        """Whether the checkpoint can be read back."""
        try:
            found = _signature(path)
            if self._whole.get(path.name) != found:
                self._whole.pop(path.name, None)
                self._read(path)
                self._whole[path.name] = found
        except (FormatError, StorageError, OSError):
            return False
        return True

    def prune(self, written: Path, keep: int) -> None:
        """Removes all but the `keep` newest intact ones, and leftovers of killed processes.

        Files that cannot be removed stay.

        Args:
            written: the one just written and read back; it is one of the `keep`.
            keep: how many to keep.
        """
        with suppress(OSError):
            self._whole[written.name] = _signature(written)
            self._remove_old(written, keep)

    def _remove_old(self, written: Path, keep: int) -> None:
        folder = written.parent
        others = [path for path in list_checkpoints(folder) if path.name != written.name]
        left = keep - 1
        for path in others:
            if not self.is_whole(path):
                continue
            if left > 0:
                left -= 1
            else:
                _remove(path)
                self._whole.pop(path.name, None)
        for name in os.listdir(folder):
            if _UNFINISHED.fullmatch(name):
                _remove(folder / name)
        clear_partial(folder)


def _signature(path: Path) -> Signature:
    """Name, size, modification time and inode of each file; links are not followed."""
    if stat.S_ISDIR(os.lstat(path).st_mode):
        inside = [Path(top, name) for top, _, names in os.walk(path) for name in sorted(names)]
    else:
        inside = [path]
    facts = ((str(one.relative_to(path)), os.lstat(one)) for one in inside)
    return tuple((name, s.st_size, s.st_mtime_ns, s.st_ino) for name, s in facts)


def _remove(path: Path) -> None:
    """Removes a file or a folder of ours; a link is neither."""
    mode = os.lstat(path).st_mode
    if stat.S_ISDIR(mode):
        shutil.rmtree(path, ignore_errors=True)
    elif stat.S_ISREG(mode):
        path.unlink(missing_ok=True)
