"""link: sends rows to other ranks and receives them, posts receives ahead, counts every byte.

Forward rows go to the next stage and gradients to the previous one; ways of a stage exchange rows.
Both sides know the order, so no shapes or names are sent. Ranks are numbered stage by stage, as
peer stage * ways + way. A wait never lasts longer than the timeout.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from foregather.dist.transport.ledger import Ledger
from foregather.errors import RankError
from foregather.observe.trace import span

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Link"]

#: by purpose: rows between stages, gradients back, sums of gradients, small agreements, weights
#: and options, rows between ways, their gradients back; the ledger counts by the same names
_TAG = {
    "forward": 1,
    "backward": 2,
    "weights": 3,
    "control": 4,
    "state": 5,
    "exchange": 6,
    "exchange_back": 7,
}
_AHEAD = 2  # receives posted beyond the one that is waited for
_UNSENT = 4  # sends in flight before the oldest is waited for; two more for each other way


class Link:
    """The messages of one rank of stages x ways; a single rank sends nothing.

    Args:
        stage: this stage.
        stages: S.
        timeout: seconds after which a silent peer is an error.
        group: the ranks, stage by stage; None for a single rank.
        way: this way.
        ways: G.
    """

    def __init__(
        self,
        stage: int,
        stages: int,
        timeout: float,
        group: "dist.ProcessGroup | None",
        way: int = 0,
        ways: int = 1,
    ) -> None:
        self.stage = stage
        self.stages = stages
        self.way = way
        self.ways = ways
        self.timeout = timeout
        self.ledger = Ledger(self.own, _TAG)
        self._group = group
        #: seconds that this rank spent on messages, by purpose: handing them over, and waiting
        self.waited = dict.fromkeys(_TAG, 0.0)
        self._unsent: deque[tuple[Any, Tensor, int, str, str]] = deque()

    # ---- who is who --------------------------------------------------------------------------

    @property
    def peers(self) -> int:
        """Ranks of all stages and ways."""
        return self.stages * self.ways

    @property
    def own(self) -> int:
        """The number of this rank."""
        return self.stage * self.ways + self.way

    def stage_peer(self, stage: int) -> int:
        """The rank of the same way in another stage."""
        return stage * self.ways + self.way

    def way_peer(self, way: int) -> int:
        """The rank of another way in the same stage."""
        return self.stage * self.ways + way

    # ---- rows ------------------------------------------------------------------------------

    def send(self, peer: int, rows: Tensor, purpose: str, chunk: int = 0) -> None:
        """Starts sending rows, which must not change afterwards."""
        rows = rows.contiguous()
        what = f"take the {purpose} rows of chunk {chunk}"
        with self._named(peer, what, purpose):
            work = dist.isend(rows, self._rank(peer), self._group, self._tag(purpose, chunk))
        self.ledger.note(peer, purpose, rows.nbytes)
        self._unsent.append((work, rows, peer, what, purpose))
        while len(self._unsent) > _UNSENT + 2 * (self.ways - 1):
            self._wait_send()

    def flush(self) -> None:
        """Waits until everything has been sent."""
        while self._unsent:
            self._wait_send()

    def receive(self, peer: int, like: Tensor, purpose: str, chunk: int = 0) -> Tensor:
        """Receives one message of the shape and dtype of `like`."""
        shape = tuple(like.shape)
        return self.receiver(peer, purpose, [(chunk, shape)], like)(chunk)

    def receiver(
        self,
        peer: int,
        purpose: str,
        coming: Sequence[tuple[int, tuple[int, ...]]],
        like: Tensor,
    ) -> Callable[[int], Tensor]:
        """Returns a function that takes the rows of chunks, in the order of `coming`.

        Some receives are posted ahead of the one that is requested, so that rows arrive while this
        rank computes. `coming` has (chunk, shape); buffers have the dtype and device of `like`.
        """
        waiting, posted = deque(coming), deque[tuple[int, Any, Tensor]]()

        def post() -> None:
            while waiting and len(posted) <= _AHEAD:
                chunk, shape = waiting.popleft()
                buffer = like.new_empty(shape)
                with self._named(peer, f"send the {purpose} rows of chunk {chunk}", purpose):
                    rank, tag = self._rank(peer), self._tag(purpose, chunk)
                    posted.append((chunk, dist.irecv(buffer, rank, self._group, tag), buffer))

        def take(chunk: int) -> Tensor:
            post()
            number, work, buffer = posted.popleft()
            assert number == chunk, f"chunk {chunk} was requested, {number} comes next"
            with self._named(peer, f"send the {purpose} rows of chunk {chunk}", purpose):
                work.wait(timedelta(seconds=self.timeout))
            post()
            return buffer

        post()
        return take

    # ---- small agreements along a chain of ranks ---------------------------------------------

    def agree(self, own: Tensor, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Combines a small vector of all ranks; all get the same result."""
        return self.around(own, combine, "control")

    def around(
        self,
        own: Tensor,
        combine: Callable[[Tensor, Tensor], Tensor],
        purpose: str,
        chain: Sequence[int] | None = None,
    ) -> Tensor:
        """Combines values down a chain of P ranks and sends the result back: 2 (P - 1) messages.

        Args:
            own: the value of this rank.
            combine: called with what came down the chain, and `own`.
            purpose: for the ledger.
            chain: peers, this one included; None means all.
        """
        chain = list(range(self.peers)) if chain is None else list(chain)
        place, total = chain.index(self.own), own
        if place > 0:
            total = combine(self.receive(chain[place - 1], torch.empty_like(own), purpose), own)
        if place + 1 < len(chain):
            self.send(chain[place + 1], total.clone(), purpose)
            total = self.receive(chain[place + 1], torch.empty_like(own), purpose)
        if place > 0:
            self.send(chain[place - 1], total.clone(), purpose)
        self.flush()
        return total

    @property
    def way_chain(self) -> list[int]:
        """The ranks of this stage."""
        return [self.way_peer(way) for way in range(self.ways)]

    # ---- helpers -----------------------------------------------------------------------------

    def _wait_send(self) -> None:
        work, _, peer, what, purpose = self._unsent.popleft()
        with self._named(peer, what, purpose):
            work.wait(timedelta(seconds=self.timeout))

    def _rank(self, peer: int) -> int:
        assert self._group is not None
        return dist.get_global_rank(self._group, peer)

    def _name(self, peer: int) -> str:
        stage, way = divmod(peer, self.ways)
        return f"stage {stage}" + (f" way {way}" if self.ways > 1 else "")

    @staticmethod
    def _tag(purpose: str, chunk: int) -> int:
        return _TAG[purpose] << 24 | chunk

    @contextmanager
    def _named(self, peer: int, what: str, purpose: str) -> "Iterator[None]":
        began = time.perf_counter()
        try:
            with span("links"):
                yield
            self.waited[purpose] += time.perf_counter() - began
        except RuntimeError as error:
            raise RankError(
                f"{self._name(self.own)} waited for {self._name(peer)} (rank {self._rank(peer)}) "
                f"to {what}, but it stopped, or was silent for {self.timeout:g} s; see its output "
                f"({str(error).splitlines()[0][:200]})"
            ) from error
