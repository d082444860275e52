"""link_settings: the options of runs that predict links."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from foregather.errors import InputError

if TYPE_CHECKING:
    from foregather.train.settings.settings import Settings

__all__ = ["LinkSettings", "check_link"]


@dataclass(frozen=True)
class LinkSettings:
    """Which links are learned, and how they are scored; of no effect without train.task = link."""

    relation: str = ""
    """The relation to predict, "SOURCE, RELATION, TARGET"; empty: the only one with links; "*": all
    that join the same two types, told apart by the decoder distmult (a knowledge graph)."""
    decoder: Literal["dot", "bilinear", "distmult", "hadamard", "mlp"] = "dot"
    """From the rows of two nodes to a score; bilinear and mlp tell the two ends apart."""
    loss: Literal["bce", "bpr", "margin", "softmax"] = "bce"
    """bce: every score by itself; bpr, margin, softmax: a link against its own negatives."""
    margin: float = 1.0
    """By how much a link should score higher, for margin."""
    negatives: int = 1
    """Negatives per link in training."""
    mode: Literal["triplet", "binary"] = "triplet"
    """triplet: other targets of the same source; binary: both ends are drawn."""
    exclude: Literal["none", "positives"] = "none"
    """positives: what is known to be linked is never drawn as a negative."""
    exclude_seed_edges: bool = True
    """The links of a batch are no edges in its message passing;
    --link.no-exclude-seed-edges leaves them in."""
    both_ends: bool = False
    """Also learn, and rank, the sources of targets; for links between nodes of one type."""
    candidates: Literal["auto", "given", "sampled", "all"] = "auto"
    """What links are compared with in evaluation: given with them, sampled, or all targets. auto:
    given ones where there are; else sampled for roc_auc and average_precision, all for ranks."""
    sampled: int = 1
    """Sampled candidates per link in evaluation."""
    filtered: bool = True
    """Targets that are known to be right (in any split, or as edges) are no candidates;
    --link.no-filtered ranks against them too."""
    embedding_decay: float = 0.0
    """Penalty on the squares of the learned rows of a batch, per link (lightgcn, distmult)."""


def check_link(settings: "Settings") -> None:
    """Refuses combinations that no run can have.

    Raises:
        InputError: the message has the key, what was given and what to do.
    """
    wanted = settings.link
    for name, least in (("negatives", 1), ("sampled", 1)):
        if getattr(wanted, name) < least:
            raise InputError(f"link.{name} is {getattr(wanted, name)}, expected {least} or more")
    for name in ("margin", "embedding_decay"):
        value = getattr(wanted, name)
        if not (math.isfinite(value) and value >= 0):
            raise InputError(f"link.{name} is {value}, expected a number of 0 or more")
    if wanted.mode == "binary" and wanted.loss != "bce":
        raise InputError(
            f"link.loss is {wanted.loss!r}, which compares a link with negatives of its own, but "
            "link.mode is 'binary', whose negatives have both ends drawn; use triplet, or bce"
        )
    if settings.train.task != "link":
        usual = LinkSettings()
        for name in LinkSettings.__dataclass_fields__:
            if getattr(wanted, name) != getattr(usual, name):
                raise InputError(
                    f"link.{name} is {getattr(wanted, name)!r}, but train.task is "
                    f"{settings.train.task!r}; set train.task to link, or leave it out"
                )
