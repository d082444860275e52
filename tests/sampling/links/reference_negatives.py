"""Reference: negatives as they are defined: list all that may be drawn, draw one unit, count."""

from collections.abc import Sequence
from typing import Any

from foregather.sampling.links.negatives import Negatives
from tests.sampling.reference import GOLDEN, MASK, derive, draw, epoch_key, mix64

NEGATIVES = 5  # Purpose


def bounded_wide(bits: int, limit: int) -> int:
    """Uniform in [0, limit), by multiplication and rejection."""
    while (bits * limit & MASK) < 2**64 % limit:
        bits = mix64((bits + GOLDEN) & MASK)
    return bits * limit >> 64


def whole_units(weights: Any, count: int) -> list[int]:
    """Weights in fixed point: the largest has 61 bits less those of the number of nodes."""
    if weights is None:
        return [1] * count
    above = 0
    while 2.0**above <= max(weights):
        above += 1
    while 2.0 ** (above - 1) > max(weights):
        above -= 1
    scale = 2.0 ** (61 - count.bit_length() - above)
    return [max(1, int(w * scale + 0.5)) if w > 0 else 0 for w in weights]


def choose(
    units: Sequence[int],
    times: Sequence[int] | None,
    limit: int | None,
    without: set[int],
    bits: int,
) -> int | None:
    """One node by its units, in the order of time; None where none may be."""
    order = list(range(len(units)))
    if times is not None:
        order.sort(key=lambda v: (times[v], v))
        order = [v for v in order if limit is not None and times[v] <= limit]
    order = [v for v in order if v not in without]
    total = sum(units[v] for v in order)
    if total == 0:
        return None
    left = bounded_wide(bits, total)
    for v in order:
        left -= units[v]
        if left < 0:
            return v
    raise AssertionError("a unit beyond the last")


class ReferenceNegatives:
    """What `NegativeSampler` promises."""

    def __init__(
        self,
        negatives: Negatives,
        num_src: int,
        num_dst: int,
        links: set[tuple[int, int]],
        src_time: Sequence[int] | None,
        dst_time: Sequence[int] | None,
    ) -> None:
        self.negatives, self.src_time, self.dst_time = negatives, src_time, dst_time
        self.src_units = whole_units(negatives.src_weight, num_src)
        self.dst_units = whole_units(negatives.dst_weight, num_dst)
        known = links if negatives.exclude else set()
        self.near = [{v for u, v in known if u == own} for own in range(num_src)]
        if negatives.exclude and dst_time is None:  # sources that are linked to all are not drawn
            for u, near in enumerate(self.near):
                if not any(n for v, n in enumerate(self.dst_units) if v not in near):
                    self.src_units[u] = 0

    def draw(
        self,
        rows: Sequence[int],
        src: Sequence[int],
        times: Sequence[int] | None,
        seed: int,
        epoch: int,
        number: int,
    ) -> list[tuple[int | None, int | None]]:
        """The negatives of one batch; None for an end that cannot be."""
        made: list[tuple[int | None, int | None]] = []
        for q in range(number):
            at, j = q % len(rows), q // len(rows)
            key = derive(epoch_key(seed, NEGATIVES, epoch), rows[at])
            limit = None if times is None else times[at]
            u: int | None = src[at]
            if self.negatives.mode == "binary":
                u = choose(self.src_units, self.src_time, limit, set(), draw(key, 2 * j))
            v = None
            if u is not None:
                near = self.near[u]
                v = choose(self.dst_units, self.dst_time, limit, near, draw(key, 2 * j + 1))
            made.append((u, v))
        return made
