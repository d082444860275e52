"""holdable: which arrays a graph folder can hold.

The writer refuses others before any work is done; the reader reports them as damage.
"""

import re
from typing import Any

import numpy as np

from foregather.errors import InputError

__all__ = ["DTYPES", "NAMES", "MOST_DIMENSIONS", "check_holdable"]

#: What arrays may be called, by the version of the format.
NAMES = {
    1: re.compile(r"[a-z][a-z0-9_]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?"),
    2: re.compile(r"(nodes|edges)/(0|[1-9][0-9]{0,8})/[a-z][a-z0-9_]*"),
    3: re.compile(
        r"links/(0|[1-9][0-9]{0,8})/[a-z][a-z0-9_]*"
        r"|(?!links/)[a-z][a-z0-9_]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?"
    ),
    4: re.compile(r"(nodes|edges|links)/(0|[1-9][0-9]{0,8})/[a-z][a-z0-9_]*"),
}
#: Dimensions that an array may have, by the version of the format.
MOST_DIMENSIONS = {1: 2, 2: 8, 3: 2, 4: 8, 5: 2, 7: 2}
NAMES |= {5: NAMES[1], 7: NAMES[3]}
DTYPES = frozenset(
    ["bool", "float16", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


def check_holdable(
    name: str, dtype: np.dtype[Any], row_shape: tuple[int, ...], version: int = 1
) -> None:
    """Refuses an array that a folder of that version would not give back.

    Raises:
        InputError: its name, dtype or number of dimensions is not part of the format.
    """
    if NAMES[version].fullmatch(name) is None:
        raise InputError(
            f"array name {name!r} is not lower-case letters, digits and _, starting with a letter; "
            "rename it"
        )
    if dtype.name not in DTYPES:
        raise InputError(
            f"{name} is {dtype}, which a graph folder cannot hold; expected booleans, or integers "
            "or floats of at most 64 bits, for example float32"
        )
    most = MOST_DIMENSIONS[version]
    if len(row_shape) >= most:
        shape = ", ".join(["rows", *map(str, row_shape)])
        expected = "one or two dimensions" if most == 2 else f"at most {most} dimensions"
        raise InputError(f"{name} has shape [{shape}], expected {expected}; flatten it")
