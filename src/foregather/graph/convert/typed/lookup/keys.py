"""keys: columns of ids as the 64-bit keys that indexes sort and search by.

A whole number is its own key. Text has two, the XXH64 of two seeds: it is found by the first and
compared by the second.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.convert.typed.tables import arrow
from foregather.graph.convert.typed.values import is_text, plain
from foregather.graph.hetero.text_ids import TextIds

__all__ = ["Keys", "integer_keys", "integers_of", "packed", "text_keys", "values_of"]

_SIGN = np.uint64(1 << 63)  # flipping it makes signed order equal unsigned order
_CHECK_SEED = 0x5EED


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a column.

    Attributes:
        key: uint64, one for each row.
        check: of text, what tells two texts with the same key apart.
        there: whether the row has an id at all.
    """

    key: npt.NDArray[np.uint64]
    check: npt.NDArray[np.uint64] | None
    there: npt.NDArray[np.bool_]


def integers_of(
    column: Any, where: str, kind: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Whole numbers of a column, and where there are any.

    Args:
        column: of a batch.
        where: the words for it.
        kind: the words for what is expected of it.

    Raises:
        InputError: the column holds something else.
    """
    pa = arrow()
    column = plain(column)
    if pa.types.is_null(column.type):
        column = column.cast(pa.int64())
    if not pa.types.is_integer(column.type):
        raise InputError(
            f"{where} holds {column.type}, but {kind}; make both the same, for example with "
            'ids = "text" for the node type'
        )
    there = column.is_valid().to_numpy(zero_copy_only=False)
    try:
        values: npt.NDArray[np.int64] = (
            column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        )
    except pa.ArrowInvalid as error:
        raise InputError(f"{where} holds an id that int64 does not") from error
    return values, there


def integer_keys(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Whole numbers as keys, which ascend as they do."""
    keys: npt.NDArray[np.uint64] = values.view(np.uint64) ^ _SIGN
    return keys


def values_of(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """The whole numbers that keys were made of."""
    values: npt.NDArray[np.int64] = (keys ^ _SIGN).view(np.int64)
    return values


def text_keys(column: Any, where: str) -> Keys:
    """Both keys of each text; an empty text is no id.

    Raises:
        InputError: the column holds something else.
    """
    pa = arrow()
    if pa.types.is_null(column.type):
        none = np.zeros(len(column), np.uint64)
        return Keys(none, none, np.zeros(len(column), np.bool_))
    if not is_text(column):
        raise InputError(
            f"{where} holds {column.type}, but the ids of its node type are text; make both "
            'the same, for example with ids = "text" for the node type'
        )
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    distinct = column.dictionary.cast(pa.large_binary())
    text = packed(distinct.fill_null(b""))
    key, check = np.empty(len(distinct) + 1, np.uint64), np.empty(len(distinct) + 1, np.uint64)
    _core.hash_strings(text.data, text.offsets, key[:-1])
    _core.hash_strings(text.data, text.offsets, check[:-1], _CHECK_SEED)
    filled = np.append(np.diff(text.offsets) > 0, False)
    key[-1] = check[-1] = 0
    at = column.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
    return Keys(key[at], check[at], filled[at])


def packed(names: Any) -> TextIds:
    """The strings of a large_binary array without missing ones; it shares their memory."""
    _, offset_buffer, data_buffer = names.buffers()
    if len(names) == 0 or offset_buffer is None:
        return TextIds(np.empty(0, np.uint8), np.zeros(1, np.int64))
    offsets = np.frombuffer(offset_buffer, np.int64)[names.offset :][: len(names) + 1]
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return TextIds(data[offsets[0] : offsets[-1]], offsets - offsets[0])
