"""negatives: the `Negatives` value: how many negative links a positive one has, and which may be.

It says nothing about a graph; `NegativeSampler` draws from one by it. PyG's `NegativeSampling`, its
dict and its name are taken as they are.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.arrays import to_array

__all__ = ["Mode", "Negatives"]

Mode = Literal["binary", "triplet"]


@dataclass(frozen=True, eq=False, repr=False)
class Negatives:
    """Which links are drawn as negatives of given ones.

    A batch of P positives has Q = ceil(P * amount) negatives. Negative q belongs to the positive at
    place q % P of the batch and is its negative number q // P: all have their first before any has
    a second, and what a fractional amount leaves over goes to the first places. What is drawn is a
    pure function of (seed, epoch, input row of the positive, number): batch size, order, ranks and
    threads cannot change negative j of a row. Only with a fractional amount, whether a row has
    its last one depends on its place in the batch.

    Args:
        mode: "binary" draws both ends; "triplet" keeps the source and draws destinations.
        amount: negatives per positive; whole in triplet mode.
        src_weight: one weight per source node, by which sources are drawn; only in binary mode.
            None: all alike.
        dst_weight: the same for destinations.
        exclude: "positives" draws no destination to which the source is known to be linked, and
            only among the others; None may draw links that exist.

    Raises:
        InputError: an option that is not valid, or weights that are negative, not finite, or all 0.
    """

    mode: Mode = "binary"
    amount: int | float = 1
    src_weight: npt.NDArray[np.float64] | None = None
    dst_weight: npt.NDArray[np.float64] | None = None
    exclude: Literal["positives"] | None = None

    def __post_init__(self) -> None:
        mode = getattr(self.mode, "value", self.mode)  # PyG's is an enumeration
        if mode not in ("binary", "triplet"):
            raise InputError(f"mode is {self.mode!r:.40}, expected 'binary' or 'triplet'")
        if self.exclude not in ("positives", None):
            raise InputError(f"exclude is {self.exclude!r:.40}, expected 'positives' or None")
        if mode == "triplet" and self.src_weight is not None:
            raise InputError(
                "src_weight has no effect in triplet mode, which keeps the sources; leave it out"
            )
        put = object.__setattr__
        put(self, "mode", mode)
        put(self, "amount", _amount(self.amount, mode))
        put(self, "src_weight", _weights(self.src_weight, "src_weight"))
        put(self, "dst_weight", _weights(self.dst_weight, "dst_weight"))

    @staticmethod
    def make(given: Any) -> "Negatives | None":
        """Converts what callers pass: None, this, a mode, a mapping, or PyG's NegativeSampling.

        Raises:
            InputError: it is none of these, or not valid.
        """
        if given is None or isinstance(given, Negatives):
            return given
        if isinstance(given, str):
            return Negatives(given)  # type: ignore[arg-type]
        names = [one.name for one in fields(Negatives)]
        if isinstance(given, Mapping):
            wrong = [name for name in given if name not in names]
            if wrong:
                raise InputError(f"negatives have no {wrong[0]!r:.40}, expected {', '.join(names)}")
            return Negatives(**given)
        if hasattr(given, "mode") and hasattr(given, "amount"):
            return Negatives(
                **{name: getattr(given, name) for name in names if hasattr(given, name)}
            )
        raise InputError(
            f"negatives are {type(given).__name__}, expected 'binary', 'triplet', Negatives, a "
            "mapping of its arguments or PyG's NegativeSampling"
        )

    @property
    def is_binary(self) -> bool:
        """Whether both ends are drawn."""
        return self.mode == "binary"

    def count(self, positives: int) -> int:
        """How many negatives a batch of this many positives has."""
        return math.ceil(positives * self.amount)

    def __repr__(self) -> str:
        texts = [f"mode={self.mode!r}", f"amount={self.amount!r}"]
        for name in ("src_weight", "dst_weight"):
            values = getattr(self, name)
            if values is not None:
                texts.append(f"{name}=<{len(values)} numbers, {_digest(values)}>")
        if self.exclude is not None:
            texts.append(f"exclude={self.exclude!r}")
        return f"Negatives({', '.join(texts)})"

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other) if isinstance(other, Negatives) else NotImplemented

    def __hash__(self) -> int:
        return hash(repr(self))


def _amount(given: Any, mode: Mode) -> int | float:
    number = isinstance(given, (int, float, np.integer, np.floating))
    if not number or isinstance(given, bool) or not (given > 0 and math.isfinite(given)):
        raise InputError(f"amount is {given!r:.40}, expected a number above 0")
    if float(given).is_integer():
        return int(given)
    if mode == "triplet":
        raise InputError(
            f"amount is {given!r}, expected a whole number in triplet mode, where every positive "
            "has as many negatives"
        )
    return float(given)


def _weights(given: Any, name: str) -> npt.NDArray[np.float64] | None:
    if given is None:
        return None
    values = to_array(given, name)
    if values.ndim != 1 or values.dtype.kind == "b":
        raise InputError(
            f"{name} is {values.dtype} of shape {list(values.shape)}, expected one number per node"
        )
    made = np.array(values, np.float64, order="C")
    wrong = np.flatnonzero(~(np.isfinite(made) & (made >= 0)))
    if len(wrong):
        raise InputError(
            f"{name} is {made[wrong[0]]} for node {wrong[0]}, expected finite numbers that are not "
            "negative"
        )
    if not made.any():
        raise InputError(f"{name} is 0 for every node, so no negative can be drawn")
    made.setflags(write=False)
    return made


def _digest(values: npt.NDArray[np.float64]) -> str:
    state = _core.Xxh64()
    state.update(values.view(np.uint8))
    return f"{state.digest():016x}"
