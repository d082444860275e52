"""working_folder: where a script keeps its files; what nobody named is removed at the end."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["working_folder"]


@contextmanager
def working_folder(given: Path | None) -> Iterator[Path]:
    """The folder given, made if it is missing and kept with its graphs for the next run.

    Without one, a folder in the current one that is removed: not in the system's folder for
    temporary files, which may lie in memory, and reads from there are no reads from a disk.
    """
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
        return
    with tempfile.TemporaryDirectory(dir=Path(), prefix=".foregather-bench-") as name:
        yield Path(name).resolve()
