"""ranks: the state of training over ranks in one folder, complete or absent.

`shared.safetensors` holds the state that is equal on all ranks, written by rank 0 like a checkpoint
of one rank. `ranks/` holds each rank's own state (random numbers, sums of the current epoch) and
its part of sharded weights; `torch.distributed.checkpoint` writes it, also as safetensors. The
folder gets its name when all ranks have read back what they wrote. All calls here are collective.
"""

import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from foregather.errors import FormatError, InputError, StorageError
from foregather.files import (
    check_inside,
    open_regular,
    storage_error,
    sync_folder,
    write_safely,
)
from foregather.train.checkpoints.checkpoint import (
    SHARDED,
    check_written,
    decode,
    digest_of,
    encode,
    is_sharded,
    list_checkpoints,
    read_checkpoint,
)
from foregather.train.rank_agreement import Together

__all__ = ["check_torch", "is_too_old", "latest_together", "read_all", "write_together"]

State = Mapping[str, Any]
Like = Callable[[str], Tensor]
_SHARED, _RANKS = "shared.safetensors", "ranks"
_OLDEST = (2, 9)  # first torch version that can write safetensors from many ranks


def is_too_old(version: str = torch.__version__) -> bool:
    """Whether this torch cannot write the checkpoints of many ranks."""
    return tuple(int(part) for part in version.split(".")[:2]) < _OLDEST


def check_torch(version: str = torch.__version__) -> None:
    """Refuses a torch that is too old before training, not at the first checkpoint.

    Raises:
        InputError: it is.
    """
    if is_too_old(version):
        raise InputError(
            f"training over ranks needs torch {_OLDEST[0]}.{_OLDEST[1]} or newer for its "
            f"checkpoints, and this is torch {version}; install a newer one or train on one rank"
        )


def write_together(path: Path, shared: State, own: State, together: Together, like: Like) -> bool:
    """Writes a checkpoint of all ranks, and reads it back on each.

    Args:
        path: the folder to make; see `checkpoint_name`.
        shared: state that is equal on all ranks, except for the parts of sharded tensors.
        own: state of this rank.
        together: the ranks.
        like: as in `latest_together`.

    Returns:
        False if it already existed, complete.

    Raises:
        StorageError: on all ranks, if one of them cannot write or read back; existing checkpoints
            are kept.
    """
    # here, as below: the import takes half as long as that of torch, and one rank needs none of it
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    unnamed = path.with_name(f"{path.name}.partial")

    def begin() -> bool:
        if os.path.lexists(path):
            if _is_whole(path, together.size, like):  # the same position, so the same state
                return False
            _set_aside(path)
        try:
            _clear(unnamed)
            unnamed.mkdir()
            (unnamed / _RANKS).mkdir()
        except OSError as error:
            raise storage_error(error, unnamed, "making") from error
        data = encode(shared)
        write_safely(unnamed / _SHARED, data)
        check_written(unnamed / _SHARED, data)
        return True

    if not together.first_does(begin, "beginning a checkpoint"):
        return False
    parts = {name: value for name, value in _leaves(shared) if is_sharded(value)}
    parts[_key(together.rank)] = torch.from_numpy(np.frombuffer(encode(own), np.uint8).copy())
    failed = None
    try:
        with together.step("writing a checkpoint"):
            writer = HuggingFaceStorageWriter(str(unnamed / _RANKS), save_distributed=True)
            save(parts, storage_writer=writer, process_group=together.group)
    except (CheckpointException, OSError) as error:
        failed = StorageError(f"{path.name} was not written by all ranks: {_cause(error)}")
    stopped = together.all_or_none(failed, "ending a checkpoint")
    if stopped is None:
        failed = _read_back(unnamed, together.rank, shared, own, like)
        stopped = together.all_or_none(failed, "reading back a checkpoint")

    def end() -> None:
        if stopped is not None:
            _clear(unnamed)
            return
        try:
            sync_folder(unnamed / _RANKS)
            sync_folder(unnamed)
            os.rename(unnamed, path)
            sync_folder(path.parent)
        except OSError as error:
            raise storage_error(error, path, "writing") from error

    together.first_does(end, "naming a checkpoint")
    if stopped is not None:
        raise stopped
    return True


def _read_back(path: Path, rank: int, shared: State, own: State, like: Like) -> StorageError | None:
    """Why this rank cannot read back what it wrote; None if it can."""
    try:
        found, mine = _read(path, rank, like)
    except (FormatError, StorageError) as error:
        return StorageError(f"{path.name} cannot be read back: {error}")
    before = {name: value for name, value in _leaves(shared) if is_sharded(value)}
    after = dict(_leaves(found))
    same = digest_of(mine) == digest_of(own) and all(
        torch.equal(_local(value), _local(after[name])) for name, value in before.items()
    )
    return (
        None if same else StorageError(f"{path.name} reads back differently from what was written")
    )


def _local(value: Any) -> Tensor:
    """This rank's part of a sharded tensor."""
    found: Tensor = value.detach().to_local()
    return found


def _is_whole(path: Path, ranks: int, like: Like) -> bool:
    try:
        read_all(path, ranks, like)
    except (FormatError, StorageError):
        return False
    return True


def read_all(path: Path, ranks: int, like: Like) -> None:
    """Reads a checkpoint as each of the ranks would.

    Raises:
        FormatError, StorageError: one of them could not.
    """
    for rank in range(ranks):
        _read(path, rank, like)


def latest_together(
    folder: Path, together: Together, like: Like
) -> tuple[dict[str, Any], dict[str, Any], Path, list[str]]:
    """Returns the newest checkpoint that all ranks can read: shared state, own state, and its path.

    Args:
        folder: of the checkpoints of one run.
        together: the ranks.
        like: a sharded tensor of the same shape and placement as the one saved under a path.

    Returns:
        Also sentences about damaged ones, which were set aside.

    Raises:
        FormatError: there is none.
    """
    damaged: list[str] = []
    for path in together.first_does(lambda: list_checkpoints(folder), "listing checkpoints"):
        failed, states = None, None
        try:
            states = _read(path, together.rank, like)
        except (FormatError, StorageError) as error:
            failed = error
        found = together.all_or_none(failed, "reading a checkpoint")
        if found is None and states is not None:
            return *states, path, damaged
        damaged.append(f"{path.name} cannot be read ({found}); the previous one is used")
        together.first_does(partial(_set_aside, path), "leaving a checkpoint")
    what = f"; {'; '.join(damaged)}" if damaged else ""
    raise FormatError(
        f"{folder.parent.name} has no checkpoint that can be read{what}; train it again"
    )


def _set_aside(path: Path) -> None:
    """Takes a checkpoint out of the list; the next one that is written removes it."""
    aside = path.with_name(f"{path.name}.damaged.partial")
    try:
        _clear(aside)
        path.rename(aside)
    except OSError as error:
        raise storage_error(error, path, "renaming") from error


def _clear(path: Path) -> None:
    """Removes a folder that was never finished; a link of its name is removed, not followed."""
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def _check_plain(path: Path) -> None:
    """Checks that a checkpoint consists of folders and regular files, before torch opens them.

    Raises:
        FormatError: it is not.
    """
    check_inside(path)
    for top, folders, names in os.walk(path):
        for name in folders:
            check_inside(Path(top, name))
        for name in names:
            open_regular(Path(top, name)).close()


def _read(path: Path, rank: int, like: Like) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reads shared and own state, without other ranks."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    _check_plain(path)
    shared, key = read_checkpoint(path / _SHARED), _key(rank)
    reader = HuggingFaceStorageReader(str(path / _RANKS))
    try:
        size = reader.read_metadata().state_dict_metadata[key].size  # type: ignore[union-attr]
        names = [value[SHARDED] for _, value in _leaves(shared) if _is_name(value)]
        parts = {name: torch.zeros_like(like(name)) for name in names}
        parts[key] = torch.zeros(size, dtype=torch.uint8)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")  # as is meant
            load(parts, storage_reader=reader, no_dist=True)
    except Exception as error:  # damaged files can raise anything
        raise FormatError(f"the state of {key} is damaged: {_cause(error)}") from error
    own = decode(parts.pop(key).numpy().tobytes(), f"the state of {key}")
    filled: dict[str, Any] = _fill(shared, parts)
    return filled, own


def _key(rank: int) -> str:
    return f"rank {rank}"


def _cause(error: BaseException) -> str:
    """Returns the first failure in one line."""
    failures = getattr(error, "failures", None)
    if failures:
        rank, (first, _) = min(failures.items())
        return f"rank {rank}: {first}"
    return " ".join(str(error).split()) or type(error).__name__


def _is_name(value: Any) -> bool:
    return isinstance(value, dict) and SHARDED in value


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a nested state, by the paths that checkpoints use."""
    if isinstance(value, Mapping) and not _is_name(value):
        for key, one in value.items():
            yield from _leaves(one, f"{path}/{key}")
    elif isinstance(value, (list, tuple)):
        for number, one in enumerate(value):
            yield from _leaves(one, f"{path}/{number}")
    else:
        yield path, value


def _fill(value: Any, parts: Mapping[str, Tensor]) -> Any:
    """Returns the state with sharded tensors in place of their names."""
    if _is_name(value):
        return parts[value[SHARDED]]
    if isinstance(value, dict):
        return {key: _fill(one, parts) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_fill(one, parts) for one in value)
    return value
