"""verdicts: what was decided of a model, by kind of call; what of it outlives the process.

A model that gave up is called as it is from then on, so that the last bits of its sums do not
change back: a state has these decisions, by a digest of the kind of call. What was proven is not in
it: it is proven again where it is used, and nothing that was read is taken for a proof.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from torch import nn

from foregather.nn.accelerated.plan import Plain, Plan

__all__ = ["Verdicts", "explain_plain", "explain_verdicts"]


class Verdicts(dict[Any, Plan | Plain]):
    """Verdicts by kind of call; the first entry of a kind is whether the model is in training.

    Attributes:
        restored: those of a state whose kind of call was not seen again yet, by their digest.
    """

    def __init__(self) -> None:
        super().__init__()
        self.restored: dict[str, tuple[bool, Plain]] = {}

    def find(self, key: Any) -> Plan | Plain | None:
        """The verdict for a kind of call; None if there is none yet."""
        if self.restored and (found := self.restored.pop(_digest(key), None)) is not None:
            self[key] = found[1]
        return self.get(key)

    def by_mode(self) -> list[tuple[bool, Plan | Plain]]:
        """All of them, and whether each is for training."""
        return [*((bool(key[0]), value) for key, value in self.items()), *self.restored.values()]

    def state(self) -> list[dict[str, Any]]:
        """The decisions against acceleration, as plain values."""
        own = {
            _digest(key): (bool(key[0]), value)
            for key, value in self.items()
            if isinstance(value, Plain)
        }
        every = (own | self.restored).items()
        return [{"call": text, "training": mode, **asdict(v)} for text, (mode, v) in every]

    def load(self, state: Iterable[Mapping[str, Any]]) -> None:
        """Goes back to a state: what was decided after it is forgotten."""
        for key in [key for key, value in self.items() if isinstance(value, Plain)]:
            del self[key]
        self.restored = {}
        self.take(state)

    def take(self, state: Iterable[Mapping[str, Any]], where: str = "") -> None:
        """Takes over decisions of others, except for calls that run as they are already.

        Args:
            state: theirs.
            where: added to their reasons.
        """
        mine = {one["call"] for one in self.state()}
        for one in state:
            if one["call"] not in mine:
                reason = Plain(f"{one['reason']}{where}", one["module"], bool(one["quiet"]))
                self.restored[one["call"]] = (bool(one["training"]), reason)


def explain_verdicts(model: nn.Module, verdicts: Iterable[tuple[bool, Plan | Plain]]) -> str:
    """A table of what was chosen for each convolution, in training and in evaluation."""
    lines = []
    for training, verdict in verdicts:
        mode = "training" if training else "evaluation"
        if isinstance(verdict, Plain):
            lines.append(f"{mode}: plain: {explain_plain(model, verdict)}")
            continue
        lines.append(f"{mode}: accelerated")
        lines.extend(_table(model, verdict))
    return "\n".join(lines)


def explain_plain(model: nn.Module, verdict: Plain) -> str:
    """Why a model is left as it is, with the name and type of the module at fault."""
    if verdict.module is None:
        return verdict.reason
    kind = type(model).__name__
    if verdict.module:
        known = dict(model.named_modules())
        kind = f"{verdict.module} ({type(known.get(verdict.module)).__name__})"
    return f"{kind} {verdict.reason}"


def _table(model: nn.Module, plan: Plan) -> Iterator[str]:
    known = dict(model.named_modules())
    rows = [("convolution", "type", "computed by", "hops of rows that it gives")]
    said = {
        "kernel": "kernels",
        "pair": "its own code, on sources and targets",
        "square": "its own code, on the rows it reads",
    }
    for step in plan.steps:
        kind = type(known.get(step.module)).__name__
        way = said[plan.ways[step.module]]
        rows.append((step.module or "(model)", kind, way, f"{step.behind}"))
    widths = [max(len(row[place]) for row in rows) for place in range(4)]
    for row in rows:
        yield "  " + "  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True)).rstrip()
    for name in plan.neutral:
        yield f"  {name}: statistics over the rows that later layers need"


def _digest(key: Any) -> str:
    return hashlib.sha256(repr(_named(key)).encode()).hexdigest()[:32]


def _named(value: Any) -> Any:
    """The same with classes by their names, which are equal in another process."""
    if isinstance(value, tuple):
        return tuple(_named(part) for part in value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    return value
