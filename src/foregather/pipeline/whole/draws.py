"""draws: random numbers of several node chunks in one call, each chunk with its own.

What a chunk draws depends on (seed, epoch, layer, chunk), whoever computes it and together with
whom: dropout over the rows of several chunks draws for one after the other. Other random numbers
cannot be drawn so, and neither can those of rows that are not a chunk's own: `MixedDraws` then asks
for chunks one by one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from foregather.nn.drop import draw_by

__all__ = ["Draws", "MixedDraws"]


class MixedDraws(Exception):
    """A layer draws numbers that cannot be drawn for several chunks in one call."""


class Draws(TorchFunctionMode):
    """Inside, each chunk of a piece draws its own numbers.

    Args:
        key: from the place of a chunk in the piece to the key of its numbers.
        spans: their rows in the piece.
    """

    def __init__(self, key: Callable[[int], int], spans: Sequence[slice]) -> None:
        super().__init__()
        self._key, self._spans = key, spans
        self._states: dict[int, Tensor] = {}
        self._before: Tensor | None = None
        self._by: Any = None
        self.others = False  # rows of other chunks are in play

    def __enter__(self) -> "Draws":
        if len(self._spans) == 1:  # the generator serves whatever is drawn
            torch.default_generator.manual_seed(self._key(0))
            return self
        self._before = torch.default_generator.get_state()
        self._by = draw_by(self.draw_rows)
        self._by.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if len(self._spans) == 1:
            return
        super().__exit__(*error)
        self._by.__exit__(*error)
        same = torch.equal(torch.default_generator.get_state(), self._before)
        if error[0] is None and not same:
            raise MixedDraws

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is not functional.dropout:
            return func(*args, **kwargs)
        return self._dropout(func, *args, **kwargs)

    def _dropout(
        self, func: Any, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not training or not 0 < p < 1:
            out: Tensor = func(x, p, training, inplace)
            return out

        def factors(rows: Tensor) -> Tensor:
            return torch.empty_like(rows).bernoulli_(1 - p).div_(1 - p)

        drawn = self.draw_rows(x, factors)
        return x.mul_(drawn) if inplace else x * drawn

    def draw_rows(self, x: Tensor, draw: Callable[[Tensor], Tensor]) -> Tensor:
        """Factors for the rows of all chunks, each drawn with the numbers of its chunk."""
        if self.others or x.shape[0] != self._spans[-1].stop:
            raise MixedDraws
        generator = torch.default_generator
        before = generator.get_state()
        with torch.no_grad():
            out = torch.empty_like(x)
            for number, span in enumerate(self._spans):
                if number in self._states:
                    generator.set_state(self._states[number])
                else:
                    generator.manual_seed(self._key(number))
                out[span] = draw(x[span])
                self._states[number] = generator.get_state()
        generator.set_state(before)
        return out

    def resumable(self, part: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """Returns `part` so that it draws the same whenever it is run again."""
        if len(self._spans) == 1:
            return part
        begin = dict(self._states)

        def again(*values: Tensor) -> Tensor:
            inner = Draws(self._key, self._spans)
            inner._states = dict(begin)
            with inner:
                out = part(*values)
            self._states = inner._states
            return out

        return again
