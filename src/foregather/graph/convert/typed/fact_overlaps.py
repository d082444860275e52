"""fact_overlaps: facts that come twice in a held-out list, or in two lists."""

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import combinations

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.hetero.names import EdgeType
from foregather.graph.links.links import Links
from foregather.units import format_number

__all__ = ["shared_facts"]

Int = npt.NDArray[np.int64]
_LEARNED = "train"


def shared_facts(
    found: Mapping[EdgeType, Mapping[str, Links]], edges: Collection[str], strict: bool
) -> list[str]:
    """Says which facts two lists share, and which come again in a held-out one.

    Facts that differ in their time are two.

    Args:
        found: the links of each relation, by name.
        edges: lists whose facts are the edges; that others share facts with them is said of edges.
        strict: refuse facts that two lists share.

    Raises:
        InputError: `strict`, and two lists share a fact.
    """
    again: Counter[str] = Counter()
    both: Counter[tuple[str, str]] = Counter()
    for lists in found.values():
        names = sorted(lists)
        counts = _counts([lists[name] for name in names])
        for place, name in enumerate(names):
            again[name] += int(np.maximum(counts[:, place] - 1, 0).sum())
        for a, b in combinations(range(len(names)), 2):
            both[names[a], names[b]] += int(((counts[:, a] > 0) & (counts[:, b] > 0)).sum())
    notes = [
        f"{_facts(count, 'comes', 'come')} more than once in {name}, and every copy counts there."
        for name, count in sorted(again.items())
        if count and name != _LEARNED
    ]
    for (first, second), count in sorted(both.items()):
        said = f"{_facts(count, 'is', 'are')} in both {first} and {second}"
        if count and strict:
            raise InputError(f"{said}; take them out of one, or convert without --strict")
        if count and first not in edges and second not in edges:
            notes.append(f"{said}, so one gives answers of the other away; take them out of one.")
    return notes


def _facts(count: int, one: str, many: str) -> str:
    return f"{format_number(count, 'fact')} {one if count == 1 else many}"


def _counts(lists: list[Links]) -> Int:
    """How often each list has each distinct fact: a row for each fact."""
    columns = [np.concatenate([one.index[end] for one in lists]) for end in (0, 1)]
    if all(one.time is not None for one in lists):
        columns.append(np.concatenate([np.asarray(one.time) for one in lists]))
    part = np.repeat(np.arange(len(lists)), [one.num_links for one in lists])
    order = np.lexsort(columns)
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for column in columns:
        values = column[order]
        new[1:] |= values[1:] != values[:-1]
    row = np.cumsum(new) - 1
    cells = np.bincount(row * len(lists) + part[order], minlength=int(new.sum()) * len(lists))
    return np.asarray(cells.reshape(-1, len(lists)), np.int64)
