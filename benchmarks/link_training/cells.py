"""Cells: what is trained on which links, the same for both sides."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from common.link_graphs import load_ddi, load_events, load_gowalla, load_knowledge

from foregather import Graph, HeteroGraph
from foregather.graph.hetero import Relation
from foregather.train.settings import CheckpointSettings, Settings, TrainSettings, WatchSettings

__all__ = ["CELLS", "Cell"]


@dataclass(frozen=True)
class Cell:
    """One model on one graph.

    Attributes:
        graph: makes it.
        metric: what is reported.
        changes: of settings, by section.
        seeds: how many.
        peer: what the other side is: loader, lightgcn or distmult.
        published: what others reached, and how.
    """

    graph: Callable[[], Graph | HeteroGraph]
    metric: str
    changes: dict[str, dict[str, Any]]
    seeds: int
    peer: str
    published: str = ""

    def settings(self, folder: str, run: str, seed: int) -> Settings:
        """Of one run."""
        made = Settings(
            graph=folder,
            run=run,
            train=TrainSettings(task="link", metric=self.metric, seed=seed, threads=1),
            checkpoint=CheckpointSettings(minutes=0, keep=1, epochs=1000),
            watch=WatchSettings(trace=False),
        )
        for section, values in self.changes.items():
            made = replace(made, **{section: replace(getattr(made, section), **values)})
        return made


def _with_reverse(graph: HeteroGraph) -> HeteroGraph:
    """Messages pass along both directions of every relation."""
    return graph.with_reverse()


def _events(name: str) -> HeteroGraph:
    """All events are edges, and no link sees those of its own time or later but by their time."""
    graph = load_events(name)
    edge_type = next(iter(graph.edges))
    lists = graph.links[edge_type]
    index = np.concatenate([one.index for one in lists.values()], axis=1)
    time = np.concatenate([np.asarray(one.time) for one in lists.values()])
    sizes = graph.nodes[edge_type[0]].num_nodes, graph.nodes[edge_type[2]].num_nodes
    relation = Relation.of(index, *sizes, time=time)
    plain = {name: replace(one, labels=None) for name, one in lists.items()}
    made = HeteroGraph(graph.nodes, {edge_type: relation}, links={edge_type: plain})
    return made.with_reverse()


_KNOWLEDGE = {"relation": "*", "decoder": "distmult", "both_ends": True, "loss": "softmax"}
_TIMED = {
    "sampler": {"fanouts": (10,)},
    "model": {"kind": "hetero-sage", "hidden": 64, "dropout": 0.1},
    "optimizer": {"lr": 0.01},
    "typed": {"time": "edge", "temporal_strategy": "last"},
    "link": {"decoder": "mlp", "negatives": 1, "sampled": 1, "filtered": False},
}


def _timed(epochs: int, batch: int = 512) -> dict[str, dict[str, Any]]:
    return {**_TIMED, "train": {"epochs": epochs, "batch_size": batch, "valid": ""}}


def _ddi(decoder: str, mode: str, published: str = "") -> Cell:
    """OGB's example, narrower; its negatives are pairs, and its decoder is the same both ways."""
    changes: dict[str, dict[str, Any]] = {
        "sampler": {"fanouts": (15, 15)},
        "model": {"kind": "sage", "hidden": 64, "dropout": 0.5},
        "optimizer": {"lr": 0.005, "clip": 1.0},
        "train": {"epochs": 25, "batch_size": 65536, "evaluate": "exact"},
        "link": {"decoder": decoder, "negatives": 1, "mode": mode},
    }
    return Cell(load_ddi, "hits@20", changes, 3, "loader", published)


#: By the name of the graph and the model.
CELLS: dict[str, Cell] = {
    "ogbl_ddi sage": _ddi(
        "hadamard",
        "binary",
        "OGB's board: GraphSAGE 0.5390 ± 0.0474, GCN 0.3707 ± 0.0507 (256 columns, 200 epochs)",
    ),
    "ogbl_ddi sage mlp": _ddi("mlp", "binary"),
    "ogbl_ddi sage triplets": _ddi("hadamard", "triplet"),
    "ogbl_ddi sage mlp triplets": _ddi("mlp", "triplet"),
    "gowalla lightgcn": Cell(
        load_gowalla,
        "recall@20",
        {
            "model": {"kind": "lightgcn", "hidden": 64, "layers": 3},
            "optimizer": {"lr": 0.02},
            "train": {"epochs": 20, "batch_size": 65536, "valid": ""},
            "link": {"loss": "bpr", "embedding_decay": 1e-4},
        },
        1,
        "lightgcn",
        "LightGCN 0.1830; its authors' log 0.1824 (879 epochs of batches of 2,048)",
    ),
    "codex_s distmult": Cell(
        lambda: load_knowledge("codex_s"),
        "mrr",
        {
            "model": {"kind": "distmult", "hidden": 64},
            "optimizer": {"lr": 0.01},
            "train": {"epochs": 20, "batch_size": 1024, "valid": ""},
            "link": {**_KNOWLEDGE, "negatives": 32},
        },
        5,
        "distmult",
        "CoDEx's authors: ComplEx 0.465, RESCAL 0.404, TransE 0.354 (no DistMult)",
    ),
    "codex_s rgcn": Cell(
        lambda: _with_reverse(load_knowledge("codex_s")),
        "mrr",
        {
            "sampler": {"fanouts": (5,)},
            "model": {"kind": "rgcn", "hidden": 64, "dropout": 0.2},
            "optimizer": {"lr": 0.01},
            "train": {"epochs": 15, "batch_size": 2048, "valid": ""},
            "link": {**_KNOWLEDGE, "negatives": 32},
        },
        3,
        "loader",
    ),
    "fb15k237 distmult": Cell(
        lambda: load_knowledge("fb15k237"),
        "mrr",
        {
            "model": {"kind": "distmult", "hidden": 64},
            "optimizer": {"lr": 0.01},
            "train": {"epochs": 12, "batch_size": 4096, "valid": ""},
            "link": {**_KNOWLEDGE, "negatives": 32},
        },
        2,
        "distmult",
        "DistMult 0.241 (as quoted by RAGAT), 0.343 (LibKGE, tuned)",
    ),
    "fb15k237 rgcn": Cell(
        lambda: _with_reverse(load_knowledge("fb15k237")),
        "mrr",
        {
            "sampler": {"fanouts": (2,)},
            "model": {"kind": "rgcn", "hidden": 64, "dropout": 0.2, "options": {"bases": 8}},
            "optimizer": {"lr": 0.01},
            "train": {"epochs": 2, "batch_size": 16384, "valid": ""},
            "link": {**_KNOWLEDGE, "negatives": 16},
        },
        1,
        "loader",
        "R-GCN 0.248 (as quoted by RAGAT)",
    ),
    "collegemsg sage": Cell(
        lambda: _events("collegemsg"), "average_precision", _timed(6), 5, "loader"
    ),
    "bitcoin_otc sage": Cell(
        lambda: _events("bitcoin_otc"), "average_precision", _timed(8), 5, "loader"
    ),
    "wikipedia_edits sage": Cell(
        lambda: _events("wikipedia_edits"), "average_precision", _timed(3, 1024), 3, "loader"
    ),
}
