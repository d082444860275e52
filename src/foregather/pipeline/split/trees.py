"""trees: arguments and results of calls as trees of lists, tuples, dictionaries and slices."""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

__all__ = ["leaves_of", "map_tree", "tensors_of", "zip_trees"]


def map_tree(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same tree with every leaf changed."""
    if isinstance(value, slice):
        return slice(*(map_tree(part, change) for part in (value.start, value.stop, value.step)))
    if isinstance(value, dict):
        return {key: map_tree(part, change) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [map_tree(part, change) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    return change(value)


def zip_trees(values: list[Any], join: Callable[[list[Any]], Any]) -> Any:
    """One tree of several of the same form; leaves are joined.

    Raises:
        ValueError: their forms differ.
    """
    first = values[0]
    kind = _form(first)
    if any(_form(other) != kind for other in values):
        raise ValueError("trees have different forms")
    if isinstance(first, slice):
        parts = [[v.start, v.stop, v.step] for v in values]
        return slice(*(zip_trees(list(part), join) for part in zip(*parts, strict=True)))
    if isinstance(first, dict):
        return {key: zip_trees([v[key] for v in values], join) for key in first}
    if isinstance(first, (list, tuple)):
        made = [zip_trees(list(part), join) for part in zip(*values, strict=True)]
        return made if isinstance(first, list) else tuple(made)
    return join(values)


def _form(value: Any) -> Any:
    if isinstance(value, slice):
        return slice
    if isinstance(value, dict):
        return tuple(value)
    if isinstance(value, (list, tuple)):
        return (isinstance(value, list), len(value))
    return None


def leaves_of(value: Any) -> Iterator[Any]:
    """All leaves in order."""
    if isinstance(value, slice):
        value = (value.start, value.stop, value.step)
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from leaves_of(part)
    else:
        yield value


def tensors_of(value: Any) -> list[Tensor]:
    """All tensors in order."""
    return [leaf for leaf in leaves_of(value) if isinstance(leaf, Tensor)]
