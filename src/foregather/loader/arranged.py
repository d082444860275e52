"""arranged: decides a Loader's source, what part of its graph is in memory, and its bulk size.

Without `memory=` the graph is loaded if it fits; with a budget, what does not fit is read from disk
according to a plan.
"""

import contextlib
from dataclasses import dataclass
from dataclasses import replace as replaced
from typing import Literal

from foregather.errors import BudgetError, InputError
from foregather.graph.graph import Graph
from foregather.graph.load import fits, load_bytes
from foregather.loader.arguments import AT_LEAST_ONE
from foregather.loader.batch_recipe import BatchRecipe
from foregather.loader.memory.division import refusal
from foregather.loader.memory.layout import held_bytes
from foregather.loader.memory.resident import Home, parts_of, parts_over_ranks
from foregather.loader.memory.storage import Storage, arrange, fit_bulk
from foregather.loader.rank_options import GridOfRanks, RankSetup, RankSource
from foregather.loader.source import BatchSource, MemorySource
from foregather.observe.usable_memory import usable_memory
from foregather.units import format_bytes, parse_size

__all__ = ["DEFAULT_BULK", "Arranged", "arrange_alone", "arrange_over_ranks"]

DEFAULT_BULK = 8


@dataclass(frozen=True, slots=True, eq=False)
class Arranged:
    """The parts a Loader works with.

    Attributes:
        recipe: what batches are made of.
        home: holds the in-memory parts of the graph.
        source: makes the batches.
        bulk: batches sampled together.
        turns: whether loops share a budget, and so take turns.
        ranks: the source, if it is over ranks.
    """

    recipe: BatchRecipe
    home: Home
    source: BatchSource
    bulk: int
    turns: bool
    ranks: RankSource | None = None


def arrange_over_ranks(
    graph: Graph, recipe: BatchRecipe, grid: GridOfRanks, options: RankSetup
) -> Arranged:
    """Arranges a Loader over ranks; a collective call.

    Raises:
        InputError: an option breaks its rule, or the ranks differ.
        BudgetError: the memory is too small; the message states the minimum.
    """
    home = Home(graph, parts_over_ranks(recipe, options.topology))
    source = grid.batch_source(home.furnish(recipe), options)
    return Arranged(recipe, home, source, options.bulk, True, source)


def arrange_alone(
    graph: Graph,
    recipe: BatchRecipe,
    memory: str | int | None,
    bulk: int | Literal["auto"],
    prefetch: int,
    storage: Storage,
) -> Arranged:
    """Arranges a Loader in this process.

    Args:
        graph: as given.
        recipe: what batches are made of, over the mapped graph.
        memory: the budget, "auto", or None for all of the machine's memory.
        bulk: batches sampled together; "auto" chooses.
        prefetch: batches made ahead.
        storage: as requested by the user.

    Raises:
        InputError: `storage` needs a budget, or is not possible with this graph or sampler.
        BudgetError: `memory` is below the minimum, which the message states.
    """
    asked = None if bulk == "auto" else int(bulk)
    if memory is not None:
        room = usable_memory() if memory == "auto" else parse_size(memory)
        return _under_budget(graph, recipe, room, asked, prefetch, storage)
    if storage not in ("auto", "memory"):
        raise InputError(f"storage is {storage!r}; say with memory= how much may be used")
    parts = parts_of(recipe)
    if not fits(graph, parts):
        # read according to a plan if possible, otherwise used as mapped
        if storage == "auto" and not (recipe.disjoint and recipe.assembler.leaves != "rows"):
            with contextlib.suppress(BudgetError, InputError):
                return _under_budget(graph, recipe, usable_memory(), asked, prefetch, storage)
        parts = ()
    size = asked or DEFAULT_BULK
    return Arranged(recipe.narrowing(), Home(graph, parts), MemorySource(size), size, False)


def _under_budget(
    graph: Graph,
    recipe: BatchRecipe,
    memory: int,
    asked: int | None,
    prefetch: int,
    storage: Storage,
) -> Arranged:
    disk = arrange(recipe, memory, asked, prefetch, storage)
    if disk is not None:
        if prefetch == 0:
            if disk.topology is not None:
                disk.topology.close()
            raise InputError(f"prefetch is 0, but parts of the graph are on disk; {AT_LEAST_ONE}")
        layout = disk.layout
        recipe = recipe.reading_edges(layout.shares["edge features"])
        return Arranged(recipe, Home(graph, parts_of(recipe, layout)), disk, layout.bulk, True)
    parts, held, copied = parts_of(recipe), 0, 0
    if storage == "auto" and graph.path is not None:  # loaded, and all of it fits
        held = held_bytes(graph, recipe.assembler.edge_attr)
    elif storage == "auto":  # the rest of a changed copy cannot be read from disk
        held = copied = load_bytes(graph, parts)
    if held >= memory or (held == copied and not fits(graph, parts)):
        parts = ()
    home, steps = Home(graph, parts), len(recipe.seeds)
    loaded = home.furnish(recipe)
    default = asked or DEFAULT_BULK
    try:
        fitted, bulk = fit_bulk(loaded, memory - held, asked, prefetch, steps, default)
    except BudgetError as error:
        raise _too_large(memory, copied, error) if copied else error from None
    return Arranged(replaced(recipe, budget=fitted.budget), home, MemorySource(bulk), bulk, True)


def _too_large(memory: int, held: int, error: BudgetError) -> BudgetError:
    """The error for a copy that does not fit, since it cannot be read from disk."""
    least = held + (error.least or 0)
    return refusal(
        f"memory is {format_bytes(memory)} ({memory} bytes), but this graph, a copy with other "
        f"arrays of one from a folder, is read whole and needs {format_bytes(least)} ({least} "
        "bytes); give more, or save it and open the folder, which is then read by plan",
        least,
    )
