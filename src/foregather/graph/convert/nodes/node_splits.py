"""node_splits: divides labelled nodes into train, valid and test, by chance or by time.

The division by chance is a pure function of the seed and of the order in which the nodes are given.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.convert.nodes.node_options import SplitRule, check_sides

__all__ = ["divide_by_chance", "divide_by_time", "read_times"]

Int = npt.NDArray[np.int64]
_NAMES = ("train", "valid", "test")


def divide_by_chance(rule: SplitRule, nodes: Int) -> dict[str, Int]:
    """Node ids by split, ascending.

    Args:
        rule: has fractions.
        nodes: the labelled nodes, in the order that counts.

    Raises:
        InputError: a split would be empty.
    """
    sizes = rule.sizes(len(nodes))
    order = np.empty(len(nodes), np.int64)
    _core.shuffled(len(nodes), rule.seed, 0, 0, order)
    ends = np.cumsum(sizes).tolist()
    parts = np.split(order[: ends[-1]], ends[:-1])
    return {name: np.sort(nodes[part]) for name, part in zip(_NAMES, parts, strict=True)}


def divide_by_time(limits: tuple[int, int], nodes: Int, times: Int) -> dict[str, Int]:
    """Node ids by split, ascending; valid starts at the first limit, test at the second.

    Args:
        limits: as `read_times` gives them.
        nodes: the labelled nodes.
        times: of these nodes.

    Raises:
        InputError: a split would be empty.
    """
    part = np.searchsorted(np.array(limits, np.int64), times, side="right")
    sizes = np.bincount(part, minlength=3).tolist()
    check_sides((sizes[0], sizes[1], sizes[2]), len(nodes))
    return {name: np.sort(nodes[part == k]) for k, name in enumerate(_NAMES)}


def read_times(given: tuple[Any, ...], dates: bool) -> tuple[int, int]:
    """The limits of a division by time, in the unit of the table's times.

    Raises:
        InputError: they are no such times, or do not ascend.
    """
    read = []
    for one in given:
        text = str(one).strip()
        value = _core.parse_time(text) if dates else _integer(text)
        if value is None:
            kind = "a date such as 2024-02-29" if dates else "a whole number"
            raise InputError(
                f"--split-time has {text[:40]!r}, expected {kind}, as the times in the node table"
            )
        read.append(value)
    if read[0] >= read[1]:
        raise InputError(
            f"--split-time has {given[0]} before {given[1]}, expected times that ascend: the start "
            "of valid, then that of test"
        )
    return read[0], read[1]


def _integer(text: str) -> int | None:
    try:
        value = int(text)
    except ValueError:
        return None
    return value if -(1 << 63) < value < 1 << 63 else None
