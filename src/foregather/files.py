"""files: small files written completely or not at all, and readers that open only regular files.

A folder may come from a stranger. Only regular files inside it are read: no link below the folder
is followed, and a pipe or a device is refused before it can block. A written file gets its name at
the end, so a link of that name is replaced, never followed.
"""

import errno
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from foregather.errors import FormatError, StorageError

__all__ = [
    "absolute",
    "check_inside",
    "check_writable",
    "clear_partial",
    "is_regular",
    "is_there",
    "make_inside",
    "open_regular",
    "read_regular",
    "storage_error",
    "sync_folder",
    "write_safely",
]

_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SHOWN = (
    50  # characters of a name kept in the name of its partial file: names have at most 255 bytes
)
_PARTIAL = re.compile(r"\..+\.[0-9a-f]{16}\.partial", re.DOTALL)


def storage_error(error: OSError, path: Path | str, doing: str) -> StorageError:
    """Turns an OSError into a one-sentence error about our file."""
    name = Path(path).name
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StorageError(
            f"no space left on the disk while {doing} {name}; free some space and run again"
        )
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return StorageError(
            f"cannot write {name}: {error.strerror}; choose a target you may write to"
        )
    return StorageError(f"{doing} {name} failed: {error.strerror}")


def absolute(path: str | os.PathLike[str]) -> Path:
    """Returns an absolute path, valid after `os.chdir`; links and `..` in it are kept.

    Raises:
        StorageError: the path is relative, and the working folder is gone.
    """
    try:
        return Path(path).absolute()
    except OSError as error:
        raise StorageError(
            f"{os.fspath(path)!r} is relative to the working folder, which was removed; change to "
            "another folder, or pass an absolute path"
        ) from error


# ---- reading -----------------------------------------------------------------------------------


def open_regular(path: Path, folder: Path | None = None) -> BinaryIO:
    """Opens a regular file for reading.

    Args:
        path: the file.
        folder: a folder above the file; nothing below it may be a link. None: the file's own
            folder.

    Raises:
        FormatError: the file, or a folder on the way to it, is a link; or it is not a regular file.
        StorageError: it is missing or cannot be opened.
    """
    base = path.parent if folder is None else folder
    *steps, name = path.relative_to(base).parts
    shown = "/".join((*steps, name))
    at = -1
    try:
        at = os.open(base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for step in steps:
            following = os.open(step, _STEP, dir_fd=at)
            os.close(at)
            at = following
        descriptor = os.open(name, _OPEN, dir_fd=at)
    except OSError as error:
        if error.errno == errno.ELOOP or _has_link(base, (*steps, name)):
            raise FormatError(
                f"{shown} is a link, or lies behind one, and could expose any file of this "
                "machine; put the file itself there"
            ) from error
        if error.errno in (errno.ENXIO, errno.ENODEV):  # a socket, a device without a driver
            raise _not_regular(shown) from error
        raise StorageError(f"cannot open {shown}: {error.strerror}") from error
    finally:
        if at >= 0:
            os.close(at)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _not_regular(shown)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _not_regular(name: str) -> FormatError:
    return FormatError(f"{name} is not a regular file; put the file itself there")


def _has_link(base: Path, parts: tuple[str, ...]) -> bool:
    """Whether a part of the path is a link; used for messages only."""
    ways = (base.joinpath(*parts[:count]) for count in range(1, len(parts) + 1))
    return any(os.path.islink(way) for way in ways)


def read_regular(path: Path, most: int, folder: Path | None = None) -> bytes:
    """Reads a whole regular file, refusing one larger than `most`.

    Args:
        path: the file.
        most: the largest size in bytes that such a file can have.
        folder: as in `open_regular`.

    Raises:
        FormatError: as `open_regular`, or it is larger.
        StorageError: it is missing or cannot be read.
    """
    with open_regular(path, folder) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            data = b"" if size > most else file.read(size + 1)
        except OSError as error:
            raise StorageError(f"cannot read {path.name}: {error.strerror}") from error
    if size > most or len(data) > most:
        raise FormatError(
            f"{path.name} has {max(size, len(data))} bytes, more than the {most} that any such "
            "file has; it is damaged, or not what its name says"
        )
    return data


def is_there(path: Path) -> bool:
    """Whether anything has this name: a file, a folder or a link, even a dangling one.

    Raises:
        StorageError: this cannot be determined, for example in a folder without read permission.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StorageError(
            f"cannot look for {path.name} in {path.parent.name or path.parent}: {error.strerror}; "
            "get permission to read that folder"
        ) from error
    return True


def is_regular(path: Path) -> bool:
    """Whether a regular file has this name; a link to one does not count."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


# ---- writing -----------------------------------------------------------------------------------


def check_writable(path: Path) -> None:
    """Raises what `write_safely` would raise now; creates the folder and leaves nothing else.

    Raises:
        StorageError: the file could not be written.
    """
    probe = path.with_name(f".{path.name[:_SHOWN]}.{secrets.token_hex(8)}.partial")
    if _is_special(path):
        raise StorageError(f"{path.name} is not a regular file; name another target")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            os.lstat(path)  # a name that is too long
        os.close(os.open(probe, _MAKE, 0o666))
        os.unlink(probe)
    except OSError as error:
        raise storage_error(error, path, "writing") from error


def write_safely(path: Path, data: bytes) -> None:
    """Writes a file so that after a crash it is either the old or the new one, complete.

    The bytes go to a new file next to it, which is then renamed: a link of that name is replaced,
    and no existing file is written to.

    Raises:
        StorageError: the disk is full or refuses, and nothing was changed; or the name is that of
            a folder, a pipe or a device.
    """
    partial = path.with_name(f".{path.name[:_SHOWN]}.{secrets.token_hex(8)}.partial")
    made = False
    if _is_special(path):
        raise StorageError(f"{path.name} is not a regular file; name another target")
    try:
        descriptor = os.open(partial, _MAKE, 0o666)
        made = True
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        made = False
        sync_folder(path.parent)
    except OSError as error:
        raise storage_error(error, path, "writing") from error
    finally:
        if made:
            partial.unlink(missing_ok=True)


def _is_special(path: Path) -> bool:
    """Whether a folder, a pipe or a device has this name, or is behind a link of this name."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:  # nothing, or a dangling link
        return False


def make_inside(path: Path) -> None:
    """Makes a folder inside one of ours if it does not exist; never behind a link.

    Raises:
        FormatError: a link or something else has this name.
        StorageError: it cannot be made.
    """
    try:
        os.mkdir(path)
    except FileExistsError:
        check_inside(path)
    except OSError as error:
        raise storage_error(error, path, "making") from error


def check_inside(path: Path) -> None:
    """Checks that this is a folder and not a link to one.

    Raises:
        FormatError: it is something else, or missing.
    """
    try:
        found = stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        found = False
    if not found:
        raise FormatError(
            f"{path.parent.name}/{path.name} is not a folder (a link to one is not followed); put "
            "the folder itself there"
        )


def sync_folder(path: Path) -> None:
    """Makes the names in a folder durable."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def clear_partial(folder: Path) -> None:
    """Removes what a killed `write_safely` left in a folder of ours; nothing else has such names.

    Leftovers that cannot be removed are harmless and stay.
    """
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if _PARTIAL.fullmatch(name) and is_regular(folder / name):
            try:
                os.unlink(folder / name)
            except OSError:
                return
