"""wire: the only place where bytes are sent between ranks; every message is recorded in the ledger.

A message is a one-dimensional uint8 array. The part that a rank sends to itself is passed without a
copy. Lengths are sent before contents, 8 bytes to each peer, under the purpose "lengths".
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from foregather.dist.transport.ledger import Ledger
from foregather.dist.transport.liveness import Watch
from foregather.dist.transport.phase_clock import PhaseClock
from foregather.errors import InputError

__all__ = ["Bytes", "Wire", "as_bytes"]

T = TypeVar("T")

Bytes = npt.NDArray[np.uint8]
LENGTHS = "lengths"
_MOST = 1 << 31  # gloo's length type


def as_bytes(values: npt.NDArray[Any]) -> Bytes:
    """Returns the bytes of an array, without a copy if it is contiguous."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


class Wire:
    """The links among the ranks of one group.

    Args:
        group: the torch process group.
        ranks: its ranks in order.
        rank: this rank.
        watch: told which step is under way.
        ledger: told what is sent.
        clock: told when links are used.
    """

    def __init__(
        self,
        group: Any,
        ranks: Sequence[int],
        rank: int,
        watch: Watch,
        ledger: Ledger,
        clock: PhaseClock,
    ) -> None:
        self.group = group
        self.ranks = list(ranks)
        self.place = self.ranks.index(rank)
        self.watch = watch
        self.ledger = ledger
        self.clock = clock

    @property
    def size(self) -> int:
        """Ranks of the group."""
        return len(self.ranks)

    def exchange(self, parts: Sequence[Bytes], purpose: str) -> list[Bytes]:
        """Sends parts[i] to the i-th rank of the group; returns what each sent to this one.

        One all-to-all of lengths and one of contents, however much there is.

        Raises:
            RankError: a rank died or stalled.
            InputError: there is more than 2 GiB to send or to receive.
        """
        received = [np.empty(0, np.uint8)] * self.size
        received[self.place] = parts[self.place]
        if self.size == 1:
            return received
        lengths = np.array([len(part) for part in parts], np.int64)
        lengths[self.place] = 0
        expected = np.empty_like(lengths)
        with self.clock.on_links(), self.watch.step(purpose):
            dist.all_to_all_single(
                torch.from_numpy(expected), torch.from_numpy(lengths), group=self.group
            )
            if max(int(lengths.sum()), int(expected.sum())) >= _MOST:
                raise InputError(
                    f"{purpose} is {int(max(lengths.sum(), expected.sum()))} bytes, more than one "
                    "exchange can carry; sample fewer minibatches at once"
                )
            outgoing = [p for i, p in enumerate(parts) if i != self.place]
            content = np.empty(int(expected.sum()), np.uint8)
            dist.all_to_all_single(
                torch.from_numpy(content),
                torch.from_numpy(np.concatenate([*outgoing, np.empty(0, np.uint8)])),
                expected.tolist(),
                lengths.tolist(),
                group=self.group,
            )
        for i, (to, length) in enumerate(zip(self.ranks, lengths.tolist(), strict=True)):
            if i != self.place:
                self.ledger.note(to, LENGTHS, 8)
                self.ledger.note(to, purpose, length)
        for i, piece in enumerate(np.split(content, np.cumsum(expected)[:-1])):
            if i != self.place:
                received[i] = piece
        return received

    def ask(
        self, requests: Sequence[Bytes], answer: Callable[[T, Bytes], Bytes], held: T
    ) -> list[Bytes]:
        """Requests rows from every rank of the group, and answers the others' requests.

        Args:
            requests: one for each rank; an empty one asks nothing, and gets nothing.
            answer: the reply to a request, from what a rank holds.
            held: what this rank holds.

        Returns:
            The reply of each rank.
        """
        asked = self.exchange(requests, "rows: request")
        replies = [answer(held, request) if len(request) else request for request in asked]
        return self.exchange(replies, "rows: reply")

    def swap(
        self,
        outgoing: Bytes,
        lengths: Sequence[int],
        incoming: Bytes,
        expected: Sequence[int],
        purpose: str,
    ) -> None:
        """Like `exchange` if every length is known: one collective, no copies.

        Args:
            outgoing: bytes for each rank of the group, one after the other.
            lengths: how many for each; 0 for this rank.
            incoming: filled with what each rank sent, one after the other.
            expected: how many from each; 0 for this rank.
            purpose: for the ledger.

        Raises:
            RankError: a rank died or stalled.
        """
        with self.clock.on_links(), self.watch.step(purpose):
            dist.all_to_all_single(
                torch.from_numpy(incoming),
                torch.from_numpy(outgoing),
                list(expected),
                list(lengths),
                group=self.group,
            )
        for to, length in zip(self.ranks, lengths, strict=True):
            self.ledger.note(to, purpose, length)

    def share(self, part: Bytes, purpose: str) -> list[Bytes]:
        """Sends the same part to every rank of the group; returns everybody's."""
        return self.exchange([part] * self.size, purpose)

    def collect(self, part: Bytes, root: int, purpose: str) -> list[Bytes] | None:
        """Sends a part to the root-th rank, which gets a list of all; others get None."""
        with self.clock.on_links(), self.watch.step(purpose):
            if self.place != root:
                _finish(self._send(part, root, purpose))
                return None
            return [part if i == root else self._receive(i) for i in range(self.size)]

    def deal(self, parts: Sequence[Bytes] | None, root: int, purpose: str) -> Bytes:
        """The root-th rank sends each rank its part."""
        with self.clock.on_links(), self.watch.step(purpose):
            if self.place != root:
                return self._receive(root)
            assert parts is not None
            others = [i for i in range(self.size) if i != root]
            _finish([work for i in others for work in self._send(parts[i], i, purpose)])
            return parts[root]

    def _send(self, part: Bytes, to: int, purpose: str) -> list[tuple[Any, torch.Tensor]]:
        """Starts to send a length and what has it."""
        tensors = [torch.tensor([len(part)])]
        if len(part):
            tensors.append(torch.from_numpy(part))
        peer = self.ranks[to]
        self.ledger.note(peer, LENGTHS, 8)
        self.ledger.note(peer, purpose, len(part))
        # The tensor is kept with the work: gloo reads it until the work is done.
        return [(dist.isend(tensor, peer, group=self.group), tensor) for tensor in tensors]

    def _receive(self, origin: int) -> Bytes:
        peer = self.ranks[origin]
        length = torch.empty(1, dtype=torch.int64)
        dist.recv(length, peer, group=self.group)
        content = np.empty(int(length), np.uint8)
        if len(content):
            dist.recv(torch.from_numpy(content), peer, group=self.group)
        return content


def _finish(pending: Sequence[tuple[Any, torch.Tensor]]) -> None:
    for work, _ in pending:
        work.wait()
