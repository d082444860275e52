"""typed_settings: the options of runs on graphs with node types, relations and times."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from foregather.errors import InputError

if TYPE_CHECKING:
    from foregather.train.settings.settings import Settings

__all__ = ["TypedSettings", "check_typed"]


@dataclass(frozen=True)
class TypedSettings:
    """Graphs with node types, relations and times; of no effect on plain graphs."""

    target: str = ""
    """The node type to classify; empty: the only one with labels and the training split."""
    time: Literal["none", "node", "edge"] = "none"
    """Whose times limit what the tree of a seed may see: those of nodes or of edges."""
    seed_time: str = ""
    """The time of each seed: a feature array of the target type (whole numbers); empty: the node's
    own time."""
    temporal_strategy: Literal["uniform", "last"] = "uniform"
    """Neighbours drawn among those that a tree may see, or the last of them."""
    disjoint: bool = False
    """A tree of its own for each seed; always so with times."""
    encode_time: bool = False
    """Models by name also see how long before the seed's time each node came to be."""
    fanouts: dict[str, Any] = field(default_factory=dict)
    """Fan-outs by relation, "SOURCE, RELATION, TARGET" = [10, 5], instead of sampler.fanouts; "*"
    for all others. In the config file."""


def check_typed(settings: "Settings") -> None:
    """Refuses combinations that no run can have.

    Raises:
        InputError: the message has the key, what was given and what to do.
    """
    wanted = settings.typed
    if wanted.time != "none":
        return
    usual = TypedSettings()
    for name in ("seed_time", "temporal_strategy", "encode_time"):
        value = getattr(wanted, name)
        if value != getattr(usual, name):
            raise InputError(
                f"typed.{name} is {value!r}, but typed.time is 'none', so times are not looked at; "
                "set typed.time to node or edge"
            )
