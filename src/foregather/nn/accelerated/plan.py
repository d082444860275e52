"""plan: what was proven of a model: its convolutions in the order of their calls, and their ways.

A step says how many convolutions still follow it on the longest path to the result (`behind`), so
how many hops of rows its own result must have: N_min(L, behind).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import nn

from foregather.nn.accelerated.linears import linears_of

__all__ = ["Ended", "Known", "Plain", "Plan", "Role", "Step", "Unfit", "Way", "parts_of"]

#: How a convolution is computed: by our kernels, by its own code on (sources, targets), by its own
#: code on all rows that it reads.
Way = Literal["kernel", "pair", "square"]
Role = Literal["edges", "rows", "edge", "other"]
_SMALL = 1 << 16  # values of a buffer that is kept in case a pass ends early


def parts_of(module: nn.Module) -> list[nn.Module]:
    """A module and all modules in it, each once; without the cost of names."""
    found: dict[int, nn.Module] = {}
    stack = [module]
    while stack:
        part = stack.pop()
        if id(part) not in found:
            found[id(part)] = part
            stack.extend(inner for inner in part._modules.values() if inner is not None)
    return list(found.values())


class Known:
    """The modules of a model.

    Attributes:
        parts: all of them.
        convolutions: by name.
        linears: linear maps whose products the core forms faster than torch's library.
    """

    def __init__(self, parts: list[nn.Module], convolutions: dict[str, nn.Module]) -> None:
        self.parts, self.convolutions = parts, convolutions
        self.linears = linears_of(parts)

    def undo(self) -> Callable[[], None]:
        """Keeps random states and small buffers; returns what brings them back."""
        state = torch.get_rng_state()
        buffers = [
            (buffer, buffer.clone())
            for part in self.parts
            for buffer in part._buffers.values()
            if buffer is not None and 0 < buffer.numel() <= _SMALL
        ]

        def back() -> None:
            torch.set_rng_state(state)
            with torch.no_grad():
                for buffer, before in buffers:
                    buffer.copy_(before)

        return back


class Ended(Exception):
    """The accelerated pass cannot go on; the model runs as it is.

    Attributes:
        module: the name of the module at fault, as far as known.
    """

    def __init__(self, reason: str, module: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.module = reason, module


class Unfit(Ended):
    """A convolution cannot be computed in this way; another may do."""


@dataclass(frozen=True)
class Step:
    """One call of a convolution.

    Attributes:
        module: its name in the model.
        behind: convolutions that still follow on the longest path.
        roles: what each argument is, by its name in `forward`.
        relation: whose edges it gets, of a typed batch; None for a call with all of them.
    """

    module: str
    behind: int
    roles: dict[str, Role]
    relation: tuple[str, str, str] | None = None


@dataclass(frozen=True)
class Plan:
    """What was proven.

    Attributes:
        steps: the calls in their order.
        ways: for each convolution, by name.
        joins: rows of different layers meet outside convolutions, and are cut there.
        neutral: norms whose statistics are over the rows that later layers need.
    """

    steps: tuple[Step, ...]
    ways: dict[str, Way] = field(default_factory=dict)
    joins: bool = True
    neutral: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plain:
    """Why a model is left as it is.

    Attributes:
        reason: in words.
        module: the name of the module at fault; None if there is none, "" for the model itself.
        quiet: no warning is needed, as nothing could be gained.
    """

    reason: str
    module: str | None = None
    quiet: bool = False
