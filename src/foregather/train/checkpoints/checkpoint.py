"""checkpoint: the state of training in one file, written so that it is complete or absent.

A file is a safetensors file: tensors by path, and everything else as JSON in its metadata, with a
checksum of all of it. It is written under another name, synced and renamed, and the folder is
synced; then it is read back, and only then are older ones removed; see `prune`. Nothing is pickled,
so reading one runs no code. Over ranks it is a folder of such files; see `ranks`.
"""

import json
import os
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from foregather import _core
from foregather.errors import FormatError, NumericError, StorageError
from foregather.files import open_regular, storage_error, write_safely

__all__ = [
    "bad_weight",
    "SHARDED",
    "checkpoint_name",
    "check_written",
    "decode",
    "digest_of",
    "encode",
    "is_sharded",
    "latest_checkpoint",
    "list_checkpoints",
    "random_state",
    "read_checkpoint",
    "read_tensors",
    "seed_everything",
    "set_random_state",
    "write_checkpoint",
]

_NAME = re.compile(r"checkpoint-(\d{8})-(\d{8})(\.safetensors)?")
_PART = 1 << 20  # bytes read back at a time
_MOST_HEADER = 100_000_000  # bytes; the safetensors library refuses more
_TENSOR, _TUPLE, _MAP, SHARDED = "$tensor", "$tuple", "$map", "$sharded"


# ---- state as tensors and JSON ---------------------------------------------------------------


def _split(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """Returns the value as JSON, with tensors moved to `tensors`; shards are only named."""
    if is_sharded(value):
        return {SHARDED: path}
    if isinstance(value, Tensor):
        path = path if path not in tensors else f"{path}#{len(tensors)}"
        tensors[path] = value.detach().cpu().clone().contiguous()
        return {_TENSOR: path}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _split(one, f"{path}/{key}", tensors) for key, one in value.items()}
        return {_MAP: [[key, _split(one, f"{path}/{key}", tensors)] for key, one in value.items()]}
    if isinstance(value, (list, tuple)):
        parts = [_split(one, f"{path}/{k}", tensors) for k, one in enumerate(value)]
        return {_TUPLE: parts} if isinstance(value, tuple) else parts
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{path} is a {type(value).__name__}, which a checkpoint cannot hold")


def is_sharded(value: Any) -> bool:
    """Whether a tensor is sharded over several ranks."""
    return isinstance(value, Tensor) and hasattr(value, "full_tensor")


def _join(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_join(one, tensors) for one in value]
    if not isinstance(value, dict):
        return value
    if _TENSOR in value:
        return tensors[value[_TENSOR]]
    if _TUPLE in value:
        return tuple(_join(one, tensors) for one in value[_TUPLE])
    if _MAP in value:
        return {key: _join(one, tensors) for key, one in value[_MAP]}
    return {key: _join(one, tensors) for key, one in value.items()}


def seed_everything(seed: int) -> None:
    """Seeds the random numbers of torch, NumPy and Python."""
    torch.manual_seed(seed)
    np.random.seed(seed % (1 << 32))  # noqa: NPY002 - the user's model may use the global one
    random.seed(seed)


def random_state() -> dict[str, Any]:
    """Returns the random states of torch, NumPy and Python."""
    kind, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)  # noqa: NPY002
    version, internal, next_gauss = random.getstate()
    found: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": [kind, torch.from_numpy(np.asarray(keys, np.int64)), position, has_gauss, gauss],
        "python": [version, torch.tensor(internal), next_gauss],
    }
    if torch.cuda.is_available():
        found["cuda"] = torch.cuda.get_rng_state_all()
    return found


def set_random_state(state: Mapping[str, Any]) -> None:
    """Restores these random states."""
    torch.set_rng_state(state["torch"])
    kind, keys, position, has_gauss, gauss = state["numpy"]
    np.random.set_state(  # noqa: NPY002 - the user's model may use the global one
        (kind, keys.numpy().astype(np.uint32), position, has_gauss, gauss)
    )
    version, internal, next_gauss = state["python"]
    random.setstate((version, tuple(internal.tolist()), next_gauss))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


# ---- files -------------------------------------------------------------------------------------


def _checksum(text: str, tensors: Mapping[str, Tensor]) -> str:
    total = _core.Xxh64()
    total.update(np.frombuffer(text.encode(), np.uint8))
    for name in sorted(tensors):
        total.update(np.frombuffer(name.encode(), np.uint8))
        flat = tensors[name].reshape(-1)
        if flat.numel():
            total.update(flat.view(torch.uint8).numpy())
    return f"{total.digest():016x}"


def write_checkpoint(folder: Path, epoch: int, batch: int, state: Mapping[str, Any]) -> Path:
    """Writes a checkpoint and reads it back.

    Args:
        folder: of the checkpoints of one run.
        epoch: finished epochs.
        batch: finished batches of the next.
        state: nested mappings and sequences of tensors, numbers and texts.

    Raises:
        StorageError: the disk is full, refuses, or returns other bytes; all earlier checkpoints are
            kept.
    """
    path, data = folder / f"{checkpoint_name(epoch, batch)}.safetensors", encode(state)
    write_safely(path, data)
    check_written(path, data)
    return path


def check_written(path: Path, data: bytes) -> None:
    """Compares a file with the bytes written to it, without a second copy in memory.

    Raises:
        StorageError: it holds other bytes, or cannot be read.
    """
    place, whole = 0, memoryview(data)
    try:
        with open_regular(path) as file:
            while place < len(whole) and (part := file.read(_PART)):
                if part != whole[place : place + len(part)]:
                    break
                place += len(part)
            same = place == len(whole) and not file.read(1)
    except FormatError as error:
        raise StorageError(f"{path.name} was replaced while it was written: {error}") from error
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise storage_error(error, path, "reading back") from error
    if not same:
        raise StorageError(
            f"{path.name} holds other bytes than were written, from byte {place} on; the disk is "
            "not reliable"
        )


def checkpoint_name(epoch: int, batch: int) -> str:
    """The name for a position; names sort by position."""
    return f"checkpoint-{epoch:08d}-{batch:08d}"


def encode(state: Mapping[str, Any]) -> bytes:
    """Encodes a state as a checkpoint; equal states may differ in the order of the header."""
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    text = json.dumps(_split(state, "", tensors))
    return save(tensors, {"state": text, "checksum": _checksum(text, tensors)})


def digest_of(state: Mapping[str, Any]) -> str:
    """The checksum of this state's checkpoint."""
    tensors: dict[str, Tensor] = {}
    text = json.dumps(_split(state, "", tensors))
    return _checksum(text, tensors)


def list_checkpoints(folder: Path) -> list[Path]:
    """Lists the checkpoints, newest position first."""
    try:
        names = [entry.name for entry in folder.iterdir() if _NAME.fullmatch(entry.name)]
    except OSError:
        return []
    return [folder / name for name in sorted(names, reverse=True)]


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Reads the state in a file and verifies its checksum.

    Raises:
        FormatError: the file is truncated, damaged, or not a checkpoint.
        StorageError: it cannot be read.
    """
    return decode(read_tensors(path), path.name)


def read_tensors(path: Path, folder: Path | None = None) -> bytes:
    """Reads a safetensors file, without mapping it, if its header accounts for its size.

    Raises:
        FormatError: it does not, or the file is not a regular file of its folder; see
            `files.open_regular`.
        StorageError: it cannot be read.
    """
    try:
        with open_regular(path, folder) as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(8)
            length = int.from_bytes(start, "little")
            if len(start) < 8 or length > min(_MOST_HEADER, size - 8):
                raise FormatError(f"{path.name} is truncated or damaged (it has no header)")
            header = file.read(length)
            ends = [
                entry["data_offsets"][1]
                for name, entry in json.loads(header).items()
                if name != "__metadata__"
            ]
            if size != 8 + length + max(ends, default=0):
                raise FormatError(
                    f"{path.name} is truncated or damaged (it has {size} bytes, its header says "
                    f"{8 + length + max(ends, default=0)})"
                )
            return start + header + file.read()
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{path.name} is truncated or damaged ({error})") from error
    except MemoryError as error:
        raise FormatError(f"{path.name} is larger than the memory of this machine") from error
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"cannot read {path.name}: {error.strerror or error}") from error


def decode(data: bytes, name: str) -> dict[str, Any]:
    """Decodes the result of `encode`.

    Raises:
        FormatError: the bytes are damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors = load(data)
        end = 8 + int.from_bytes(data[:8], "little")
        text, checksum = _facts(json.loads(data[8:end]).get("__metadata__"))
    except (SafetensorError, ValueError, RuntimeError, MemoryError) as error:
        raise FormatError(f"{name} is truncated or damaged ({error})") from error
    return _whole(text, checksum, tensors, name)


def _facts(kept: Mapping[str, str] | None) -> tuple[str, str]:
    found = kept or {}
    return found.get("state", ""), found.get("checksum", "")


def _whole(text: str, checksum: str, tensors: dict[str, Tensor], name: str) -> dict[str, Any]:
    if _checksum(text, tensors) != checksum:
        raise FormatError(f"{name} does not match the checksum stored in it")
    try:
        state = _join(json.loads(text), tensors)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(f"{name} holds no training state") from error
    if not isinstance(state, dict):
        raise FormatError(f"{name} holds no training state")
    return state


def latest_checkpoint(folder: Path) -> tuple[dict[str, Any], Path, list[str]]:
    """Returns the newest intact checkpoint, and sentences about the damaged ones.

    Raises:
        FormatError: there is none.
    """
    damaged: list[str] = []
    for path in list_checkpoints(folder):
        try:
            return read_checkpoint(path), path, damaged
        except (FormatError, StorageError) as error:
            damaged.append(f"{error}; the previous one is used")
    what = f"; {'; '.join(damaged)}" if damaged else ""
    raise FormatError(f"{folder.parent.name} has no readable checkpoint{what}; train it again")


def bad_weight(model: nn.Module, epochs: int) -> NumericError | None:
    """Describes the first weight that is not finite; None if all are finite."""
    for name, weight in model.named_parameters():
        held = getattr(weight, "to_local", weight.detach)()  # for sharded weights, this rank's part
        if not bool(torch.isfinite(held).all()):
            return NumericError(
                f"the weight {name} holds NaN or infinity after epoch {epochs}; the last good "
                "checkpoint is kept: try a smaller learning rate"
            )
    return None
