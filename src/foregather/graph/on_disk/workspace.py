"""workspace: a folder under construction, next to its target.

`X.partial` belongs to one process at a time: the one that holds the lock on its mark, the file
`.foregather` in it. The result is built next to the mark and renamed out of the folder, so neither
the mark nor the lock is ever part of the result, and the lock is held until after the rename.

Only a folder with our mark is cleared, entry by entry from open descriptors and never through a
link; any other folder is refused.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType

from foregather.errors import StorageError
from foregather.files import absolute
from foregather.graph.on_disk.files import exchange, move_new, storage_error, sync_folder

__all__ = ["MARK", "Workspace"]

MARK = ".foregather"
_ASIDE = "replaced"  # where the old target waits if two folders cannot be swapped atomically
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# A link, a file, a folder or a pipe in place of our folder or our mark.
_NOT_OURS = (errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ESPIPE)
_TRIES = 1000  # each one that fails means that another process finished in between


class Workspace:
    """Makes, holds and clears the folder that something is built in.

    Use as a context manager; leaving it removes the folder with everything that was not committed.

    Args:
        target: the name that the result will have.
        suffix: makes the folder's name from the target's.
        left: names in the folder that stay when it is taken over from a killed process, which may
            have made something of use.

    Attributes:
        path: the folder; names in it are free except `.foregather` and `replaced`.

    Raises:
        StorageError: the folder belongs to another process, was not made by us, or cannot be made.
    """

    def __init__(
        self,
        target: str | os.PathLike[str],
        suffix: str = ".partial",
        left: Collection[str] = (),
    ) -> None:
        self._left = frozenset(left)
        if Path(target).name in ("", ".."):
            raise StorageError(f"{str(target)!r} has no file name; name the target itself")
        self.target = absolute(target)
        self.path = self.target.with_name(self.target.name + suffix)
        # It contains the name, so that a marked folder that was moved is not mistaken for another.
        self._text = b"foregather builds in " + os.fsencode(self.path.name) + b"\n"
        self._folder: int | None = None
        self._mark: int | None = None

    def __enter__(self) -> "Workspace":
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- acquiring ---------------------------------------------------------------------------

    def acquire(self) -> None:
        """Makes the folder, or takes over and clears one that was left by a killed process."""
        try:
            self._make_parent()
            if not any(self._take() for _ in range(_TRIES)):
                raise self._busy()
            assert self._folder is not None
            self._restore()
            _empty(self._folder, keep={MARK, *self._left})
        except StorageError:
            self._release()
            raise
        except OSError as error:
            self._release()
            raise storage_error(error, self.target, "making") from error
        except BaseException:
            self._release()
            raise

    def _make_parent(self) -> None:
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            way = next((p for p in self.target.parents if os.path.lexists(p)), self.target.parent)
            raise StorageError(
                f"{way.name} is not a folder, so {self.target.name} cannot be made in it; choose "
                "another target"
            ) from error

    def _take(self) -> bool:
        """Whether we now own the folder; False if another process took it meanwhile."""
        with suppress(FileExistsError):
            os.mkdir(self.path)
        try:
            self._folder = os.open(self.path, _FOLDER)
            if self._open_mark():
                return True
        except FileNotFoundError:  # its holder has just finished
            pass
        except OSError as error:
            if error.errno in _NOT_OURS:
                raise self._foreign() from error
            raise
        self._release()
        return False

    def _open_mark(self) -> bool:
        folder = self._folder
        assert folder is not None
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
        names = os.listdir(folder)
        if MARK not in names and names:
            raise self._foreign()
        if not names:
            flags |= os.O_CREAT
        self._mark = os.open(MARK, flags, 0o666, dir_fd=folder)
        try:
            fcntl.flock(self._mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise self._busy() from error
        # The lock is valid only if the folder and the mark still have their names.
        if not self._has_name() or not _same(
            os.fstat(self._mark), os.stat(MARK, dir_fd=folder, follow_symlinks=False)
        ):
            return False
        found = os.pread(self._mark, len(self._text) + 1, 0)
        if found != self._text:
            # The mark is incomplete if a process was killed at the start, before it made anything
            # else.
            if not self._text.startswith(found) or os.listdir(folder) != [MARK]:
                raise self._foreign()
            _write(self._mark, self._text)
            os.fsync(folder)
        return True

    def _has_name(self) -> bool:
        assert self._folder is not None
        return _same(os.fstat(self._folder), os.lstat(self.path))

    def _restore(self) -> None:
        """Undoes a swap by several renames that was interrupted while the target had no name."""
        aside = self.path / _ASIDE
        if os.path.lexists(aside) and not os.path.lexists(self.target):
            move_new(aside, self.target)

    def _foreign(self) -> StorageError:
        return StorageError(
            f"{self.path.name} exists and was not made by this version of foregather; move it "
            "away or choose another target"
        )

    def _busy(self) -> StorageError:
        return StorageError(
            f"{self.target.name} is being made by another process; wait for it or choose "
            "another target"
        )

    # ---- finishing ---------------------------------------------------------------------------

    def commit(self, name: str, check: Callable[[Path], None] | None = None) -> None:
        """Durably renames the result to the target; after an error the target is unchanged.

        Args:
            name: the result's name inside the folder; its content is already synced.
            check: raises if a path may not be replaced; None replaces nothing. It is called before
                the swap and again after it, when nobody can reach the old target by its name.

        Raises:
            StorageError: the target exists and must not be replaced.
            OSError: the disk refuses.
        """
        made = self.path / name
        if check is not None and os.path.lexists(self.target):
            check(self.target)
            undo = partial(exchange, made, self.target, self.path / _ASIDE)
            undo()  # a second swap undoes the first
        else:
            try:
                move_new(made, self.target)
            except FileExistsError as error:
                raise StorageError(
                    f"{self.target.name} appeared while it was being made, and is kept; choose "
                    "another target"
                ) from error
            undo = partial(move_new, self.target, made)
            check = None
        try:
            if check is not None:
                check(made)
            sync_folder(self.target.parent)
            sync_folder(self.path)
        except BaseException:
            with suppress(OSError):
                undo()
            raise

    def prune(self, name: str, files: Collection[str]) -> None:
        """Removes what a folder in this one holds, but not these files, named relative to it.

        Raises:
            OSError: the disk refuses, or the folder is none.
        """
        assert self._folder is not None
        inner = os.open(name, _FOLDER, dir_fd=self._folder)
        try:
            _empty(inner, frozenset(files))
        finally:
            os.close(inner)

    def close(self) -> None:
        """Removes the folder and releases the lock; leftovers stay marked."""
        if self._folder is None:
            return
        with suppress(OSError):
            if self._mark is not None:
                _empty(self._folder, keep={MARK})
                os.unlink(MARK, dir_fd=self._folder)  # last: without it nobody may clear the rest
                if self._has_name():
                    os.rmdir(self.path)
        self._release()

    def clear_left(self) -> None:
        """Removes what a process killed after its commit left behind; anything else stays."""
        if os.path.lexists(self.path):
            with suppress(StorageError):  # not ours, or in use
                self.acquire()
                self.close()

    def _release(self) -> None:
        if self._mark is not None:
            with suppress(
                OSError
            ):  # explicitly, because a forked process may hold the descriptor too
                fcntl.flock(self._mark, fcntl.LOCK_UN)
        for descriptor in (self._mark, self._folder):
            if descriptor is not None:
                with suppress(OSError):
                    os.close(descriptor)
        self._mark = self._folder = None


def _same(first: os.stat_result, second: os.stat_result) -> bool:
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def _write(descriptor: int, text: bytes) -> None:
    done = 0
    while done < len(text):
        done += os.pwrite(descriptor, text[done:], done)
    os.fsync(descriptor)


def _empty(folder: int, keep: Collection[str] = (), inside: str = "") -> None:
    """Removes the contents of an open folder: links themselves, never their targets.

    Args:
        folder: its descriptor.
        keep: paths that stay, relative to the folder of the first call.
        inside: the path of this folder, relative to that one.
    """
    device = os.fstat(folder).st_dev
    for name in os.listdir(folder):
        path = inside + name
        if path in keep:
            continue
        try:
            os.unlink(name, dir_fd=folder)
            continue
        except IsADirectoryError:
            pass
        inner = os.open(name, _FOLDER, dir_fd=folder)
        try:
            if os.fstat(inner).st_dev != device:
                raise OSError(errno.EXDEV, f"another disk is mounted at {name} in it")
            _empty(inner, keep, path + "/")
        finally:
            os.close(inner)
        if not any(one.startswith(path + "/") for one in keep):
            os.rmdir(name, dir_fd=folder)
