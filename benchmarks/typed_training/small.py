"""small: the sets that fit one step: acm, dblp and aifb.

Relations go both ways. acm and dblp: 60 labelled nodes of a class; bags of words have rows of sum
1 and are reduced to their first 128 singular vectors, to save time. Types without features, and
the entities of aifb, have learnt rows; R-GCN on aifb has the setting of its paper instead: one-hot
input, 16 hidden columns, 50 steps over all 140 labelled entities, no validation.
"""

import scipy.sparse as sp
from common.graphs import narrow

from foregather.graph.hetero import HeteroGraph, NodeTable

from .task import Task, both_ways, read

__all__ = ["citations", "entities"]

_PARTS = ("train", "val", "test")
_COLUMNS = 128


def citations(name: str, quick: bool) -> Task:
    """Papers of acm or authors of dblp, in three or four fields."""
    z = read(name)
    target = str(z["target_type"])
    sizes = {str(kind): int(z[f"num_nodes_{kind}"]) for kind in z["node_types"]}
    nodes = {}
    for kind, count in sizes.items():
        features = {}
        if f"x_{kind}_data" in z:
            parts = (z[f"x_{kind}_data"], z[f"x_{kind}_indices"], z[f"x_{kind}_indptr"])
            words = sp.csr_matrix(
                (parts[0].astype("f4"), parts[1].astype("i4"), parts[2]), z[f"x_{kind}_shape"]
            )
            features["x"] = narrow(words, _COLUMNS)
        labels = z[f"y_{kind}"].astype("i8") if kind == target else None
        nodes[kind] = NodeTable.of(count, features, labels=labels)
    found = {}
    for text in map(str, z["edge_types"]):
        source, relation, end = text.split("__")
        found[source, relation, end] = z[f"edge_index_{text}"]
    return Task(
        name,
        HeteroGraph(nodes, both_ways(found, sizes)),
        target,
        int(z[f"y_{target}"].max()) + 1,
        {part: z[f"{part}_idx_60"].astype("i8") for part in _PARTS},
        fanout=(10, 10),
        batch_size=60,
        steps=9 if quick else 120,
        every=3,
        patience=12,
        seeds=2 if quick else 5,
    )


def entities(quick: bool) -> Task:
    """The research groups of people of AIFB; 45 relations and their reverses."""
    z = read("aifb")
    count = int(z["num_nodes"])
    found = {
        ("entity", f"r{number}", "entity"): z["edge_index"][:, z["edge_type"] == number]
        for number in range(int(z["num_relations"]))
    }
    return Task(
        "aifb",
        HeteroGraph(
            {"entity": NodeTable.of(count, labels=z["y"].astype("i8"))},
            both_ways(found, {"entity": count}),
        ),
        "entity",
        int(z["y"].max()) + 1,
        {part: z[f"{part}_idx"].astype("i8") for part in ("train", "test")},
        fanout=(20, 20),
        batch_size=70,
        steps=4 if quick else 50,
        every=1,
        hidden={"R-GCN": 16, "SAGE": 32, "HGT": 32},
        learnt=0.05,  # with 1.0 SAGE had 57 % full batch, far below a logistic regression
        seeds=2 if quick else 5,
    )
