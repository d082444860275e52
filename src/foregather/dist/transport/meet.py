"""meet: lets the ranks of a run meet at the store and start torch.distributed; names missing ranks.

Rank 0 holds the store, or torchrun does. Each rank announces itself and waits for the others, so
that after the timeout all know which ranks are missing.
"""

import atexit
import os
import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined] # not in __all__

from foregather.dist.transport.call_timeout import cut_links, within
from foregather.dist.transport.liveness import BEAT, Watch
from foregather.errors import InputError, RankError

__all__ = ["attempt", "environment", "meet", "start"]

_POLL = 0.02  # seconds between two checks for the others
_LAST = 5.0  # seconds for the others to read who is missing

_kept: list[Any] = []  # rank 0's store lives as long as the process


def environment() -> tuple[int, int, str, int]:
    """Returns rank, number of ranks, and the store's address, from torchrun's environment.

    Raises:
        InputError: it is incomplete.
    """
    try:
        rank, size, host, port = (
            os.environ[name] for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        )
        return int(rank), int(size), host, int(port)
    except KeyError as error:
        raise InputError(f"{error.args[0]} is not set; start the ranks with torchrun") from error
    except ValueError as error:
        raise InputError(f"RANK, WORLD_SIZE or MASTER_PORT is not a number: {error}") from error


def attempt() -> str:
    """The prefix of all keys of this start.

    Torchrun keeps its store, with its contents, on a restart.
    """
    return f"foregather/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}"


def meet(timeout: float) -> Any:
    """Returns the store once all ranks have arrived.

    Raises:
        InputError: this process was not started by torchrun.
        RankError: some did not arrive within the timeout, or the port is taken.
    """
    rank, size, host, port = environment()
    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    limit = timedelta(seconds=timeout)

    def connect() -> Any:
        holds = rank == 0 and not agent
        return TCPStore(host, port, size, holds, limit, wait_for_workers=False)

    try:
        # Torch's own timeout comes first, except where it waits for a foreign program's answer.
        store = within(timeout + 2, connect, lambda: cut_links(host, port))
    except RuntimeError as error:
        text = str(error)
        if "EADDRINUSE" in text or "address already in use" in text.lower():
            raise RankError(
                f"port {port} is taken by another program; set MASTER_PORT to a free one"
            ) from error
        holder = "torchrun's store" if agent else "rank 0, which holds the store,"
        raise RankError(
            f"rank {rank} did not meet {holder} at port {port} within {timeout:g} s; is it "
            f"running, and is the port not another program's? ({text.splitlines()[0]})"
        ) from error
    _kept.append(store)
    try:
        gather = PrefixStore(f"{attempt()}/meet", store)
        missing = within(timeout + 2 + _LAST, lambda: _missing(gather, rank, size, timeout))
    except RuntimeError as error:
        raise RankError(f"the store at port {port} went away while ranks were meeting") from error
    if missing:
        raise RankError(
            f"rank {missing} did not arrive at port {port} within {timeout:g} s; see its log for "
            "the "
            "cause, or raise the timeout"
        )
    return store


def _missing(store: Any, rank: int, size: int, timeout: float) -> str:
    """The missing ranks, as reported by the first that gave up; empty if there are none."""
    keys = [f"here/{r}" for r in range(size)]
    store.set(keys[rank], "1")
    end = time.monotonic() + timeout
    while not store.check(keys) and not store.check(["missing"]):
        if time.monotonic() >= end:
            absent = [str(r) for r, key in enumerate(keys) if not store.check([key])]
            store.compare_set("missing", "", ", ".join(absent))
            break
        time.sleep(_POLL)
    if not store.check(["missing"]):
        return ""
    found = str(store.get("missing").decode())
    store.set(f"knows/{rank}", "1")
    here = [f"knows/{r}" for r, key in enumerate(keys) if store.check([key])]
    end = time.monotonic() + (_LAST if rank == 0 else 0.0)  # whoever holds the store goes last
    while not store.check(here) and time.monotonic() < end:
        time.sleep(_POLL)
    time.sleep(BEAT if rank == 0 else 0.0)
    return found


def start(backend: str, store: Any, watch: Watch) -> None:
    """Starts torch.distributed.

    Raises:
        RankError: a rank went away meanwhile.
    """
    limit = timedelta(seconds=watch.timeout)
    own = PrefixStore(f"{attempt()}/torch", store)
    with watch.step("starting torch.distributed"):
        dist.init_process_group(
            backend, store=own, rank=watch.rank, world_size=watch.size, timeout=limit
        )
    atexit.register(_end)


def _end() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
