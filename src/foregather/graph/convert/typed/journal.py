"""journal: which types and relations are finished, so that a killed conversion goes on after them.

`DST.partial/steps.jsonl` has a line for every finished step: what it was made of, its arrays with
their checksums, and what later steps need to know. A line is written when its arrays are on the
disk. Nothing in it is believed: a step counts as done if it would be made of the same files today,
and if every byte of its arrays has its checksum.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foregather.errors import ForegatherError
from foregather.files import is_regular
from foregather.graph.integrity.checks import table_file
from foregather.graph.on_disk.files import storage_error
from foregather.graph.on_disk.folder import array_entry
from foregather.graph.on_disk.npy import map_array
from foregather.graph.on_disk.writer import FolderWriter

__all__ = ["LEFT", "Journal"]

_FILE = "steps.jsonl"
#: What stays in the workspace when a killed process left it there.
LEFT = (_FILE, "graph")


class Journal:
    """The finished steps of a conversion.

    Args:
        writer: the folder being made, entered.

    Attributes:
        reused: how many steps an earlier process had done.
    """

    def __init__(self, writer: FolderWriter) -> None:
        self._writer = writer
        self._path = writer.folder.parent / _FILE
        self.reused = 0
        self._left = self._read()
        if not self._left:
            writer.keep_only(())

    def _read(self) -> dict[str, dict[str, Any]]:
        """The lines of an earlier process, up to the first that is not whole."""
        found: dict[str, dict[str, Any]] = {}
        if not is_regular(self._path):
            return found
        try:
            for line in self._path.read_bytes().splitlines():
                entry = json.loads(line)
                found[entry["step"]] = entry
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            pass
        return found

    def done(self, step: str, made_of: str) -> Mapping[str, Any] | None:
        """What a finished step knows, whose arrays are then part of the folder; else None."""
        entry = self._left.pop(step, None)
        if entry is None or entry.get("made_of") != made_of:
            return None
        arrays, tables = entry.get("arrays"), entry.get("tables")
        if not isinstance(arrays, dict) or not isinstance(tables, dict):
            return None
        if not all(self._whole(name, arrays[name], tables.get(name)) for name in arrays):
            return None
        for name, one in arrays.items():
            self._writer.adopt(name, one, tuple(tables[name]))
        self.reused += 1
        facts = entry.get("facts")
        return facts if isinstance(facts, dict) else {}

    def _whole(self, name: str, entry: Any, table: Any) -> bool:
        """Whether an array and its block checksums are what the journal says, to the bit."""
        folder = self._writer.folder
        files = (folder / f"{name}.npy", folder / table_file(name))
        try:
            if not all(is_regular(file) for file in files):
                return False
            blocks = array_entry(name, map_array(files[1]))["checksums"]
            same = array_entry(name, map_array(files[0])) == entry and blocks == table
            return bool(same)
        except (ForegatherError, OSError, ValueError):
            return False

    def record(self, step: str, made_of: str, before: set[str], facts: Mapping[str, Any]) -> None:
        """Writes down a finished step.

        Args:
            step: its name.
            made_of: a digest of everything it depends on.
            before: the arrays that were there before it.
            facts: what later steps need to know.

        Raises:
            StorageError: the disk refuses.
        """
        arrays = {name: one for name, one in self._writer.arrays.items() if name not in before}
        tables = {name: list(self._writer.tables[name]) for name in arrays}
        line = {"step": step, "made_of": made_of, "arrays": arrays, "tables": tables}
        text = json.dumps(line | {"facts": dict(facts)}) + "\n"
        try:
            _append(self._path, text.encode())
        except OSError as error:
            raise storage_error(error, self._path, "writing") from error


def _append(path: Path, text: bytes) -> None:
    with open(path, "ab") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
