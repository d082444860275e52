"""rank_options: the options of a Loader over ranks, as one value.

A Loader does not know how ranks sample or exchange; the grid it gets makes its source of batches.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast, get_args

from foregather.errors import InputError
from foregather.loader.batch_recipe import BatchRecipe
from foregather.loader.source import BatchSource
from foregather.sampling.fused import leaves_out_anywhere
from foregather.units import format_number, parse_size

__all__ = [
    "BlockStorage",
    "GridOfRanks",
    "LeafWire",
    "Mode",
    "RankOptions",
    "RankSetup",
    "RankSource",
    "Topology",
    "WireFormat",
    "rank_setup",
]

#: Whether every rank holds all neighbour lists, or only those of its block.
Topology = Literal["partitioned", "replicated"]

#: "owner": one request and one reply per layer and bulk, `Neighbor` and `Labor` sampled by the
#: owner of the row, and planned feature rows. "paper": the staged 1.5D product of the paper and one
#: all-to-allv of feature rows per minibatch, as a baseline.
Mode = Literal["owner", "paper"]

#: Where a rank's feature block is: "memory"; "features" or "disk": in its own disk store, read
#: according to a plan (neighbour lists stay in memory, in blocks); "auto": in memory if it fits in
#: `memory=` together with what rows of other ranks need, otherwise on disk.
BlockStorage = Literal["auto", "memory", "features", "disk"]

#: The format in which feature rows are sent: as stored, or float32 rows rounded.
WireFormat = Literal["exact", "float16", "int8"]

#: How rows of leaves cross that are only added up.
LeafWire = Literal["rows", "auto"]


@dataclass(frozen=True, slots=True)
class RankOptions:
    """How the ranks of a Loader's `grid` work together; the same on all of them.

    Attributes:
        topology: "partitioned" holds a block of the neighbour lists on each rank, "replicated" all
            of them. Feature rows are always in blocks.
        mode: how ranks sample. "owner": one request and one reply a layer and bulk, and feature
            rows by plan. "paper": the staged 1.5D product of the publication, as a baseline.
        wire: feature rows cross "exact", or rounded to "float16" or "int8".
        leaves: with `BatchContents(leaves="sum")` or "weighted": how the rows of leaves cross.
            "rows": as they are; sums are then those of one rank, bit for bit. "auto": bulk by bulk
            as rows, or as sums that their owners form where these are fewer bytes. Sums are then
            formed owner by owner: the same for any bulk, memory and threads, but other last bits
            than on one rank, or than on a grid with other blocks.
    """

    topology: Topology = "partitioned"
    mode: Mode = "owner"
    wire: WireFormat = "exact"
    leaves: LeafWire = "rows"


@dataclass(frozen=True, slots=True)
class RankSetup(RankOptions):
    """The same with all else that ranks must agree on.

    Attributes:
        storage: see `BlockStorage`.
        bulk: batches sampled together on each rank.
        memory: bytes for feature rows; None decides by the size of the blocks.
        prefetch: batches that a loop makes ahead; a loop that is left early still makes these.
    """

    storage: BlockStorage = "auto"
    bulk: int = 8
    memory: int | None = None
    prefetch: int = 2

    def facts(self) -> dict[str, str]:
        """The options as texts that ranks compare."""
        return {
            "topology": self.topology,
            "mode": self.mode,
            "bulk": format_number(self.bulk, "batch"),
            "memory": "not given" if self.memory is None else f"{self.memory} bytes",
            "wire": self.wire,
            "leaves": self.leaves,
            "storage": self.storage,
            "prefetch": format_number(self.prefetch, "batch"),
        }


class RankSource(BatchSource, Protocol):
    """A source over ranks; see `dist.rank_batches`."""

    def gather_ledger(self) -> dict[Any, Any]:
        """What all ranks sent; a collective call."""


class GridOfRanks(Protocol):
    """The ranks of a run; see `dist.Grid`."""

    def batch_source(self, recipe: BatchRecipe, options: RankSetup) -> RankSource:
        """Makes a Loader's source of batches; a collective call."""


def rank_setup(
    recipe: BatchRecipe,
    ranks: RankOptions,
    bulk: int | Literal["auto"],
    memory: str | int | None,
    storage: str,
    prefetch: int = 2,
) -> RankSetup:
    """Checks the arguments of a Loader with a grid.

    Raises:
        InputError: an argument does not work with a grid.
    """
    mode = ranks.mode
    if storage not in get_args(BlockStorage):
        raise InputError(
            f"storage is {storage!r}, which does not work with grid=: neighbour lists of ranks are "
            "in memory; use storage='features'"
        )
    if bulk == "auto" or memory == "auto":
        raise InputError(
            "bulk='auto' and memory='auto' do not work with grid=; pass numbers, equal on all ranks"
        )
    if mode == "paper" and storage in ("features", "disk"):
        raise InputError(
            f"storage is {storage!r}, but mode 'paper' keeps feature blocks in memory; use "
            "mode='owner'"
        )
    if memory is not None and mode == "paper":
        raise InputError(
            "mode is 'paper', which keeps no rows of other ranks; leave memory= out, or use "
            "mode='owner'"
        )
    if memory is not None and recipe.graph.features is None:
        raise InputError(
            "memory= with grid= is for feature rows of other ranks, but the graph has no features; "
            "leave it out"
        )
    if ranks.wire != "exact" and recipe.graph.features is None:
        raise InputError(
            f"wire is {ranks.wire!r}, the format of feature rows between ranks, but the graph has "
            "no features; leave it out"
        )
    if recipe.disjoint and ranks.topology == "partitioned" and mode == "paper":
        raise InputError(
            "disjoint=True samples each tree by itself, and mode 'paper' multiplies whole batches; "
            "use mode='owner'"
        )
    if recipe.leaves_out and ranks.topology == "partitioned":
        _check_leaving_out(recipe, mode)
    if storage in ("features", "disk"):
        _check_disk(recipe, memory, storage)
    _check_leaves(recipe, ranks)
    budget = None if memory is None else parse_size(memory)
    where = cast(BlockStorage, storage)
    shared = (ranks.topology, mode, ranks.wire, ranks.leaves)
    return RankSetup(*shared, where, bulk, budget, prefetch)


def _check_leaving_out(recipe: BatchRecipe, mode: str) -> None:
    if mode == "paper" or not leaves_out_anywhere(recipe.sampler):
        raise InputError(
            "batches of links leave these out of what is sampled, and from neighbour lists that "
            "are partitioned over ranks only a uniform Neighbor and Labor do, with mode='owner'; "
            "use ranks=RankOptions(topology='replicated'), or exclude_seed_edges=False"
        )


def _check_leaves(recipe: BatchRecipe, ranks: RankOptions) -> None:
    if ranks.leaves not in get_args(LeafWire):
        raise InputError(f"leaves of ranks is {ranks.leaves!r}, expected 'rows' or 'auto'")
    if ranks.leaves == "rows":
        return
    given = "leaves of ranks is 'auto'"
    if recipe.assembler.leaves == "rows":
        raise InputError(
            f"{given}, but batches have the rows of leaves; use BatchContents(leaves='sum'), or "
            "leave it out"
        )
    if ranks.mode == "paper":
        raise InputError(f"{given}, but mode 'paper' sends rows; use mode='owner', or leave it out")
    if ranks.wire != "exact":
        raise InputError(
            f"{given}, but wire is {ranks.wire!r}, which rounds rows and not sums, so that they "
            "would differ; use wire='exact', or leave it out"
        )


def _check_disk(recipe: BatchRecipe, memory: str | int | None, storage: str) -> None:
    graph = recipe.graph
    if memory is None:
        raise InputError(
            f"storage is {storage!r}; set each rank's budget with memory= (mode='owner')"
        )
    if graph.path is None:
        raise InputError(
            f"storage is {storage!r}, but the graph is in memory; save it and open the folder"
        )
