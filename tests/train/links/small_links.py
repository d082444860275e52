"""Small graphs with links that can be learned, and runs on them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from foregather import Graph, HeteroGraph
from foregather.graph.hetero import NodeTable, Relation
from foregather.graph.links.links import Links
from foregather.train.settings import (
    CheckpointSettings,
    LinkSettings,
    ModelSettings,
    OptimizerSettings,
    SamplerSettings,
    Settings,
    TrainSettings,
)

BOUGHT = ("user", "bought", "item")


def plain_graph(features: bool = True, nodes: int = 60) -> Graph:
    """Nodes of two kinds; links join nodes of one kind."""
    draw = np.random.default_rng(0)
    kind = np.arange(nodes) % 2
    pairs = draw.integers(nodes, size=(2, 1400))
    pairs = pairs[:, (kind[pairs[0]] == kind[pairs[1]]) & (pairs[0] < pairs[1])]
    pairs = np.unique(pairs, axis=1)
    pairs = pairs[:, draw.permutation(pairs.shape[1])]
    test, valid, train = pairs[:, :40], pairs[:, 40:80], pairs[:, 80:]
    x = draw.normal(size=(nodes, 4)).astype(np.float32) + kind[:, None]
    graph = Graph.from_edge_index(train, nodes, undirected=True, x=x if features else None)
    for name, part in (("train", train), ("valid", valid), ("test", test)):
        graph = graph.with_links(name, part)
    return graph


def shop_graph(times: bool = False) -> HeteroGraph:
    """Users buy items of their kind; users have features, items have none."""
    draw = np.random.default_rng(1)
    users, items = 50, 30
    pairs = np.stack([draw.integers(users, size=900), draw.integers(items, size=900)])
    pairs = pairs[:, (pairs[0] % 2) == (pairs[1] % 2)]
    pairs = np.unique(pairs, axis=1)
    pairs = pairs[:, draw.permutation(pairs.shape[1])]
    when = np.arange(pairs.shape[1]) * 10
    parts = {
        "train": slice(0, -80),
        "valid": slice(pairs.shape[1] - 80, -40),
        "test": slice(pairs.shape[1] - 40, None),
    }
    nodes = {
        "user": NodeTable.of(
            users, {"x": draw.normal(size=(users, 3)) + np.arange(users)[:, None] % 2}
        ),
        "item": NodeTable.of(items, ids=np.arange(items) + 1000),
    }
    own = parts["train"]
    relation = Relation.of(pairs[:, own], users, items, time=when[own] if times else None)
    links = {
        name: Links.of(pairs[:, part], users, items, time=when[part] if times else None)
        for name, part in parts.items()
    }
    return HeteroGraph(nodes, {BOUGHT: relation}, links={BOUGHT: links}).with_reverse()


def knowledge_graph() -> HeteroGraph:
    """Two relations of one type: to the next node, and to the opposite one."""
    nodes, edges, links = 40, {}, {}
    draw = np.random.default_rng(2)
    for name, step in (("next", 1), ("opposite", 20)):
        heads = draw.permutation(nodes)
        pairs = np.stack([heads, (heads + step) % nodes])
        kind = ("thing", name, "thing")
        edges[kind] = Relation.of(pairs[:, :32], nodes, nodes)
        links[kind] = {
            "train": Links.of(pairs[:, :32], nodes, nodes),
            "valid": Links.of(pairs[:, 32:36], nodes, nodes),
            "test": Links.of(pairs[:, 36:], nodes, nodes),
        }
    return HeteroGraph({"thing": NodeTable.of(nodes)}, edges, links=links)


def saved(graph: Any, path: Path) -> Path:
    graph.save(path)
    return path


def link_settings(graph: Path, run: Path | str, **changes: Any) -> Settings:
    """Changes are of sections, as dicts."""
    made = Settings(
        graph=str(graph),
        run=str(run),
        sampler=SamplerSettings(fanouts=(5, 5)),
        model=ModelSettings(hidden=8, dropout=0.0),
        optimizer=OptimizerSettings(lr=0.02),
        train=TrainSettings(task="link", epochs=3, batch_size=64, threads=1),
        checkpoint=CheckpointSettings(minutes=0),
        link=LinkSettings(),
    )
    for section, values in changes.items():
        made = replace(made, **{section: replace(getattr(made, section), **values)})
    return made
