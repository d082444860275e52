"""check_links: what a run on links refuses, tries and says before it starts."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from foregather.errors import ForegatherError, InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.nn.hetero.schema import Schema
from foregather.nn.links.encoders import PlainEncoder
from foregather.nn.links.lookup import Lookup
from foregather.nn.links.model import LinkModel, links_of
from foregather.train.hetero.describe_arrays import describe_arrays
from foregather.train.hetero.make import check_offered
from foregather.train.links.link_data import LinkData, show_relation
from foregather.train.links.make_links import (
    LOOKUPS,
    check_kind,
    is_lookup,
    relation_of,
    training_links,
)
from foregather.train.settings import GridSettings, Settings, TypedSettings
from foregather.units import format_bytes, format_count

if TYPE_CHECKING:
    from foregather.train.trainers.linking import LinkTrainer

__all__ = ["check_call", "check_link_run", "describe_run", "link_schema"]

_SAMPLERS = ("neighbor", "labor", "full")
_TYPED_SAMPLERS = ("neighbor", "labor")
#: What a model raises that is called with something else than it expects.
_NOT_CALLABLE = (RuntimeError, ValueError, TypeError, AssertionError, LookupError, AttributeError)


def check_link_run(settings: Settings, ranks: int, typed: bool) -> None:
    """Refuses what runs on links do not have.

    Raises:
        InputError: the message has the setting, and what to do.
    """
    if ranks > 1:
        _check_ranks(settings, ranks, typed)
    if settings.train.method != "sampled":
        raise InputError("train.method is 'full-graph', which is for nodes; leave it out for links")
    check_kind(settings, typed)
    if is_lookup(settings):
        _check_lookup(settings)
    elif settings.link.embedding_decay:
        raise InputError(
            f"link.embedding_decay is {settings.link.embedding_decay}, which is for the models "
            f"{' and '.join(LOOKUPS)}; use optimizer.weight_decay"
        )
    elif typed:
        check_offered(settings, 1)  # ranks differ by nothing else
        if settings.sampler.kind not in _TYPED_SAMPLERS:
            raise InputError(
                f"sampler.kind is {settings.sampler.kind!r}, but batches of links of typed graphs "
                f"are sampled by {' and '.join(_TYPED_SAMPLERS)}; use one of them"
            )
    if not typed and settings.sampler.kind not in _SAMPLERS and ":" not in settings.sampler.kind:
        raise InputError(
            f"sampler.kind is {settings.sampler.kind!r}, but batches of links are sampled by "
            f"{', '.join(_SAMPLERS)} or your own module:Class"
        )
    if not typed and settings.typed != TypedSettings():
        raise InputError("[typed] is for graphs with node types, but this graph is plain")
    for name in ("target", "seed_time", "encode_time"):
        if getattr(settings.typed, name) != getattr(TypedSettings(), name):
            raise InputError(
                f"typed.{name} is {getattr(settings.typed, name)!r}, which is for tasks of nodes; "
                "leave it out: links have their own ends and times"
            )


def _check_ranks(settings: Settings, ranks: int, typed: bool) -> None:
    """Refuses what runs on links do not have over ranks."""
    if typed and not is_lookup(settings):
        usual, given = GridSettings(), settings.grid
        if given.topology == "partitioned":
            raise InputError(
                f"grid.topology is 'partitioned', but each of {ranks} ranks has all of a graph "
                "with node types in memory; leave it out"
            )
        for name in ("mode", "wire", "replication"):
            if getattr(given, name) != getattr(usual, name):
                raise InputError(
                    f"grid.{name} is {getattr(given, name)!r}, but ranks that train on a graph "
                    "with node types send no samples and no rows; leave it out"
                )
    if settings.grid.weights != "replicated":
        raise InputError(
            f"grid.weights is {settings.grid.weights!r}, but links are scored with all weights on "
            "each rank; leave it out"
        )


def _check_lookup(settings: Settings) -> None:
    """Refuses what a model of learned rows has no use for."""
    kind, wanted = settings.model.kind, settings.link
    if settings.typed != TypedSettings():
        odd = next(
            name
            for name, value in asdict(settings.typed).items()
            if value != asdict(TypedSettings())[name]
        )
        raise InputError(
            f"typed.{odd} is set, but {kind} has learned rows alone and samples nothing; leave it "
            "out, or use another model"
        )
    if kind == "distmult" and wanted.decoder not in ("dot", "distmult"):
        raise InputError(
            f"link.decoder is {wanted.decoder!r}, but model.kind is 'distmult', which has its own; "
            "leave it out"
        )
    if settings.memory.budget != "none":
        raise InputError(
            f"memory.budget is {settings.memory.budget!r}, but {kind} keeps all rows in memory; "
            "leave it out"
        )


class _Target:
    """The target type of links, as `describe_arrays` expects a task."""

    def __init__(self, target: str, classes: int) -> None:
        self.target, self.classes = target, classes


def link_schema(graph: HeteroGraph, data: LinkData, width: int) -> Schema:
    """What a typed encoder is made for."""
    assert data.edge_type is not None
    task: Any = _Target(data.edge_type[2], width)
    return describe_arrays(graph, task)


def check_call(model: LinkModel, batch: Any, data: LinkData, settings: Settings) -> None:
    """Calls the model with a batch in evaluation mode; parameters without a size get theirs.

    Raises:
        InputError: it cannot be called, or gives rows of another width than decoders compare.
    """
    training, random = model.training, torch.get_rng_state()
    try:
        with torch.no_grad():
            model.eval()
            row = links_of(batch, model.edge_type).row
            model(batch, relation_of(training_links(data, settings), row))
    except ForegatherError:
        raise
    except _NOT_CALLABLE as error:
        lines = str(error).splitlines()
        name = type(getattr(model.encoder, "model", model.encoder)).__name__
        raise InputError(
            f"{name} cannot be called with a batch of links, or its rows are not of "
            f"{settings.model.hidden} columns (model.hidden): "
            f"{lines[0] if lines else type(error).__name__}"
        ) from error
    finally:
        model.train(training)
        torch.set_rng_state(random)


def describe_run(trainer: "LinkTrainer") -> list[str]:
    """What was chosen and found, a sentence each."""
    data, settings, goal = trainer.data, trainer.settings, trainer.training.goal
    sizes = ", ".join(f"{role} {format_count(len(one))}" for role, one in data.splits.items())
    found = [goal.describe(False), f"links     of {show_relation(data.edge_type)}: {sizes}"]
    if data.several:
        found[-1] += f"; {data.several} relations"
    for role, rating in trainer.ratings.items():
        rest = f"; {trainer.left_out[role].told}" if role in trainer.left_out else ""
        found.append(f"{role:<9} compared with {rating.describe()}{rest}")
    model = trainer.training.model
    assert isinstance(model, LinkModel)
    if learned := _learned(model):
        count, size = sum(len(rows) for rows in learned), sum(rows.nbytes for rows in learned)
        found.append(
            f"{format_count(count)} nodes have learned rows ({format_bytes(4 * size)} with their "
            "gradients and Adam's moments), so the model is transductive: it knows no other nodes"
        )
    if data.edge_type is not None and settings.model.kind == "sage":
        found.append("the graph has node types, so the model sage is hetero-sage")
    if _labelled(data):
        found.append("the links have labels, which are not used: whether they exist is learned")
    if not (model.decoder.symmetric or settings.link.both_ends) and data.undirected:
        found.append(
            f"the decoder {settings.link.decoder} tells the ends of a link apart, but the graph is "
            "undirected: what it learns holds for the stored direction alone; use hadamard or dot, "
            "or set link.both_ends"
        )
    found += _leaks(trainer)
    return found


def _labelled(data: LinkData) -> bool:
    """Whether links have labels."""
    if isinstance(data.graph, HeteroGraph):
        lists = [data.graph.links[one] for one in data.relations if one in data.graph.links]
    else:
        lists = [data.graph.links]
    return any(one.labels is not None for part in lists for one in part.values())


def _learned(model: LinkModel) -> list[Tensor]:
    """The rows of weights that nodes have of their own."""
    encoder = model.encoder
    if isinstance(encoder, Lookup):
        return encoder.weights()
    if isinstance(encoder, PlainEncoder):
        return [] if encoder.learned is None else [encoder.learned.weight]
    tables = [getattr(one, "learned", None) for one in getattr(encoder, "encoders", ())]
    return [one.weight for one in tables if one is not None]


def _leaks(trainer: "LinkTrainer") -> list[str]:
    """Held-out links that are edges, where nothing keeps a model from seeing them."""
    data = trainer.data
    if trainer.settings.typed.time != "none":
        return []
    known, found = None, []
    for role in ("valid", "test"):
        if role not in data.splits:
            continue
        if known is None:
            known = data.known(roles=())
        links = data.splits[role]
        seen = known.holds(data.key(links.index[0], links.relation), links.index[1])
        if count := int(np.count_nonzero(seen)):
            found.append(
                f"{format_count(count)} of {format_count(len(links))} links of {role} are also "
                "edges of the graph, so the model may see the answers; hold them out with "
                "split_links, or set typed.time where edges have times"
            )
    return found
