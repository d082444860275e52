"""Damage for the fuzzer: changes of good bytes, and files whose checksums were mended after it.

A checksum that is wrong ends most readers early. So formats with one are damaged in two ways: the
file as it lies, and what is under the checksum, with the right checksum around it again.
"""

import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from foregather.graph.on_disk.writer import meta_digest

Mend = Callable[[bytes], bytes]

WORDS = (
    b"-1", b"0", b"1e308", b"NaN", b"null", b"{}", b"[]", b"../", b"\x00", b"\xff" * 8, b'"',
    b"18446744073709551616", b"9223372036854775807", b"True", b"(", b"|O", b"<f4", b"/etc/passwd",
)  # fmt: skip


def damage(good: bytes, rng: random.Random) -> bytes:
    """Bytes that are one to four changes away from good ones."""
    data = bytearray(good)
    for _ in range(rng.randint(1, 4)):
        at, kind = rng.randrange(len(data) + 1), rng.randrange(6)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at:at] = rng.choice(WORDS)
        elif kind == 3:
            del data[at : at + rng.randint(1, 16)]
        elif kind == 4:
            word = rng.choice(WORDS)
            data[at : at + len(word)] = word
        else:
            data[at:at] = data[at : at + rng.randint(1, 64)]
    return bytes(data)


def payload_damage(good: bytes, rng: random.Random) -> bytes:
    """The same size and header, other numbers: what only the contents of an array file tell."""
    data, end = bytearray(good), max(4097, len(good.rstrip(b"\0")))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(4096, end)
        word = rng.choice((b"\xff" * 8, b"\x00" * 8, rng.randbytes(rng.randint(1, 8))))
        word = word[: len(data) - at]
        data[at : at + len(word)] = word
    return bytes(data)


def in_gzip(damaged: bytes) -> bytes:
    """The text of a gzip file with the right checksum around it."""
    return gzip.compress(damaged, 1, mtime=0)


def in_archive(path: Path, member: str) -> tuple[bytes, Mend]:
    """One array of a .npz, and how to put it back with the right checksum."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}

    def mend(damaged: bytes) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for name, data in (members | {member: damaged}).items():
                archive.writestr(zipfile.ZipInfo(name), data)
        return out.getvalue()

    return members[member], mend


def with_digest(damaged: bytes) -> bytes:
    """A meta.json whose digest fits what it says, where it is JSON at all."""
    try:
        text = json.loads(damaged)
        if not isinstance(text, dict):
            return damaged
        text["digest"] = meta_digest(text)
        return json.dumps(text).encode()
    except (ValueError, TypeError, RecursionError):
        return damaged


def with_checksum(tensors: dict[str, Any], checksum: Callable[[str, dict[str, Any]], str]) -> Mend:
    """A checkpoint around a damaged description of its state."""
    from safetensors.torch import save

    def mend(damaged: bytes) -> bytes:
        text = damaged.decode(errors="replace")
        return save(tensors, {"state": text, "checksum": checksum(text, tensors)})

    return mend


def array_bytes(values: np.ndarray) -> bytes:
    """An array as a .npy file."""
    out = io.BytesIO()
    np.save(out, values)
    return out.getvalue()
