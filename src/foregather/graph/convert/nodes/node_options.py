"""node_options: what the user says about a table of nodes and about splits."""

import math
import os
from dataclasses import dataclass

from foregather.errors import InputError
from foregather.graph.convert.reading.columns import Column

__all__ = ["NodeFile", "SplitRule", "check_sides"]

_KINDS = ("auto", "number", "text")
_SLACK = 1e-9  # 0.6 + 0.3 + 0.1 is a little over 1


@dataclass(frozen=True, slots=True)
class NodeFile:
    """A table with one row per node: csv, tsv or txt (gzipped or not), or Parquet.

    Columns are named by the header or by position from 1.

    Attributes:
        path: the file.
        id: the column of ids, in the same form as in the edges; None takes one with a usual name
            (id, node, node_id, name), else the first.
        features: the columns of features, in that order; None takes every column of numbers that
            is nothing else; () takes none.
        label: the column of labels; None takes one called label, class or y, if there is one.
        split: the column that names each node's split, such as train, valid or test, empty for
            none; None takes one called split.
        time: the column of times, whole numbers or ISO 8601 dates; None takes one called time,
            timestamp or date. It makes splits and is not stored.
        header: whether the first line of text holds names; None looks.
        label_kind: "number" reads labels as numbers, "text" as names of classes, "auto" looks.
        fill: the value of features that are not there: of nodes without a row, and of empty
            fields. None refuses both.
    """

    path: str | os.PathLike[str]
    id: Column | None = None
    features: tuple[Column, ...] | None = None
    label: Column | None = None
    split: Column | None = None
    time: Column | None = None
    header: bool | None = None
    label_kind: str = "auto"
    fill: float | None = None

    def __post_init__(self) -> None:
        if self.label_kind not in _KINDS:
            raise InputError(
                f"label_kind is {self.label_kind!r}, expected one of {', '.join(_KINDS)}"
            )
        if self.fill is not None and not math.isfinite(self.fill):
            raise InputError(f"--fill is {self.fill}, expected a finite number such as 0")


@dataclass(frozen=True, slots=True)
class SplitRule:
    """How labelled nodes are divided into train, valid and test: by chance or by time.

    Attributes:
        fractions: shares of the labelled nodes, such as (0.6, 0.2, 0.2); what they leave is in no
            split. Which node is where depends on the seed and on the order of the labelled nodes:
            that of the rows in a table of nodes, otherwise that of the ids.
        seed: of the division by `fractions`.
        times: valid starts at the first, test at the second; whole numbers or dates, as the times
            in the table of nodes.
    """

    fractions: tuple[float, ...] | None = None
    seed: int = 0
    times: tuple[str | int, ...] | None = None

    def __post_init__(self) -> None:
        if (self.fractions is None) == (self.times is None):
            raise InputError(
                "splits are made by fractions or by times; pass --split or --split-time, not both"
            )
        if self.times is not None and len(self.times) != 2:
            raise InputError(
                f"--split-time has {len(self.times)} times, expected two: the start of valid and "
                "the start of test"
            )
        if self.fractions is None:
            return
        if len(self.fractions) != 3:
            raise InputError(
                f"--split has {len(self.fractions)} fractions, expected three: train, valid, test"
            )
        for share in self.fractions:
            if not (isinstance(share, (int, float)) and 0 < share <= 1):  # refuses NaN as well
                raise InputError(
                    f"--split has the fraction {share}, expected numbers above 0 and up to 1"
                )
        if math.fsum(self.fractions) > 1 + _SLACK:
            raise InputError(
                f"the fractions of --split add up to {math.fsum(self.fractions):g}, expected at "
                "most 1"
            )
        if not 0 <= self.seed < 1 << 64:
            raise InputError(f"the seed is {self.seed}, expected 0 to 2^64 - 1")

    def sizes(self, count: int) -> tuple[int, int, int]:
        """How many of `count` nodes are in train, valid and test.

        Raises:
            InputError: one of them would be empty.
        """
        assert self.fractions is not None
        ends, total = [0], 0.0
        for share in self.fractions:
            total += share
            ends.append(min(count, math.floor(count * total + 1e-6)))
        sizes = (ends[1], ends[2] - ends[1], ends[3] - ends[2])
        check_sides(sizes, count)
        return sizes


def check_sides(sizes: tuple[int, int, int], count: int) -> None:
    """Refuses a division that leaves one side empty."""
    for name, size in zip(("train", "valid", "test"), sizes, strict=True):
        if size == 0:
            raise InputError(
                f"the split of {count} labelled nodes leaves {name} empty; choose other fractions "
                "or times"
            )
