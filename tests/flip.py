"""Bits that rot: one flipped bit of an array file, and the time of its last change as before."""

import os
from pathlib import Path

from foregather.graph.on_disk.meta import read_meta
from foregather.graph.on_disk.npy import ALIGN

BLOCK = 4096


def flip(path: Path, position: int, bit: int = 0) -> None:
    """Flips one bit, and leaves the time of the last change as it was."""
    times = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ (1 << bit)]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def places(folder: Path, name: str) -> list[tuple[int, int, str]]:
    """(block, byte of the file, what the error says) in the first, a middle and the last block."""
    entry = read_meta(folder).arrays[name]
    blocks, row = -(-entry.nbytes // BLOCK), entry.nbytes // entry.shape[0]
    found = []
    for block in sorted({0, blocks // 2, blocks - 1}):
        first, end = block * BLOCK, min(entry.nbytes, (block + 1) * BLOCK)
        rows = first // row, (end - 1) // row
        said = f"row {rows[0]}" if rows[0] == rows[1] else f"rows {rows[0]} to {rows[1]}"
        at = ALIGN + first + (end - first) // 2
        found.append(
            (block, at, rf"{entry.file}: block {block} \({said}\) does not match its checksum")
        )
    return found
