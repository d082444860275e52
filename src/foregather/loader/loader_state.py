"""loader_state: the position of a Loader as a few numbers, tied to what its batches depend on."""

from collections.abc import Mapping
from typing import Any

from foregather.errors import InputError
from foregather.loader.batch_recipe import BatchRecipe
from foregather.loader.seeds import MOST_EPOCH, MOST_SEED
from foregather.sampling.identity import identity_of
from foregather.units import to_whole

__all__ = ["NOT_COMPARED", "identity", "read_position"]

NOT_COMPARED = "not compared: "


def identity(maker: BatchRecipe, ranks: int | None) -> dict[str, Any]:
    """Everything that batches depend on, except the position and the seed."""
    seeds = maker.seeds
    try:
        rule = f"{'disjoint ' if maker.disjoint else ''}{identity_of(maker.sampler)}"
    except InputError as error:  # training works, but the position cannot be restored
        rule = f"{NOT_COMPARED}{error}"
    return {
        "graph": maker.graph.digest,
        "sampler": rule,
        "batch_size": seeds.batch_size,
        "shuffle": seeds.shuffle if isinstance(seeds.shuffle, bool) else str(seeds.shuffle),
        "drop_last": seeds.drop_last,
        "input_nodes": seeds.digest,
        **({} if ranks is None else {"ranks": ranks}),
        **({} if maker.replay == 1 else {"replay": maker.replay}),
    }


def read_position(
    state: Mapping[str, Any], mine: Mapping[str, Any], steps: int
) -> tuple[int, int, int]:
    """Reads epoch, batch and seed of a saved state.

    Raises:
        InputError: the state belongs to other batches, or its position does not exist.
    """
    if not isinstance(state, Mapping):
        raise InputError(f"the state is {state!r:.80}, expected the result of state_dict()")
    for name, value in mine.items():
        if str(value).startswith(NOT_COMPARED):
            raise InputError(str(value).removeprefix(NOT_COMPARED))
        if state.get(name) != value:
            raise InputError(
                f"the state was saved with {name} {state.get(name)!r}, but this loader has "
                f"{value!r}; create the loader with the same arguments"
            )
    most = {"epoch": MOST_EPOCH, "batch": MOST_EPOCH, "seed": MOST_SEED}
    epoch, batch, seed = (
        to_whole(state.get(name), f"{name} of the state", 0, most[name]) for name in most
    )
    if batch > steps:
        raise InputError(f"the state is at batch {batch} of epoch {epoch}, which does not exist")
    return epoch, batch, seed
