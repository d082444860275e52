"""rank_grid: p ranks as p/c rows and c columns, with their own groups, under plain torchrun.

Rank i * c + j is in row i and column j. Block row i of the graph is held by all c ranks of row i;
the ranks of one column together hold everything, so a rank asks only its own column. All ranks
make grids in the same order and have the same version, replication and timeout; this is checked.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from itertools import count
from typing import Any, TypeVar

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from foregather.dist.transport import last_word
from foregather.dist.transport.agreement import agree
from foregather.dist.transport.call_timeout import cut_links, within
from foregather.dist.transport.ledger import Entry, Ledger, Link
from foregather.dist.transport.link_error import is_link_error
from foregather.dist.transport.liveness import Watch
from foregather.dist.transport.meet import attempt, environment, meet, start
from foregather.dist.transport.mesh import check_mesh, join_all, leave, make_mesh
from foregather.dist.transport.phase_clock import PhaseClock
from foregather.dist.transport.wire import Wire
from foregather.errors import InputError, RankError

__all__ = ["Channel", "RankGrid"]

AnyGrid = TypeVar("AnyGrid", bound="RankGrid")

_grids = count()
_PATIENCE = 5.0  # seconds for threads to end after a failure


class Channel:
    """Groups of a grid for one purpose, and the thread that runs its collectives.

    Collectives of one channel run one after the other in its thread, in the order of the calls, so
    nothing else (gradients, another channel) can come between them.

    Attributes:
        mesh: its groups as a DeviceMesh, see `Grid.mesh`.
        column: links to the ranks of this rank's column.
        row: links to the ranks of this rank's row.
        ledger: what was sent.
        clock: seconds of its thread by phase.
        thread: runs one task at a time.
        before_close: called before the thread ends, to finish what other ranks depend on.
        closed: it ended, and its groups were left.
    """

    def __init__(self, grid: "RankGrid") -> None:
        self.ledger, self.clock = Ledger(grid.rank), PhaseClock()
        self.mesh = make_mesh(grid)
        self.column = self._wire(grid, "column")
        self.row = self._wire(grid, "row")
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="foregather-dist")
        self.before_close: list[Callable[[], None]] = []
        self.closed = False

    def _wire(self, grid: "RankGrid", dimension: str) -> Wire:
        group = self.mesh.get_group(dimension)
        ranks = dist.get_process_group_ranks(group)
        return Wire(group, ranks, grid.rank, grid.watch, self.ledger, self.clock)

    def close(self) -> None:
        """Waits for the current task, ends the thread and leaves the groups."""
        while self.before_close:
            self.before_close.pop()()
        self.thread.shutdown(wait=True, cancel_futures=True)
        if not self.closed:
            self.closed = True
            leave(self.mesh)
            # Nobody may hold a group that was left: its sockets are closed when the last one goes.
            self.column.group = self.row.group = None
            del self.mesh

    def give_up(self) -> list[threading.Thread]:
        """Like `close` after a failure: waits for no rank; returns threads that still do."""
        self.closed = True
        self.before_close.clear()
        self.thread.shutdown(wait=False, cancel_futures=True)
        end = time.monotonic() + _PATIENCE
        for thread in self.thread._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return [thread for thread in self.thread._threads if thread.is_alive()]


class RankGrid:
    """The ranks of a run, as used within this room; arguments are those of `Grid`."""

    def __init__(
        self, replication: int = 1, *, timeout: float = 600.0, backend: str = "gloo"
    ) -> None:
        self.rank, self.size, host, port = environment()
        self.replication, self.timeout = replication, timeout
        if replication < 1 or self.size % replication:
            raise InputError(
                f"replication is {replication}, but there are {self.size} ranks; choose a number "
                f"that divides {self.size}"
            )
        self.row, self.column = divmod(self.rank, replication)
        self.num_rows = self.size // replication
        prefix = f"{attempt()}/{next(_grids)}"
        self._agreed, self._numbers = 0, count()
        self._channels: list[Channel] = []
        self._mesh: DeviceMesh | None = None
        self._own_mesh = False
        self._everyone: Any = None  # made when first needed
        last_word.hook()
        store = None if dist.is_initialized() else meet(timeout)
        try:
            self.watch = within(
                timeout,
                lambda: Watch(self.rank, self.size, host, port, prefix, timeout),
                lambda: cut_links(host, port),
            )
        except RuntimeError as error:
            raise RankError(f"the store of rank 0 at port {port} does not answer") from error
        last_word.watch_over(self)
        if store is not None:
            start(backend, store, self.watch)
        self.agree("version of foregather", version("foregather"))
        self.agree("replication and timeout", f"{replication}, {timeout:g} s")

    @classmethod
    def from_mesh(cls: type[AnyGrid], mesh: DeviceMesh, *, timeout: float = 600.0) -> AnyGrid:
        """A grid of the ranks of a DeviceMesh, which becomes its `mesh`.

        Args:
            mesh: all ranks in order, of shape [p/c, c], or [p] for c = 1.
            timeout: as for a grid.

        Raises:
            InputError: the mesh has other ranks, or another order or shape.
        """
        grid = cls(check_mesh(mesh), timeout=timeout)
        grid._mesh = mesh
        return grid

    @property
    def mesh(self) -> DeviceMesh:
        """The ranks as a DeviceMesh of shape [p/c, c], for your own collectives.

        Its dimensions are named after what lies along them: `mesh.get_group("column")` has the p/c
        ranks of this rank's grid column, `mesh.get_group("row")` the c ranks of its grid row. It is
        created on first use, so all ranks must use it together. Channels have their own groups, so
        these cannot interfere with their collectives.
        """
        if self._mesh is None:
            self._mesh, self._own_mesh = make_mesh(self), True
        return self._mesh

    def channel(self) -> Channel:
        """Creates new groups and a thread for one purpose; a collective call."""
        made = Channel(self)
        self._channels = [*(one for one in self._channels if not one.closed), made]
        return made

    def agree(self, name: str, value: str) -> None:
        """Checks that all ranks have the same value.

        Raises:
            InputError: they differ; on every rank.
            RankError: a rank does not answer within the timeout.
        """
        self.agree_all({name: value})

    def agree_all(self, facts: Mapping[str, str]) -> None:
        """Like `agree` for several named values, in one exchange."""
        self._agreed += 1
        agree(self, f"agree/{self._agreed}", facts)

    def next_number(self) -> int:
        """Returns 0, 1, ...: a number for objects that all ranks create in the same order."""
        return next(self._numbers)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """A context for a part of a program with its own collectives.

        An error of torch that leaves `with Grid(...)` or the whole program already names the failed
        rank; this is for a program that wants to catch it earlier.

        Raises:
            RankError: links between ranks failed; the message names the rank.
        """
        try:
            yield
        except Exception as error:
            if isinstance(error, RankError) or not is_link_error(error):
                raise
            raise self.watch.verdict("a collective of the program", error) from error

    def gather_ledger(self, ledger: Ledger) -> dict[Link, Entry]:
        """What all ranks sent, on every rank; a collective call."""
        everybody: list[Any] = [None] * self.size
        if self._everyone is None:  # a group of its own: the default one is that of gradients
            self._everyone = join_all(self)
        with self.watch.step("gathering the ledger"):
            dist.all_gather_object(everybody, ledger.entries(), group=self._everyone)
        return {link: entry for part in everybody for link, entry in part.items()}

    def close(self, failed: bool = False) -> None:
        """Ends threads and groups.

        torch.distributed itself keeps running until the process exits. It cannot be started twice
        without a race: an early rank would connect to the store of the previous run.

        Args:
            failed: after an error; other ranks are not waited for.
        """
        if failed:
            stuck = [thread for channel in self._channels for thread in channel.give_up()]
            last_word.release(self, stuck)
            self.watch.close("it failed")
            return
        for channel in self._channels:
            channel.close()
        if self._mesh is not None and self._own_mesh:
            leave(self._mesh)
            self._mesh, self._own_mesh = None, False
        if self._everyone is not None and dist.is_initialized():
            dist.destroy_process_group(self._everyone)
            self._everyone = None
        last_word.release(self, [])
        self.watch.close()

    def __enter__(self: AnyGrid) -> AnyGrid:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            return self.close()
        named = last_word.name_failure(self, error)
        self.close(failed=True)
        if named is not None:
            raise named from error
