"""files: records what `foregather quickstart` made, so that it replaces nothing else.

A mark in the folder lists each file that was made and its digest. A graph or a picture that is not
listed, or was changed since, belongs to the user.
"""

import hashlib
import json
from pathlib import Path

from foregather.errors import ForegatherError, StorageError
from foregather.files import read_regular, write_safely
from foregather.graph.on_disk.meta import read_meta

__all__ = ["MARK", "QuickstartFiles"]

MARK = ".quickstart.json"
_MOST_BYTES = 1 << 16  # of the mark
_MOST_PICTURE = 1 << 26


class QuickstartFiles:
    """The files that quickstart makes in a folder.

    Args:
        folder: where they go.
        names: `graph` and the pictures.

    Raises:
        StorageError: one of them exists and quickstart did not make it.
    """

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.folder = folder
        self._made = self._read()
        for name in names:
            path = folder / name
            if path.exists() or path.is_symlink():
                self._check(path)

    def add(self, name: str) -> None:
        """Records a file that was just made.

        Raises:
            StorageError: the mark cannot be written.
        """
        self._made[name] = _digest(self.folder / name)
        write_safely(self.folder / MARK, json.dumps(self._made, indent=1).encode())

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(read_regular(self.folder / MARK, _MOST_BYTES))
        except (ForegatherError, ValueError, RecursionError):  # none, or none of ours
            return {}
        return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}

    def _check(self, path: Path) -> None:
        try:
            same = self._made.get(path.name) == _digest(path)
        except ForegatherError:
            same = False
        if not same:
            raise StorageError(
                f"{self.folder}/{path.name} exists and was not made by quickstart, so it is kept; "
                "name another folder: foregather quickstart OTHER"
            )


def _digest(path: Path) -> str:
    """Identifies the contents of a graph or a picture."""
    if path.is_dir() and not path.is_symlink():
        return str(read_meta(path, with_tables=False).text["digest"])
    return hashlib.sha256(read_regular(path, _MOST_PICTURE)).hexdigest()
