"""grid: p ranks as p/c rows and c columns, with groups of their own, under plain torchrun.

Rank i * c + j is in row i and column j. Block row i of the graph lies with all c ranks of row i;
the ranks of one column together hold everything, so a rank asks only its own column. All ranks
make grids in the same order and have the same version, replication and timeout; this is checked.
"""

import atexit
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib.metadata import version
from itertools import count
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined] # not in __all__
from torch.distributed.device_mesh import DeviceMesh

from foregather.dist.deadline import within
from foregather.dist.ledger import Entry, Ledger, Link
from foregather.dist.mesh import check_mesh, leave, make_mesh
from foregather.dist.watch import Watch
from foregather.dist.wire import Wire
from foregather.errors import InputError, RankError
from foregather.train.ranks import BlockStorage, Mode, Topology, WireFormat

if TYPE_CHECKING:
    from foregather.dist.over_ranks import OverRanks
    from foregather.train.maker import Maker

__all__ = ["Channel", "Grid"]

_grids = count()


class Channel:
    """Groups of a grid for one use, and the thread in which that use makes its collectives.

    Collectives of one channel run one after the other in its thread, in the order in which they
    were asked for, so nothing else (gradients, another channel) can come between them.

    Attributes:
        mesh: its groups as a DeviceMesh, see `Grid.mesh`.
        column: links to the ranks of this rank's column.
        row: links to the ranks of this rank's row.
        ledger: what was sent.
        thread: runs one task at a time.
        before_close: called before the thread ends, to wait for what other ranks count on.
    """

    def __init__(self, grid: "Grid") -> None:
        self.ledger = Ledger(grid.rank)
        self.mesh = make_mesh(grid)
        self.column = self._wire(grid, "column")
        self.row = self._wire(grid, "row")
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="foregather-dist")
        self.before_close: list[Callable[[], None]] = []
        self._closed = False

    def _wire(self, grid: "Grid", dimension: str) -> Wire:
        group = self.mesh.get_group(dimension)
        ranks = dist.get_process_group_ranks(group)
        return Wire(group, ranks, grid.rank, grid.watch, self.ledger)

    def close(self) -> None:
        """Waits for the task under way, ends the thread and leaves the groups."""
        while self.before_close:
            self.before_close.pop()()
        self.thread.shutdown(wait=True, cancel_futures=True)
        if not self._closed:
            self._closed = True
            leave(self.mesh)


class Grid:
    """The ranks of a run.

    Starts `torch.distributed` from the environment of torchrun unless it was started already.

    Args:
        replication: c, the ranks that hold the same block row.
        timeout: seconds after which a collective gives up.
        backend: of torch.distributed, if it is started here.

    Raises:
        InputError: c does not divide the ranks, ranks differ in version or options, or this
            process was not started by torchrun.
        RankError: a rank cannot be reached, or the port is taken.
    """

    def __init__(
        self, replication: int = 1, *, timeout: float = 600.0, backend: str = "gloo"
    ) -> None:
        self.rank, self.size, host, port = _environment()
        self.replication, self.timeout = replication, timeout
        if replication < 1 or self.size % replication:
            raise InputError(
                f"replication is {replication}, but there are {self.size} ranks; choose a number "
                f"that divides {self.size}"
            )
        self.row, self.column = divmod(self.rank, replication)
        self.num_rows = self.size // replication
        prefix = f"{_attempt()}/{next(_grids)}"
        self._agreed = 0
        if not dist.is_initialized():
            _start(backend, timeout, self.rank, self.size, host, port)
        try:
            self.watch = within(
                timeout, lambda: Watch(self.rank, self.size, host, port, prefix, timeout)
            )
        except RuntimeError as error:
            raise RankError(f"the store of rank 0 at port {port} does not answer") from error
        self.agree("version of foregather", version("foregather"))
        self.agree("replication and timeout", f"{replication}, {timeout:g} s")
        self._channels: list[Channel] = []
        self._mesh: DeviceMesh | None = None
        self._own_mesh = False

    @classmethod
    def from_mesh(cls, mesh: DeviceMesh, *, timeout: float = 600.0) -> "Grid":
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
        """The ranks as a DeviceMesh of shape [p/c, c], for collectives of your own.

        Its dimensions are called by what lies along them: `mesh.get_group("column")` has the p/c
        ranks of this rank's grid column, `mesh.get_group("row")` the c ranks of its grid row. It is
        made when it is first asked for, so all ranks ask together. Channels have groups of their
        own, so nothing that is done with these meets their collectives.
        """
        if self._mesh is None:
            self._mesh, self._own_mesh = make_mesh(self), True
        return self._mesh

    def channel(self) -> Channel:
        """New groups and a thread for one use; all ranks call this together."""
        made = Channel(self)
        self._channels.append(made)
        return made

    def deal(
        self,
        maker: "Maker",
        topology: Topology = "partitioned",
        mode: Mode = "owner",
        bulk: int = 8,
        memory: int | None = None,
        wire: WireFormat = "exact",
        storage: BlockStorage = "auto",
    ) -> "OverRanks":
        """What a `Loader` makes its batches with; all ranks call this together."""
        from foregather.dist.over_ranks import OverRanks

        return OverRanks(maker, self, topology, mode, bulk, memory, wire, storage)

    def agree(self, name: str, value: str) -> None:
        """Checks that all ranks have the same value.

        Raises:
            InputError: they have not; on every rank.
            RankError: a rank does not answer within the timeout.
        """
        self._agreed += 1
        keys = [f"agree/{self._agreed}/{rank}" for rank in range(self.size)]
        try:
            values = within(self.timeout + 5, lambda: self._compare(keys, name, value))
        except RankError:
            raise
        except RuntimeError as error:
            raise RankError(
                f"rank 0, which holds the store, is gone: noticed when comparing the {name}"
            ) from error
        others = [rank for rank, other in enumerate(values) if other != values[0]]
        if others:
            self.watch.linger([f"{key}/read" for key in keys])
            raise InputError(
                f"the ranks differ in the {name}: rank 0 has {values[0]}, rank {others[0]} has "
                f"{values[others[0]]}; start all with the same"
            )

    def _compare(self, keys: list[str], name: str, value: str) -> list[str]:
        store = self.watch.store
        store.set(keys[self.rank], value)
        try:
            store.wait(keys, timedelta(seconds=self.timeout))
        except RuntimeError as error:
            missing = [str(r) for r, key in enumerate(keys) if not store.check([key])]
            raise RankError(
                f"rank {', '.join(missing)} did not say its {name} within {self.timeout:g} s; "
                "see its log for the cause"
            ) from error
        values = [store.get(key).decode() for key in keys]
        if len(set(values)) > 1:  # all come to this, and whoever holds the store goes last
            store.set(f"{keys[self.rank]}/read", "1")
        return values

    def gather_ledger(self, ledger: Ledger) -> dict[Link, Entry]:
        """What all ranks sent, on every rank; all ranks call this together."""
        everybody: list[Any] = [None] * self.size
        with self.watch.step("gathering the ledger"):
            dist.all_gather_object(everybody, ledger.entries())
        return {link: entry for part in everybody for link, entry in part.items()}

    def close(self) -> None:
        """Ends threads and groups. torch.distributed itself runs on to the end of the process.

        It cannot be started twice without a race: a rank that is early would meet the store of
        the run before.
        """
        for channel in self._channels:
            channel.close()
        if self._mesh is not None and self._own_mesh:
            leave(self._mesh)
            self._mesh, self._own_mesh = None, False
        self.watch.close()

    def __enter__(self) -> "Grid":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _environment() -> tuple[int, int, str, int]:
    try:
        rank, size, host, port = (
            os.environ[name] for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        )
        return int(rank), int(size), host, int(port)
    except KeyError as error:
        raise InputError(f"{error.args[0]} is not set; start the ranks with torchrun") from error
    except ValueError as error:
        raise InputError(f"RANK, WORLD_SIZE or MASTER_PORT is not a number: {error}") from error


def _attempt() -> str:
    """Before all keys of this start: torchrun keeps its store, with what is in it, at a restart."""
    return f"foregather/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}"


def _start(backend: str, timeout: float, rank: int, size: int, host: str, port: int) -> None:
    limit = timedelta(seconds=timeout)

    def start() -> None:
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
            return dist.init_process_group(backend, timeout=limit)
        # Torch itself would read the addresses of the start before (pytorch issue 135712).
        store = PrefixStore(_attempt(), TCPStore(host, port, size, False, limit))
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=limit)

    try:
        # Torch's own timeouts come first, except where it waits for an answer of a foreign program.
        within(timeout + 2, start)
        atexit.register(_end)
    except RuntimeError as error:
        text = str(error)
        if "EADDRINUSE" in text or "address already in use" in text.lower():
            raise RankError(
                f"port {port} is taken by another program; set MASTER_PORT to a free one"
            ) from error
        raise RankError(
            f"not all ranks met at port {port} within {timeout:g} s; is each running, and is the "
            f"port not another program's? ({text.splitlines()[0]})"
        ) from error


def _end() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
