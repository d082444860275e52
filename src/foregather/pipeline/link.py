"""link: rows to and from the neighbouring stages, receives posted ahead, every byte counted.

Forward rows go to the next stage and gradients to the previous one, in an order both sides know, so
no shape and no name is sent. A wait never lasts longer than the timeout.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from foregather.errors import RankError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Ledger", "Link"]

_TAG = {"forward": 1, "backward": 2, "weights": 3, "control": 4, "state": 5}
_AHEAD = 2  # receives posted beyond the one that is waited for
_UNSENT = 4  # sends in flight before the oldest is waited for


class Ledger:
    """Payload bytes this rank has sent, by purpose: forward, backward, weights, control, state."""

    def __init__(self) -> None:
        self.sent: dict[str, int] = dict.fromkeys(_TAG, 0)

    def snapshot(self) -> dict[str, int]:
        """A copy of the counts."""
        return dict(self.sent)


class Link:
    """The two neighbours of a stage; with one stage there are none and nothing is sent.

    Args:
        stage: this stage.
        stages: S.
        timeout: seconds after which a silent neighbour is an error.
        group: the ranks that are the stages, in order; None for one stage.
    """

    def __init__(
        self, stage: int, stages: int, timeout: float, group: "dist.ProcessGroup | None"
    ) -> None:
        self.stage = stage
        self.stages = stages
        self.timeout = timeout
        self.ledger = Ledger()
        self._group = group
        self._unsent: deque[tuple[Any, Tensor, int, str]] = deque()

    # ---- rows ------------------------------------------------------------------------------

    def send(self, stage: int, rows: Tensor, purpose: str, chunk: int = 0) -> None:
        """Starts to send; the rows must not change afterwards."""
        rows = rows.contiguous()
        what = f"take the {purpose} rows of chunk {chunk}"
        with self._named(stage, what):
            work = dist.isend(rows, self._rank(stage), self._group, self._tag(purpose, chunk))
        self.ledger.sent[purpose] += rows.nbytes
        self._unsent.append((work, rows, stage, what))
        while len(self._unsent) > _UNSENT:
            self._wait_send()

    def flush(self) -> None:
        """Waits until everything has been sent."""
        while self._unsent:
            self._wait_send()

    def receive(self, stage: int, like: Tensor, purpose: str, chunk: int = 0) -> Tensor:
        """Receives one message of the shape and dtype of `like`."""
        shape = tuple(like.shape)
        return self.receiver(stage, purpose, [(chunk, shape)], like)(chunk)

    def receiver(
        self,
        stage: int,
        purpose: str,
        coming: Sequence[tuple[int, tuple[int, ...]]],
        like: Tensor,
    ) -> Callable[[int], Tensor]:
        """A function that returns the rows of a chunk, in the order of `coming` (chunk, shape).

        Some receives are posted ahead of the one that is asked for, so that rows arrive while this
        stage computes. Buffers have the dtype and device of `like`.
        """
        waiting, posted = deque(coming), deque[tuple[int, Any, Tensor]]()

        def post() -> None:
            while waiting and len(posted) <= _AHEAD:
                chunk, shape = waiting.popleft()
                buffer = like.new_empty(shape)
                with self._named(stage, f"send the {purpose} rows of chunk {chunk}"):
                    rank, tag = self._rank(stage), self._tag(purpose, chunk)
                    posted.append((chunk, dist.irecv(buffer, rank, self._group, tag), buffer))

        def take(chunk: int) -> Tensor:
            post()
            number, work, buffer = posted.popleft()
            assert number == chunk, f"chunk {chunk} was asked for, {number} comes next"
            with self._named(stage, f"send the {purpose} rows of chunk {chunk}"):
                work.wait(timedelta(seconds=self.timeout))
            post()
            return buffer

        post()
        return take

    # ---- small agreements along the chain of stages ------------------------------------------

    def agree(self, own: Tensor, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Combines a small vector of all stages; all get the same result."""
        return self.around(own, combine, "control")

    def around(
        self, own: Tensor, combine: Callable[[Tensor, Tensor], Tensor], purpose: str
    ) -> Tensor:
        """Down the chain from stage 0, combined at each stage, and back: 2 (S - 1) messages."""
        total, stage, last = own, self.stage, self.stages - 1
        if stage > 0:
            total = combine(self.receive(stage - 1, torch.empty_like(own), purpose), own)
        if stage < last:
            self.send(stage + 1, total.clone(), purpose)
            total = self.receive(stage + 1, torch.empty_like(own), purpose)
        if stage > 0:
            self.send(stage - 1, total.clone(), purpose)
        self.flush()
        return total

    # ---- helpers -----------------------------------------------------------------------------

    def _wait_send(self) -> None:
        work, _, stage, what = self._unsent.popleft()
        with self._named(stage, what):
            work.wait(timedelta(seconds=self.timeout))

    def _rank(self, stage: int) -> int:
        assert self._group is not None
        return dist.get_global_rank(self._group, stage)

    @staticmethod
    def _tag(purpose: str, chunk: int) -> int:
        return _TAG[purpose] << 24 | chunk

    @contextmanager
    def _named(self, stage: int, what: str) -> "Iterator[None]":
        try:
            yield
        except RuntimeError as error:
            raise RankError(
                f"stage {self.stage} waited for stage {stage} (rank {self._rank(stage)}) to {what}"
                f", but it stopped, or was silent for {self.timeout:g} s; see its output "
                f"({str(error).splitlines()[0][:200]})"
            ) from error
