"""stamp: detects that the files of an opened graph changed; cheap enough for every epoch.

Arrays of an opened folder are memory-mapped, so an edit in place changes them under the reader. A
stamp holds size, modification time and inode of each file; contents are not read (`Graph.verify`
does that), so a change that preserves all three is not detected.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from foregather.errors import FormatError
from foregather.graph.graph_value import GraphValue
from foregather.graph.hetero.value import HeteroValue
from foregather.graph.on_disk.meta import read_meta

__all__ = ["Stamp"]


@dataclass(frozen=True, slots=True)
class Stamp:
    """The files of a folder as they were.

    Attributes:
        folder: where they are.
        files: (size, modification time in ns, inode) by name.
    """

    folder: Path
    files: dict[str, tuple[int, int, int]]

    @staticmethod
    def of(graph: GraphValue | HeteroValue) -> "Stamp | None":
        """The stamp of an opened graph; None for a graph in memory.

        Raises:
            FormatError: the folder already holds a different graph.
        """
        if graph.path is None:
            return None
        meta = read_meta(graph.path)
        if meta.text.get("digest") != graph.meta["digest"]:
            raise FormatError(
                f"meta.json of {graph.path.name} has the digest {meta.text.get('digest')}, but the "
                f"graph was opened with {graph.meta['digest']}; open it again"
            )
        names = ["meta.json", *(entry.file for entry in meta.arrays.values())]
        return Stamp(graph.path, {name: _facts(graph.path / name) for name in names})

    def check(self) -> None:
        """Compares the stamp with the current files.

        Raises:
            FormatError: a file changed; the message says which and how.
        """
        for name, before in self.files.items():
            now = _facts(self.folder / name)
            if now != before:
                raise FormatError(
                    f"{name} of {self.folder.name} {_change(before, now)} while a loader had it "
                    "open; open the graph again (and verify it)"
                )


def _facts(path: Path) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (-1, -1, -1)
    return (found.st_size, found.st_mtime_ns, found.st_ino)


def _change(before: tuple[int, int, int], now: tuple[int, int, int]) -> str:
    if now[0] < 0:
        return "was removed"
    if now[2] != before[2]:
        return "was replaced by another file"
    if now[0] != before[0]:
        return f"went from {before[0]} to {now[0]} bytes"
    return "was written to"
