"""owned: which folders `--overwrite` may replace: a graph of ours, with nothing else in it.

Replacing a graph removes the old folder with everything in it. So each entry must be one that the
folder's own meta.json accounts for; anything else is refused by name.
"""

import json
import os
import stat
from pathlib import Path
from typing import Any

from foregather.errors import StorageError
from foregather.graph.integrity.checks import FILE as CHECKS
from foregather.graph.integrity.checks import table_file

__all__ = ["FORMAT", "check_replaceable"]

FORMAT = "foregather-graph"
_MOST_BYTES = 256 << 20  # of a meta.json


def check_replaceable(folder: Path, name: str) -> None:
    """Refuses to replace anything but a graph folder without other files.

    Args:
        folder: what would be removed.
        name: its name in errors.

    Raises:
        StorageError: it is a link, not one of our graphs, or holds something else.
    """
    if folder.is_symlink():
        raise StorageError(
            f"{name} is a symbolic link, which is not replaced; name the folder it points to, or "
            "remove the link"
        )
    try:
        arrays = _read_arrays(folder / "meta.json")
    except (OSError, ValueError, RecursionError):
        arrays = None
    if arrays is None:
        raise StorageError(
            f"{name} exists and is not a graph folder, so it is not replaced; choose another target"
        )
    expected = {"meta.json", CHECKS}
    expected.update(file for array in arrays for file in (f"{array}.npy", table_file(array)))
    inner = {"splits"} | {"/".join(file.split("/")[:n]) for file in expected for n in (1, 2)}
    for entry in _entries(folder, name, inner - expected):
        if entry not in expected:
            raise StorageError(
                f"{name} holds {entry}, which is not part of the graph, so it is not replaced; "
                f"move {entry} away or choose another target"
            )


def _read_arrays(path: Path) -> dict[str, Any] | None:
    """Returns the table of arrays if this is the meta.json of a graph, even a damaged one."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
            return None
        meta = json.loads(file.read())
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        return None
    arrays = meta.get("arrays")
    return arrays if isinstance(arrays, dict) else None


def _entries(folder: Path, name: str, inner: set[str]) -> list[str]:
    """Lists the files in the folder and in the `inner` ones; other entries are described."""
    found: list[str] = []
    waiting = [""]
    try:
        while waiting:
            above = waiting.pop()
            for entry in sorted(os.listdir(folder / above)):
                file = f"{above}{entry}"
                mode = os.lstat(folder / file).st_mode
                if file in inner and stat.S_ISDIR(mode):
                    waiting.append(f"{file}/")
                else:
                    plain = stat.S_ISREG(mode)
                    found.append(file if plain else f"{file} (a link, folder or device)")
    except OSError as error:
        raise StorageError(f"cannot look into {name}: {error.strerror}") from error
    return found
