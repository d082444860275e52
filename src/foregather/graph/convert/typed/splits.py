"""splits: divides the labelled nodes of a typed graph into train, valid and test.

As for plain graphs: by chance, from the seed and the order of the rows, or by time. One byte for
each node is in memory.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import BudgetError, InputError
from foregather.graph.convert.nodes.node_options import SplitRule, check_sides
from foregather.graph.convert.nodes.node_splits import read_times
from foregather.graph.convert.typed.building import Building, TypeFacts
from foregather.graph.convert.typed.description.node_spec import NodeSpec
from foregather.graph.convert.typed.description.spec import Spec
from foregather.graph.hetero.on_disk.stored import node_folder
from foregather.graph.mapped import fetch
from foregather.graph.on_disk.npy import map_array
from foregather.units import format_bytes

__all__ = ["labelled_type", "write_splits"]

_NAMES = ("train", "valid", "test")
_NONE = 255
_SECOND = 1_000_000  # microseconds, in which dates of options are read


def labelled_type(spec: Spec, rule: SplitRule) -> NodeSpec:
    """The type whose nodes a rule divides: the only one with labels.

    Raises:
        InputError: there is none or more than one, or the rule needs times that are not there.
    """
    found = [node for node in spec.nodes if node.labels is not None]
    if not found:
        raise InputError("--split and --split-time divide labelled nodes; there are no labels")
    if len(found) > 1:
        names = ", ".join(repr(one.name) for one in found)
        raise InputError(
            f"--split and --split-time divide the nodes of one type, but {names} have labels; "
            "leave out the labels of the others, or name the splits in a column"
        )
    if rule.times is not None and found[0].time is None:
        raise InputError(
            f"--split-time divides by time, but node type {found[0].name!r} has no time; name its "
            "column"
        )
    return found[0]


def write_splits(node: NodeSpec, facts: TypeFacts, rule: SplitRule, building: Building) -> None:
    """Writes the splits of a type whose labels and times are written.

    Raises:
        InputError: a split would be empty, or the times of the rule are none.
        BudgetError: a byte for each node is more than the budget.
    """
    if facts.count > building.memory // 2:
        raise BudgetError(
            f"dividing {facts.count} nodes takes {format_bytes(2 * facts.count)}; raise --memory"
        )
    if rule.times is None:
        part = _by_chance(node, facts, rule, building)
    else:
        part = _by_time(node, facts, rule, building)
    folder = node_folder(building.numbers[node.name])
    step = max(1, building.memory // 64)
    for place, name in enumerate(sorted(_NAMES)):
        out = building.writer.array(f"{folder}/split_{place}", np.int64)
        for start in range(0, facts.count, step):
            mine = part[start : start + step] == _NAMES.index(name)
            out.append(np.flatnonzero(mine) + start)
        building.writer.close(f"{folder}/split_{place}")


def _labelled(
    node: NodeSpec, facts: TypeFacts, building: Building
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Where each piece of the nodes starts, and which nodes of it have a label."""
    labels = map_array(building.path(node.name, "labels"))
    step = max(1, building.memory // 64)
    for start in range(0, facts.count, step):
        values = fetch(labels[start : start + step])
        there = ~np.isnan(values) if values.dtype.kind == "f" else values >= 0
        yield start, np.flatnonzero(there)


def _by_chance(
    node: NodeSpec, facts: TypeFacts, rule: SplitRule, building: Building
) -> npt.NDArray[np.uint8]:
    part = np.full(facts.count, _NONE, np.uint8)
    total = sum(len(there) for _, there in _labelled(node, facts, building))
    ends = np.cumsum(rule.sizes(total))
    chosen = np.full(total, _NONE, np.uint8)  # by the place among the labelled nodes
    step = max(1, building.memory // 64)
    for start in range(0, int(ends[-1]), step):
        order = np.empty(min(step, int(ends[-1]) - start), np.int64)
        _core.shuffled(total, rule.seed, 0, start, order)
        places = np.arange(start, start + len(order))
        chosen[order] = np.searchsorted(ends, places, side="right").astype(np.uint8)
    done = 0
    for start, there in _labelled(node, facts, building):
        part[start + there] = chosen[done : done + len(there)]
        done += len(there)
    return part


def _by_time(
    node: NodeSpec, facts: TypeFacts, rule: SplitRule, building: Building
) -> npt.NDArray[np.uint8]:
    assert rule.times is not None
    limits = np.array(read_times(rule.times, facts.dates), np.int64)
    part = np.full(facts.count, _NONE, np.uint8)
    times = map_array(building.path(node.name, "time"))
    sizes = np.zeros(3, np.int64)
    for start, there in _labelled(node, facts, building):
        values = fetch(times[start : start + (int(there[-1]) + 1 if len(there) else 0)])[there]
        if facts.dates:  # limits may have fractions of a second, times of dates have none
            side = np.searchsorted(-(-limits // _SECOND), values, side="right")
        else:
            side = np.searchsorted(limits, values, side="right")
        part[start + there] = side
        sizes += np.bincount(side, minlength=3)
    check_sides((int(sizes[0]), int(sizes[1]), int(sizes[2])), int(sizes.sum()))
    return part
