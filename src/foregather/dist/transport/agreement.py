"""agreement: compares through the store, before work starts, what must be equal on all ranks.

Each rank posts its facts, a text for each name; all read all of them, so all raise the same error.
A rank that exits before it has posted is named at once, not after the timeout.
"""

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from foregather.dist.transport.call_timeout import within
from foregather.errors import InputError, RankError

if TYPE_CHECKING:
    from foregather.dist.transport.rank_grid import RankGrid

__all__ = ["agree"]

_POLL = 0.02  # seconds between two checks for the facts of others
_ABSENT = 1.0  # seconds between two checks for dead ranks


def agree(grid: "RankGrid", key: str, facts: Mapping[str, str]) -> None:
    """Checks that all ranks have the same facts.

    Args:
        grid: the ranks; all of them call this together.
        key: of the store; the same on all ranks, and used once.
        facts: what is compared, by name.

    Raises:
        InputError: they differ; the same on every rank.
        RankError: a rank does not answer within the timeout, or is gone.
    """
    names = _short(", ".join(facts))
    try:
        posted = within(grid.timeout + 5, lambda: _exchange(grid, key, facts, names))
    except RankError as absent:
        raise grid.watch.condemn(str(absent)) from absent
    except RuntimeError as error:
        raise grid.watch.store_lost(f"comparing the {names}") from error
    different = [
        name for name in posted[0] if any(part.get(name) != posted[0][name] for part in posted)
    ]
    # The holder of the store continues last: otherwise it might exit first.
    grid.watch.linger([f"{key}/{rank}/read" for rank in range(grid.size)])
    if different:
        raise InputError(_sentence(different, posted))


def _sentence(different: list[str], posted: list[dict[str, str]]) -> str:
    name, *more = different
    values = [part.get(name, "nothing") for part in posted]
    have = ", ".join(
        f"rank {rank} has {_short(value)}"
        for rank, value in enumerate(values)
        if rank == 0 or value != values[0]
    )
    also = f" (and in the {', '.join(more)})" if more else ""
    return f"the ranks differ in the {name}: {have}{also}; start all with the same"


def _exchange(
    grid: "RankGrid", key: str, facts: Mapping[str, str], names: str
) -> list[dict[str, str]]:
    """The facts of all ranks, in their order."""
    store, timeout = grid.watch.store, grid.timeout
    keys = [f"{key}/{rank}" for rank in range(grid.size)]
    store.set(keys[grid.rank], json.dumps(facts))
    end, look = time.monotonic() + timeout, time.monotonic() + _ABSENT
    while not store.check(keys):
        now = time.monotonic()
        missing = [rank for rank, one in enumerate(keys) if not store.check([one])]
        if now >= look:
            look = now + _ABSENT
            if gone := grid.watch.gone(missing):
                raise RankError(f"{gone}, before it posted its {names}")
        if now >= end and missing:
            raise RankError(
                f"rank {', '.join(map(str, missing))} did not post its {names} within {timeout:g} "
                "s; see its log for the cause"
            )
        time.sleep(_POLL)
    posted = [json.loads(store.get(one)) for one in keys]
    store.set(f"{keys[grid.rank]}/read", "1")
    return posted


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:140]} ... {text[-40:]}"
