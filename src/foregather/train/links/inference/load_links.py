"""load_links: the best model of a finished run on links, made to fit the graph it is used on."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load

from foregather.errors import FormatError, InputError
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph, is_typed_folder
from foregather.nn.hetero.schema import Schema
from foregather.nn.links.encoders import PlainEncoder
from foregather.nn.links.lookup import Lookup
from foregather.nn.links.model import LinkModel
from foregather.train.hetero.describe_arrays import check_schema
from foregather.train.hetero.load import check_same_kind
from foregather.train.links.check_links import check_call, link_schema
from foregather.train.links.link_data import LinkData, read_links
from foregather.train.links.make_links import make_link_loader, make_link_model
from foregather.train.runs.run_folder import read_finished
from foregather.train.settings import Settings

__all__ = ["LinkRun", "load_links"]


@dataclass(frozen=True, eq=False)
class LinkRun:
    """A finished run on links, and the graph that its model is used on.

    Attributes:
        model: with the best weights, in evaluation mode.
        settings: of the run.
        data: the graph, and the links that are known in it.
    """

    model: LinkModel
    settings: Settings
    data: LinkData


def load_links(folder: Path, path: Path, trust_code: bool = False) -> LinkRun:
    """Loads the best model of a finished run for a graph.

    Args:
        folder: of the run.
        path: the graph folder.
        trust_code: the class that the run's settings name may be imported and run.

    Raises:
        InputError: the graph does not fit the model; or the run names code and is not trusted.
        FormatError: this is not a run on links, or it has not finished, or it is damaged.
    """
    settings, facts, data = read_finished(folder, trust_code)
    wanted = _read_facts(folder, facts)
    check_same_kind(folder, wanted["edge_type"] is not None, path)
    graph: Graph | HeteroGraph = (HeteroGraph if is_typed_folder(path) else Graph).open(path)
    train = settings.train
    names = {"train": train.split, "valid": train.valid, "test": train.test}
    links = read_links(graph, settings.link.relation, names, needed=False)
    if [list(one) for one in links.relations] != wanted["relations"]:
        raise InputError(
            f"the relations of links in {path.name} are not those that {folder.name} was trained "
            "with; use a graph with the same ones"
        )
    schema = None
    if "typed" in facts and isinstance(graph, HeteroGraph):
        schema = _schema(folder, facts, graph, links, settings, path)
    try:
        weights = load(data)
        model = make_link_model(settings, links, schema)
        _check_counts(model, links, wanted["counts"], path)
        if ":" in settings.model.kind:  # parameters without a size get theirs
            batches: Any = iter(make_link_loader(links, settings))
            check_call(model, next(batches), links, settings)
            batches.close()
        model.load_state_dict(weights)
    except (SafetensorError, OSError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise FormatError(
            f"model.safetensors of {folder.name} does not fit its model: {error}"
        ) from error
    model.eval()
    return LinkRun(model, settings, links)


def _read_facts(folder: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the run was made for."""
    found = facts.get("link")
    if found is None:
        raise FormatError(f"{folder.name} was not trained on links; leave the options of links out")
    try:
        edge_type, counts = found["edge_type"], found["counts"]
        relations = [[str(part) for part in one] for one in found["relations"]]
        whole = len(counts) == 2 and all(type(count) is int and count >= 0 for count in counts)
        if not whole or any(len(one) != 3 for one in [*relations, edge_type or "abc"]):
            raise ValueError("a field has an impossible value")
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(
            f"environment.json of {folder.name} is damaged ({error}); restore it, or train again"
        ) from error
    return {"edge_type": edge_type, "counts": counts, "relations": relations}


def _schema(
    folder: Path,
    facts: Mapping[str, Any],
    graph: HeteroGraph,
    links: LinkData,
    settings: Settings,
    path: Path,
) -> Schema:
    try:
        schema = Schema.from_dict(facts["typed"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"environment.json of {folder.name} is damaged ({error}); restore it, or train again"
        ) from error
    found = link_schema(graph, links, settings.model.hidden)
    check_schema(schema, found, path.name, ":" not in settings.model.kind)
    return schema


def _check_counts(model: LinkModel, links: LinkData, counts: list[int], path: Path) -> None:
    """Learned rows are those of the nodes of the run."""
    encoder = model.encoder
    learned = isinstance(encoder, Lookup) or (
        isinstance(encoder, PlainEncoder) and encoder.learned is not None
    )
    if learned and list(links.counts) != counts:
        raise InputError(
            f"each node has a learned row, and the run knows {counts[0]} sources and {counts[1]} "
            f"targets, but {path.name} has {links.counts[0]} and {links.counts[1]}; use the graph "
            "of the run"
        )
