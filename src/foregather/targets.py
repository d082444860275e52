"""targets: checks where results may be written: never into a graph or over a part of a run.

A command that writes a file checks its target here before it starts, so that hours are not spent on
a result that cannot be saved. A named file is replaced with `--overwrite`; a part of a graph or a
run never is.
"""

import os
import stat
from pathlib import Path

from foregather.errors import StorageError
from foregather.files import is_regular

__all__ = ["check_file", "check_replaced", "check_target"]

GRAPH_MARK = b'"foregather-graph"'
_MOST_BYTES = 256 << 20  # of a meta.json
_RUN_MARKS = ("config.toml", "environment.json")
#: The files of a run folder; the user may keep other files next to them.
RUN_PARTS = frozenset(
    [
        *_RUN_MARKS,
        *("model.safetensors", "summary.json", "metrics.jsonl", "curve.json", "trace.json"),
        *("profile.json", ".lock", "checkpoints", "plots", "tensorboard"),
    ]
)


def check_target(path: str | os.PathLike[str], part_of_run: bool = False) -> None:
    """Refuses to write a file or folder inside a graph folder, or over a part of a run.

    Links in the path are followed; a link of the target's own name is not, because it would be
    replaced.

    Args:
        path: the file or folder to be made.
        part_of_run: the target may be a part of a run, which the caller is writing.

    Raises:
        StorageError: the target is inside a graph or part of a run.
    """
    target = Path(path)
    parts = [target.name]
    for folder in (found := Path(os.path.realpath(target.parent)), *found.parents):
        if _is_graph(folder):
            raise StorageError(
                f"{target.name} would be inside {folder.name}, which is a graph folder, and "
                "nothing is written into one; choose another target"
            )
        run = all(is_regular(folder / name) for name in _RUN_MARKS)
        if run and parts[-1] in RUN_PARTS and not part_of_run:
            raise StorageError(
                f"{'/'.join(reversed(parts))} is a part of the run {folder.name}, which is not "
                "replaced; name another target"
            )
        parts.append(folder.name)


def check_file(path: str | os.PathLike[str], overwrite: bool) -> None:
    """Checks a file to be written: an existing one is kept unless `overwrite` is given.

    Raises:
        StorageError: as `check_target`; or it exists, or is not a file.
    """
    target = Path(path)
    check_target(target)
    if os.path.lexists(target):
        if not overwrite:
            raise StorageError(
                f"{target.name} exists already; pass --overwrite, or name another file"
            )
        check_replaced(target)


def check_replaced(path: Path) -> None:
    """Refuses to replace anything but a file or a link.

    Raises:
        StorageError: a folder, a pipe or a device has this name.
    """
    kind = os.lstat(path).st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISLNK(kind):
        raise StorageError(f"{path.name} is not a file, so it is not replaced; name another file")


def _is_graph(folder: Path) -> bool:
    """Whether a folder is a graph, whole or damaged: its meta.json names the format."""
    meta = folder / "meta.json"
    if not is_regular(meta):
        return False
    try:
        with open(meta, "rb") as file:
            return GRAPH_MARK in file.read(_MOST_BYTES)
    except OSError:
        return False
