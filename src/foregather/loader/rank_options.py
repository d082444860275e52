"""rank_options: how a Loader works over ranks, as one value that goes all the way down.

A Loader does not know how ranks sample or exchange; it is given a grid, which makes its source of
batches.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast, get_args

from foregather.errors import InputError
from foregather.loader.batch_recipe import BatchRecipe
from foregather.loader.source import BatchSource
from foregather.units import parse_size

__all__ = [
    "BlockStorage",
    "GridOfRanks",
    "Mode",
    "RankOptions",
    "RankSetup",
    "RankSource",
    "Topology",
    "WireFormat",
    "rank_setup",
]

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


@dataclass(frozen=True, slots=True)
class RankOptions:
    """How the ranks of a Loader's `grid` work together; the same on all of them.

    Attributes:
        topology: "partitioned" holds a block of the neighbour lists on each rank, "replicated" all
            of them. Feature rows are always in blocks.
        mode: how ranks sample. "owner": one request and one reply a layer and bulk, and feature
            rows by plan. "paper": the staged 1.5D product of the publication, as a baseline.
        wire: feature rows cross "exact", or rounded to "float16" or "int8".
    """

    topology: Topology = "partitioned"
    mode: Mode = "owner"
    wire: WireFormat = "exact"


@dataclass(frozen=True, slots=True)
class RankSetup(RankOptions):
    """The same with all else that ranks must agree on.

    Attributes:
        storage: see `BlockStorage`.
        bulk: batches of a rank sampled together.
        memory: bytes for feature rows; None decides by the size of the blocks.
        prefetch: batches that a loop makes ahead; a loop that is left early goes on so far.
    """

    storage: BlockStorage = "auto"
    bulk: int = 8
    memory: int | None = None
    prefetch: int = 2

    def facts(self) -> dict[str, str]:
        """As texts that ranks compare."""
        return {
            "topology": self.topology,
            "mode": self.mode,
            "bulk": f"{self.bulk} batches",
            "memory": "not given" if self.memory is None else f"{self.memory} bytes",
            "wire": self.wire,
            "storage": self.storage,
            "prefetch": f"{self.prefetch} batches",
        }


class RankSource(BatchSource, Protocol):
    """A source over ranks; see `dist.rank_batches`."""

    def gather_ledger(self) -> dict[Any, Any]:
        """What all ranks sent; all ranks call this together."""


class GridOfRanks(Protocol):
    """The ranks of a run; see `dist.Grid`."""

    def batch_source(self, recipe: BatchRecipe, options: RankSetup) -> RankSource:
        """What a Loader makes its batches with; all ranks call this together."""


def rank_setup(
    recipe: BatchRecipe,
    ranks: RankOptions,
    bulk: int | Literal["auto"],
    memory: str | int | None,
    storage: str,
    prefetch: int = 2,
) -> RankSetup:
    """Checks what a Loader was given together with its grid.

    Raises:
        InputError: an argument does not go with a grid.
    """
    mode = ranks.mode
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
    if memory is not None and recipe.graph.features is None:
        raise InputError(
            "memory= with grid= is for feature rows of other ranks, but the graph has no features; "
            "leave it out"
        )
    if storage in ("features", "disk"):
        _check_disk(recipe, memory, storage)
    budget = None if memory is None else parse_size(memory)
    where = cast(BlockStorage, storage)
    return RankSetup(ranks.topology, mode, ranks.wire, where, bulk, budget, prefetch)


def _check_disk(recipe: BatchRecipe, memory: str | int | None, storage: str) -> None:
    graph = recipe.graph
    if memory is None:
        raise InputError(
            f"storage is {storage!r}; say with memory= how much each rank may use (mode='owner')"
        )
    if graph.path is None:
        raise InputError(
            f"storage is {storage!r}, but the graph is in memory; save it and open the folder"
        )
