"""column_fetcher: the queue of plans that executors over ranks carry out, step by step.

The ranks of a grid column step together, each through its own bulks. A rank that is through a bulk
still answers the others until they are too, and after an error nobody knows where the others are:
then the queue is empty.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy.typing as npt

from foregather.dist.features.feature_block import FeatureBlock
from foregather.dist.transport.codec import Codec
from foregather.dist.transport.wire import Wire
from foregather.errors import InputError
from foregather.gather.feature_reader import output_of

if TYPE_CHECKING:
    import torch

__all__ = ["ColumnFetcher", "QueuedBulk"]

Array = npt.NDArray[Any]


class _Steps(Protocol):
    """A plan, as far as a queue looks into it."""

    @property
    def steps(self) -> int:
        """Minibatches of this rank."""


PlanT = TypeVar("PlanT", bound=_Steps)


@dataclass(slots=True, eq=False)
class QueuedBulk(Generic[PlanT]):
    """A plan that is being carried out.

    Attributes:
        plan: what to do.
        done: steps that were carried out; more than the plan has where others had more.
    """

    plan: PlanT
    done: int = 0


BulkT = TypeVar("BulkT", bound=QueuedBulk[Any])


class ColumnFetcher(ABC, Generic[BulkT]):
    """What executors over ranks share: queued bulks, steps through them, and their end.

    Args:
        wire: links to the column.
        block: the rows of this rank.
        codec: the format of rows on the wire.
    """

    def __init__(self, wire: Wire, block: FeatureBlock, codec: Codec) -> None:
        self.wire, self.block, self.codec = wire, block, codec
        self._bulks: deque[BulkT] = deque()
        #: Rows so far: of the own block, from the cache, and fetched.
        self.counts = {"local": 0, "hits": 0, "misses": 0}

    @abstractmethod
    def _num_rows(self, bulk: BulkT) -> int:
        """Rows of the next step."""

    @abstractmethod
    def _fetch(self, bulk: BulkT, out: Array) -> None:
        """Carries out the next step, into `out`, and counts it as done."""

    @abstractmethod
    def _answer_rest(self, bulk: BulkT) -> None:
        """Does what others of the column count on after the steps of this rank."""

    @property
    def steps_left(self) -> int:
        """Minibatches that were appended and not yet fetched."""
        return sum(max(0, bulk.plan.steps - bulk.done) for bulk in self._bulks)

    def step(self, out: "torch.Tensor | None" = None) -> "torch.Tensor":
        """The rows of the next minibatch; ranks of the column step together.

        Raises:
            InputError: no step is queued, or `out` does not fit; then nothing was changed.
            RankError: a rank died or stalled; then what was queued is gone.
        """
        if not self.steps_left:
            raise InputError("no step is queued; append a plan first")
        with self._or_forget():
            while self._bulks[0].done >= self._bulks[0].plan.steps:
                self._finish()
        bulk = self._bulks[0]
        out = output_of(out, self._num_rows(bulk), self.block.width, self.block.gathered_dtype)
        with self._or_forget():
            self._fetch(bulk, out.numpy())
        return out

    def drain(self) -> None:
        """Answers what others of the column have left; the steps of this rank must be over.

        Raises:
            RankError: a rank died or stalled; then what was queued is gone.
        """
        with self._or_forget():
            while self._bulks:
                self._finish()

    def _finish(self) -> None:
        self._answer_rest(self._bulks[0])
        self._bulks.popleft()

    @contextmanager
    def _or_forget(self) -> Iterator[None]:
        """After an error the ranks are no longer at one point: what was queued is gone."""
        try:
            yield
        except BaseException:
            self._bulks.clear()
            raise
