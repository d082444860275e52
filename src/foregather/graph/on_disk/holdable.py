"""holdable: which arrays a graph folder can hold.

The writer refuses others before any work is done; the reader reports them as damage.
"""

import re
from typing import Any

import numpy as np

from foregather.errors import InputError

__all__ = ["DTYPES", "NAME", "check_holdable"]

NAME = re.compile(r"[a-z][a-z0-9_]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?")
DTYPES = frozenset(
    ["bool", "float16", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


def check_holdable(name: str, dtype: np.dtype[Any], row_shape: tuple[int, ...]) -> None:
    """Refuses an array that `Graph.open` would not read back.

    Raises:
        InputError: its name, dtype or number of dimensions is not part of the format.
    """
    if NAME.fullmatch(name) is None:
        raise InputError(
            f"array name {name!r} is not lower-case letters, digits and _, starting with a letter; "
            "rename it"
        )
    if dtype.name not in DTYPES:
        raise InputError(
            f"{name} is {dtype}, which a graph folder cannot hold; expected booleans, or integers "
            "or floats of at most 64 bits, for example float32"
        )
    if len(row_shape) > 1:
        shape = ", ".join(["rows", *map(str, row_shape)])
        raise InputError(f"{name} has shape [{shape}], expected one or two dimensions; flatten it")
