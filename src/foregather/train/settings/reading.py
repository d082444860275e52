"""reading: settings from a config file, checked at once or after flags are applied."""

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from foregather.errors import InputError, StorageError
from foregather.files import read_regular
from foregather.train.settings.settings import Settings
from foregather.train.settings.toml_values import flat, read_values

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["naming_file", "read_settings"]

_MOST_BYTES = 1 << 24  # of a config file


def read_settings(path: Path, inside: bool = False, check: bool = True) -> Settings:
    """Reads a config file.

    Args:
        path: the file.
        inside: it is part of a run folder: a link or a pipe is refused. A file named by the caller
            may be either.
        check: refuse numbers and combinations that no run can have. False: only keys and types are
            checked, for flags may still change the values; settings made from these are checked.

    Raises:
        InputError: it is not TOML, has an unknown key, or a wrong value.
        FormatError: inside a folder, it is not a regular file.
        StorageError: it cannot be read.
    """
    try:
        data = read_regular(path, _MOST_BYTES) if inside else _read(path)
        table = tomllib.loads(data.decode("utf-8-sig"))
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"cannot read {path.name}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path.name} is not TOML: {error}") from error
    made = _unchecked(read_values(Settings, table, path.name, list(flat(Settings()))))
    if check:
        with naming_file(made, path):
            return dataclasses.replace(made)
    return made


@contextmanager
def naming_file(settings: Settings, path: Path) -> Iterator[None]:
    """Names the file in a refusal that its unchecked settings get by themselves too."""
    try:
        yield
    except InputError as error:
        try:
            dataclasses.replace(settings)
        except InputError as alone:
            if str(alone) == str(error):
                raise InputError(f"in {path.name}, {error}") from None
        raise


def _unchecked(values: dict[str, Any]) -> Settings:
    """Settings with these values, of which nothing is checked yet."""
    made = object.__new__(Settings)
    vars(made).update(vars(Settings()) | values)
    return made


def _read(path: Path) -> bytes:
    with open(path, "rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise InputError(f"{path.name} is larger than any config file; name a .toml file")
    return data
