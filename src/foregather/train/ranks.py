"""ranks: what a Loader asks of the ranks it runs on; `foregather.dist` answers.

A Loader does not know how ranks sample or exchange; it is given a grid, which deals out batches.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, get_args

from foregather.errors import InputError
from foregather.train.seeds import Seeds
from foregather.units import parse_size

if TYPE_CHECKING:
    from foregather.train.maker import Maker

__all__ = ["BlockStorage", "Dealer", "Mode", "RankGrid", "Topology", "WireFormat", "join"]

#: Whether every rank holds all neighbour lists, or those of its block only.
Topology = Literal["partitioned", "replicated"]

#: "owner": one request and one reply a layer and bulk, picks of `Neighbor` and `Labor` made by the
#: owner of the row, and feature rows by plan. "paper": the staged 1.5D product of the publication
#: and an all-to-allv of feature rows a minibatch, as a baseline.
Mode = Literal["owner", "paper"]

#: Where a rank's feature block is: "memory"; "features" or "disk": in its own disk store, read by
#: plan (neighbour lists stay in memory, in blocks); "auto": in memory where `memory=` has room for
#: it, beside what rows of other ranks need, and else on disk.
BlockStorage = Literal["auto", "memory", "features", "disk"]

#: What feature rows are while they cross: as stored, or float32 rows rounded.
WireFormat = Literal["exact", "float16", "int8"]


class Dealer(Protocol):
    """Makes this rank's batches; see `dist.over_ranks.OverRanks`."""

    @property
    def size(self) -> int:
        """Ranks."""

    def steps(self, seeds: Seeds) -> int:
        """Steps of an epoch, the same on all ranks."""

    def batches(
        self, maker: "Maker", epoch: int, first: int, prefetch: int
    ) -> Generator[Any, None, None]:
        """Batches of the steps `first` to the last."""

    def gather_ledger(self) -> dict[Any, Any]:
        """What all ranks sent; all ranks call this together."""

    def counters(self) -> dict[str, Any]:
        """Rows this rank used, and bytes it sent, so far."""

    def explain(self) -> str:
        """How rows cross, and what crossed so far."""

    def close(self) -> None:
        """Lets other ranks have what they count on, and ends threads; all ranks call this."""


class RankGrid(Protocol):
    """The ranks of a run; see `dist.Grid`."""

    def deal(
        self,
        maker: "Maker",
        topology: Topology,
        mode: Mode,
        bulk: int,
        memory: int | None,
        wire: WireFormat,
        storage: BlockStorage,
        prefetch: int,
    ) -> Dealer:
        """What a Loader makes its batches with; all ranks call this together."""


def join(
    grid: RankGrid,
    maker: "Maker",
    bulk: int | Literal["auto"],
    memory: str | int | None,
    wire: WireFormat,
    topology: Topology,
    mode: Mode,
    storage: str,
    prefetch: int = 2,
) -> Dealer:
    """Checks what a Loader was given beside its grid, and lets the grid deal.

    Raises:
        InputError: an argument does not go with a grid.
        BudgetError: `memory` is too small; the message says the minimum.
    """
    if storage not in get_args(BlockStorage):
        raise InputError(
            f"storage is {storage!r}, which does not go with grid=: neighbour lists of ranks are "
            "in memory; use storage='features'"
        )
    if bulk == "auto" or memory == "auto":
        raise InputError(
            "bulk='auto' and memory='auto' do not go with grid=; give numbers, equal on all ranks"
        )
    if mode == "paper" and storage in ("features", "disk"):
        raise InputError(
            f"storage is {storage!r}, but mode 'paper' keeps feature blocks in memory; use "
            "mode='owner'"
        )
    if memory is not None and mode == "paper":
        raise InputError(
            "mode is 'paper', which keeps no rows of other ranks; leave memory= out, or take "
            "mode='owner'"
        )
    if memory is not None and maker.graph.features is None:
        raise InputError(
            "memory= with grid= is for feature rows of other ranks, but the graph has no features; "
            "leave it out"
        )
    if storage in ("features", "disk"):
        _check_disk(maker, memory, storage)
    budget = None if memory is None else parse_size(memory)
    where = cast(BlockStorage, storage)
    return grid.deal(maker, topology, mode, bulk, budget, wire, where, prefetch)


def _check_disk(maker: "Maker", memory: str | int | None, storage: str) -> None:
    graph = maker.graph
    if memory is None:
        raise InputError(
            f"storage is {storage!r}; say with memory= how much each rank may use (mode='owner')"
        )
    if graph.path is None:
        raise InputError(
            f"storage is {storage!r}, but the graph is in memory; save it and open the folder"
        )
