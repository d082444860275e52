"""unused_settings: what was set and has no effect in a run, which says so when it begins.

A config may serve several runs, so such a setting is no error; nobody should wait for its effect.
"""

from dataclasses import asdict

from foregather.errors import InputError
from foregather.train.metrics import Labelled
from foregather.train.settings import Settings, TrainSettings

__all__ = ["check_named_splits", "unused_settings"]

_SAMPLED = (
    *("sampler.kind", "sampler.replace", "sampler.norm", "sampler.replay", "sampler.options"),
    *("train.batch_size", "train.evaluate", "train.final", "memory.bulk", "memory.prefetch"),
    *("train.accelerate", "train.precision"),
    *("grid.replication", "grid.topology", "grid.mode", "grid.wire"),
)
_STALE = ("reshuffle", "refresh", "factor", "first_sweep", "measure", "error", "cosine")
_BETWEEN = ("boundary", "boundary_rate", "initial_again")
_RANKS = ("replication", "topology", "mode", "wire", "weights")


def unused_settings(settings: Settings, ranks: int, typed: bool = False) -> list[str]:
    """The settings that differ from their defaults without effect, a sentence each.

    Args:
        settings: the settings.
        ranks: number of ranks.
        typed: the graph has node types.
    """
    told: dict[str, str] = {}
    found = (*_of_links(settings), *_of_types(settings, typed), *_without_effect(settings, ranks))
    for keys, why in found:
        for key in keys:
            given, usual = (_value(one, key) for one in (settings, Settings()))
            if given != usual:
                told.setdefault(key, f"{key} is {given!r}, which has no effect {why}")
    return list(told.values())


def _without_effect(settings: Settings, ranks: int) -> list[tuple[tuple[str, ...], str]]:
    """Keys, and why what they say does not matter here."""
    full = settings.full_graph
    found: list[tuple[tuple[str, ...], str]] = []
    if settings.train.method == "full-graph":
        found.append((_SAMPLED, "in full-graph training"))
        if settings.model.layers:
            found.append((("sampler.fanouts",), "in full-graph training with model.layers"))
        if full.chunks:
            planner = ("full_graph.memory", "full_graph.timeline")
            found.append((planner, "where full_graph.chunks leaves the planner nothing to choose"))
        else:
            chosen = ("full_graph.ways", "full_graph.split")
            found.append((chosen, "where full_graph.chunks is 0 and the planner chooses"))
        if full.mode == "exact":
            found.append((_of("full_graph", _STALE), "in mode exact, which reads no old rows"))
        elif full.measure == 0:
            bounds = ("full_graph.error", "full_graph.cosine")
            found.append((bounds, "where staleness is not measured"))
        if ranks == 1:
            found.append((_of("full_graph", _BETWEEN), "on one rank"))
    else:
        every = tuple(asdict(full))
        found.append((_of("full_graph", every), "in sampled training (train.method)"))
        if not settings.train.valid:
            found.append((("train.patience", "train.evaluate"), "without a split train.valid"))
    if ranks == 1:
        found.append((_of("grid", _RANKS), "on one rank"))
    return found


def _of_links(settings: Settings) -> list[tuple[tuple[str, ...], str]]:
    """Keys without effect in a run on links."""
    if settings.train.task != "link":
        return []
    found: list[tuple[tuple[str, ...], str]] = [
        (("train.accelerate", "train.loss", "sampler.replay"), "in a run on links")
    ]
    if settings.model.kind in ("lightgcn", "distmult"):
        why = f"with {settings.model.kind}, which samples nothing and is always scored exactly"
        sampled = ("sampler.kind", "sampler.fanouts", "sampler.replace", "sampler.norm")
        more: tuple[str, ...] = (
            "train.evaluate",
            "train.final",
            "model.dropout",
            "memory.bulk",
            "memory.prefetch",
        )
        more = (*more, "memory.storage", "link.exclude_seed_edges")
        found.append(((*sampled, *more, "grid.topology", "grid.mode", "grid.wire"), why))
        if settings.model.kind == "distmult":
            found.append((("model.layers",), "with distmult, which has no layers"))
    if settings.link.loss != "margin":
        found.append((("link.margin",), "with a loss other than margin"))
    return found


def _of_types(settings: Settings, typed: bool) -> list[tuple[tuple[str, ...], str]]:
    """Keys without effect on a typed graph, or on a plain one."""
    if not typed:
        return [(_of("typed", tuple(asdict(settings.typed))), "on a plain graph")]
    found: list[tuple[tuple[str, ...], str]] = [(("sampler.replay",), "on a typed graph")]
    if ":" not in settings.model.kind:
        why = "on a typed graph with a model by name, which trims batches itself"
        found.append((("train.accelerate",), why))
    if settings.typed.fanouts:
        found.append((("sampler.fanouts",), "where typed.fanouts has those of relations"))
    if settings.typed.time != "none":
        found.append((("typed.disjoint",), "with typed.time, since trees with times are disjoint"))
    return found


def _of(section: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{section}.{key}" for key in keys)


def _value(settings: Settings, key: str) -> object:
    section, name = key.split(".")
    return getattr(getattr(settings, section), name)


def check_named_splits(graph: Labelled, train: TrainSettings) -> None:
    """Refuses the name of a split that the graph does not have, unless it is the usual one.

    Raises:
        InputError: the message has the setting and the splits that exist.
    """
    usual = TrainSettings()
    for key in ("valid", "test"):
        name = getattr(train, key)
        if not name or name == getattr(usual, key):
            continue
        try:
            graph.split(name)
        except InputError as error:
            raise InputError(f"train.{key} is {name!r}, but {error}; or leave it out") from None
