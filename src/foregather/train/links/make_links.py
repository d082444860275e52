"""make_links: the model and the loaders of a run on links, from its settings."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph
from foregather.loader.links.hetero_link_loader import HeteroLinkLoader
from foregather.loader.links.link_loader import LinkLoader
from foregather.loader.links.pair_loader import PairLoader
from foregather.loader.options import BatchContents
from foregather.loader.rank_options import RankOptions, Topology
from foregather.nn.by_name import PLAIN_MODELS
from foregather.nn.hetero.by_name import TYPED_MODELS, make_typed_layers
from foregather.nn.hetero.schema import Schema
from foregather.nn.links.decoders import make_decoder
from foregather.nn.links.encoders import OwnTypedEncoder, PlainEncoder, TypedEncoder
from foregather.nn.links.lookup import LightGCN, Lookup
from foregather.nn.links.model import LinkModel
from foregather.train.hetero.make import make_typed, make_typed_sampler, model_kind
from foregather.train.links.link_data import LinkData, SplitLinks
from foregather.train.settings import Settings
from foregather.train.settings.from_settings import (
    budget_of,
    count_layers,
    make_model,
    norm_of,
    share_threads,
)
from foregather.train.settings.samplers import make_sampler
from foregather.units import parse_count

__all__ = [
    "LINK_MODELS",
    "LOOKUPS",
    "is_lookup",
    "make_link_loader",
    "make_link_model",
    "pair_loader",
]

#: Models of learned rows alone, which need no neighbours, with a line for people.
LINK_MODELS = {
    "lightgcn": "links: learned rows, averaged over a convolution without weights; layers (3)",
    "distmult": "links: learned rows of nodes and relations, without messages",
}
LOOKUPS = tuple(LINK_MODELS)
_BULK = 8


def is_lookup(settings: Settings) -> bool:
    """Whether the model has learned rows alone."""
    return settings.model.kind in LOOKUPS


def make_link_model(
    settings: Settings, data: LinkData, schema: Schema | None, fill: Any = None
) -> LinkModel:
    """Makes the model, with weights drawn from the seed.

    Args:
        settings: the settings.
        data: the links.
        schema: of a typed graph; None for a plain one and for models of learned rows.
        fill: called with a typed encoder by name, to set how its numbers are standardised.

    Raises:
        InputError: it is unknown, or cannot be made with these options.
    """
    wanted, width = settings.model, settings.model.hidden
    kind = settings.link.decoder
    if wanted.kind == "distmult":
        kind = "distmult"
    torch.manual_seed(settings.train.seed)
    decoder = make_decoder(kind, width, data.several)
    encoder: nn.Module
    if is_lookup(settings):
        encoder = _lookup(settings, data)
    elif schema is None:
        assert isinstance(data.graph, Graph)
        encoder = _plain(settings, data.graph)
    else:
        encoder = _typed(settings, data, schema, fill)
    return LinkModel(encoder, decoder, data.edge_type)


def _lookup(settings: Settings, data: LinkData) -> Lookup:
    wanted = settings.model
    if wanted.options:
        raise InputError(f"model.options is for module:Class; {wanted.kind} takes none")
    if wanted.kind == "distmult":
        return Lookup(data.counts, data.same, wanted.hidden)
    layers = wanted.layers or 3
    made = LightGCN(data.counts, data.same, wanted.hidden, layers)
    made.set_edges(*data.every_edge())
    return made


def _plain(settings: Settings, graph: Graph) -> PlainEncoder:
    hidden = settings.model.hidden
    width = hidden if graph.features is None else graph.features.width
    model = make_model(settings, width=width, classes=hidden)
    return PlainEncoder(model, graph.num_nodes if graph.features is None else 0, hidden)


def _typed(settings: Settings, data: LinkData, schema: Schema, fill: Any) -> nn.Module:
    assert data.edge_type is not None
    wanted, ends = settings.model, (data.edge_type[0], data.edge_type[2])
    if ":" in wanted.kind:
        return OwnTypedEncoder(make_typed(settings, schema, count_layers(settings)), ends)
    layers = make_typed_layers(
        model_kind(settings), schema, wanted.hidden, count_layers(settings), wanted.options
    )
    made = TypedEncoder(schema, layers, wanted.hidden, wanted.dropout, ends[0])
    if fill is not None:
        fill(made)
    return made


def check_kind(settings: Settings, typed: bool) -> None:
    """Refuses a model that is for the other kind of graph, before anything is made.

    Raises:
        InputError: the message has what fits.
    """
    kind = settings.model.kind
    if kind in LOOKUPS or ":" in kind:
        return
    if typed and kind not in (*TYPED_MODELS, "sage"):
        names = ", ".join((*TYPED_MODELS, *LOOKUPS))
        raise InputError(
            f"model.kind is {kind!r}, but the graph has node types; use {names} or module:Class"
        )
    if not typed and kind in TYPED_MODELS:
        raise InputError(
            f"model.kind is {kind!r}, which is for graphs with node types, but this graph is "
            f"plain; use {', '.join((*PLAIN_MODELS, *LOOKUPS))} or module:Class"
        )


def make_link_loader(
    data: LinkData,
    settings: Settings,
    device: torch.device | None = None,
    grid: Any = None,
    topology: Topology = "replicated",
) -> Any:
    """The loader of the training links; with a grid of ranks, a collective call."""
    links, wanted = training_links(data, settings), settings.link
    rule = {
        "mode": wanted.mode,
        "amount": wanted.negatives,
        "exclude": None if wanted.exclude == "none" else wanted.exclude,
    }
    if is_lookup(settings):
        known = None
        if wanted.exclude == "positives":
            known = np.concatenate([data.every_edge(), links.index], axis=1)
        return PairLoader(
            links.index,
            data.counts,
            settings.train.batch_size,
            same_type=data.same,
            negatives=rule,
            positives=known,
            shuffle=True,
            seed=settings.train.seed,
            device=_device(device),
            rank=0 if grid is None else grid.rank,
            ranks=1 if grid is None else grid.size,
        )
    over: dict[str, Any] = {}
    if grid is not None:
        how = RankOptions(topology, settings.grid.mode, settings.grid.wire)
        over = {"grid": grid, "ranks": how}
    return pair_loader(data, settings, links, device, negatives=rule, shuffle=True, over=over)


def training_links(data: LinkData, settings: Settings) -> SplitLinks:
    """The links to learn from; with `link.both_ends`, each also turned around."""
    links = data.splits["train"]
    if not settings.link.both_ends:
        return links
    turned = links.turned()
    return SplitLinks(
        np.concatenate([links.index, turned.index], axis=1),
        None if links.relation is None else np.tile(links.relation, 2),
        None if links.time is None else np.tile(links.time, 2),
    )


def _device(device: torch.device | None) -> torch.device | None:
    return device if device is not None and device.type != "cpu" else None


def pair_loader(
    data: LinkData,
    settings: Settings,
    links: SplitLinks,
    device: torch.device | None = None,
    *,
    negatives: Any = None,
    shuffle: bool = False,
    sampler: Any = None,
    batch_size: int | None = None,
    over: dict[str, Any] | None = None,
) -> Any:
    """A loader of pairs with neighbours.

    Args:
        data: the links of the run.
        settings: the settings.
        links: the pairs, with times where they count.
        device: where batches go.
        negatives: of the loader; None for none.
        shuffle: a new order each epoch.
        sampler: None makes that of the settings.
        batch_size: None takes that of the settings.
        over: for a loader over ranks, `grid` and `ranks` of it.

    Raises:
        InputError: a setting that ranks cannot share.
    """
    bulk = settings.memory.bulk
    options: dict[str, Any] = {
        "negatives": negatives,
        "exclude_seed_edges": settings.link.exclude_seed_edges,
        "shuffle": shuffle,
        "seed": settings.train.seed,
        "device": _device(device),
        "prefetch": settings.memory.prefetch,
    }
    size = batch_size or settings.train.batch_size
    if isinstance(data.graph, HeteroGraph):
        timed = settings.typed.time != "none"
        return HeteroLinkLoader(
            data.graph,
            None,
            (data.edge_type, links.index),
            size,
            edge_label_time=links.time if timed else None,
            sampler=sampler or make_typed_sampler(data.graph, settings),
            threads=share_threads(settings, bool(over)),
            bulk=_BULK if bulk == "auto" else parse_count(bulk),
            grid=(over or {}).get("grid"),
            **options,
        )
    if over:
        options |= over
        if settings.memory.budget == "auto":
            raise InputError("memory.budget is 'auto', which ranks cannot share; pass bytes")
    if not over or bulk != "auto":  # ranks need the same number: the loader's own
        options["bulk"] = "auto" if bulk == "auto" else parse_count(bulk)
    return LinkLoader(
        data.graph,
        None,
        links.index,
        size,
        sampler=sampler or make_sampler(data.graph, settings),
        memory=budget_of(settings),
        storage=settings.memory.storage,
        threads=share_threads(settings, bool(over)),
        contents=BatchContents("seeds", None, norm_of(settings), pyg=False),
        **options,
    )


def relation_of(links: SplitLinks, batch_rows: torch.Tensor | None) -> torch.Tensor | None:
    """The relations of the input rows of a batch; None where there is one."""
    if links.relation is None or batch_rows is None:
        return None
    found: npt.NDArray[np.int64] = links.relation[batch_rows.cpu().numpy()]
    return torch.from_numpy(found).to(batch_rows.device)
