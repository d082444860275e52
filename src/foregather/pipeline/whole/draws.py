"""draws: random numbers of several node chunks in one call, each chunk with its own.

What a chunk draws depends on (seed, epoch, layer, chunk), whoever computes it and together with
whom: dropout over the rows of several chunks, or over the edges that end in them, draws for one
after the other. Other random numbers cannot be drawn so, and neither can those of rows that are not
a chunk's own: `MixedDraws` then asks for chunks one by one.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from foregather.nn.drop import draw_by

__all__ = ["Draws", "MixedDraws"]


class MixedDraws(Exception):
    """A layer draws numbers that cannot be drawn for several chunks in one call."""


class Draws:
    """Inside, each chunk of a piece draws its own numbers.

    Dropout of our own layers always does. That of torch does if `watch` is set: it costs a look at
    every call, so it is only asked for once something was drawn that was not expected.

    Args:
        key: from a layer's number and the place of a chunk in the piece to the key of its numbers.
        spans: rows of the chunks in the piece.
        watch: look for dropout of torch.
    """

    def __init__(
        self, key: Callable[[int, int], int], spans: Sequence[slice], watch: bool = False
    ) -> None:
        self._key, self._spans = key, spans
        self._states: dict[int, Tensor] = {}
        self._number = 0
        self._before: Tensor | None = None
        self._inside = ExitStack()
        self._watch = watch
        self._ptr: Tensor | None = None
        self.others = False  # rows of other chunks are in play

    @property
    def _one(self) -> bool:
        return len(self._spans) == 1  # then the generator serves whatever is drawn

    def turn(self, number: int) -> None:
        """Begins the numbers of a layer."""
        self._number, self._states, self.others = number, {}, False
        if self._one:
            torch.default_generator.manual_seed(self._key(number, 0))

    def __enter__(self) -> "Draws":
        if not self._one:
            self._before = torch.default_generator.get_state()
            self._inside.enter_context(draw_by(self.draw_rows))
            if self._watch:
                self._inside.enter_context(_Watch(self._dropout))
        return self

    def __exit__(self, *error: Any) -> None:
        self._inside.close()
        if self._one or error[0] is not None:
            return
        assert self._before is not None
        if not torch.equal(torch.default_generator.get_state(), self._before):
            raise MixedDraws

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
        spans = self._rows(x.shape[0])
        generator = torch.default_generator
        before = generator.get_state()
        with torch.no_grad():
            out = torch.empty_like(x)
            for number, span in enumerate(spans):
                if number in self._states:
                    generator.set_state(self._states[number])
                else:
                    generator.manual_seed(self._key(self._number, number))
                out[span] = draw(x[span])
                self._states[number] = generator.get_state()
        generator.set_state(before)
        return out

    def _rows(self, count: int) -> Sequence[slice]:
        """Which of `count` rows are each chunk's: its nodes, or the edges that end in them."""
        own = self._spans[-1].stop
        if not self.others and count == own:
            return self._spans
        if self._ptr is None or count == own or count != int(self._ptr[-1]):
            raise MixedDraws
        return [slice(int(self._ptr[s.start]), int(self._ptr[s.stop])) for s in self._spans]

    @contextmanager
    def passing(self, ptr: Tensor | None) -> Iterator[None]:
        """Inside, what is drawn is for edges: those of own row n are `ptr[n]` to `ptr[n + 1]`.

        Outside it is for own rows: who says where edges are has read rows of others for them.
        """
        self.others, self._ptr = True, ptr
        try:
            yield
        finally:
            self.others, self._ptr = False, None

    def resumable(self, part: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """Returns `part` so that it draws the same whenever it is run again."""
        if self._one:
            return part
        number, begin = self._number, dict(self._states)

        def again(*values: Tensor) -> Tensor:
            inner = Draws(self._key, self._spans, self._watch)
            inner.turn(number)
            inner._states = dict(begin)
            with inner:
                out = part(*values)
            self._states = inner._states
            return out

        return again


class _Watch(TorchFunctionMode):
    """Hands calls of torch's dropout to another function."""

    def __init__(self, dropout: Callable[..., Tensor]) -> None:
        super().__init__()
        self._dropout = dropout

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.dropout:
            return self._dropout(func, *args, **kwargs)
        return func(*args, **kwargs)
