"""Link graphs: the real graphs of the data folder whose task is links, with `Links` in their splits.

Held-out links are no edges of the graph. Splits are the published ones; events are divided by time
at 70 % and 85 %.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import Graph, HeteroGraph
from foregather.graph.hetero import EdgeType, NodeTable, Relation, TextIds
from foregather.graph.links.links import Links

from .graphs import data_folder
from .skip import skip

__all__ = ["LINK_GRAPHS", "load_ddi", "load_events", "load_gowalla", "load_knowledge"]

Array = npt.NDArray[Any]
_SPLITS = {"train": "train", "valid": "val", "test": "test"}  # ours, and those of the files


def _read(name: str) -> dict[str, Array]:
    path = data_folder() / "typed" / f"{name}.npz"
    if not path.is_file():
        skip(f"{path.name} is not in the folder `typed` of the one that FOREGATHER_DATA names")
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def _names(arrays: dict[str, Array], key: str) -> TextIds:
    return TextIds(arrays[f"{key}_bytes"], arrays[f"{key}_off"])


def load_ddi() -> Graph:
    """ogbl-ddi: undirected, without features; valid and test have OGB's pool of negatives.

    Training links are stored once each, as OGB has them; the edges are both directions of them.
    """
    arrays = _read("ogbl_ddi")
    nodes, train = int(arrays["num_nodes"]), arrays["train_edge_index"]
    graph = Graph.from_edge_index(train, nodes, undirected=True)
    for name, part in _SPLITS.items():
        negatives = arrays.get(f"{part}_neg_edge_index")
        graph = graph.with_links(name, arrays[f"{part}_edge_index"], negatives=negatives)
    return graph


def load_gowalla() -> HeteroGraph:
    """Gowalla as LightGCN divides it: users, items, train and test; there is no validation."""
    arrays = _read("gowalla")
    users, items = int(arrays["num_users"]), int(arrays["num_items"])
    train = arrays["train_edge_index"]
    nodes = {
        "user": NodeTable.of(users, ids=arrays["user_id"]),
        "item": NodeTable.of(items, ids=arrays["item_id"]),
    }
    visits: EdgeType = ("user", "visits", "item")
    graph = HeteroGraph(nodes, {visits: Relation.of(train, users, items)}).with_reverse()
    for name in ("train", "test"):
        graph = graph.with_links(name, arrays[f"{name}_edge_index"], relation=visits)
    return graph


def load_knowledge(name: str) -> HeteroGraph:
    """fb15k237 or codex_s: a relation for each predicate, and the links of each.

    Predicates without links in a split have none of that name. Published hard negatives of codex_s
    are the negatives of their predicate.
    """
    arrays = _read(name)
    count = int(arrays["num_nodes"])
    table = NodeTable.of(count, ids=_names(arrays, "entity"))
    edges: dict[EdgeType, Relation] = {}
    links: dict[EdgeType, dict[str, Links]] = {}
    for number, predicate in enumerate(_names(arrays, "relation")):
        edge_type = ("entity", predicate, "entity")
        lists = {}
        for ours, theirs in _SPLITS.items():
            mine = _of(arrays[f"triples_{theirs}"], number)
            wrong = arrays.get(f"triples_{theirs}_neg")
            negatives = None if wrong is None else _of(wrong, number)
            if mine.shape[1]:
                lists[ours] = Links.of(mine, count, count, negatives=negatives)
        edges[edge_type] = Relation.of(_of(arrays["triples_train"], number), count, count)
        links[edge_type] = lists
    return HeteroGraph({"entity": table}, edges, links=links)


def _of(triples: Array, number: int) -> Array:
    """Heads and tails of one predicate, [2, n]."""
    return triples[triples[:, 1] == number][:, [0, 2]].T


def load_events(name: str) -> HeteroGraph:
    """wikipedia_edits, collegemsg or bitcoin_otc: events with times, divided by time.

    The edges are the training events; links have times, and the weights of bitcoin_otc as labels.
    """
    arrays = _read(name)
    count, first = int(arrays["num_nodes"]), int(arrays.get("num_src", 0))
    pairs = np.stack([arrays["src"], arrays["dst"]]).astype(np.int64)
    ids, time, weight = arrays["node_id"], arrays["t"], arrays.get("w")
    if first:  # two kinds of nodes, one after the other
        nodes = {
            "user": NodeTable.of(first, ids=ids[:first]),
            "page": NodeTable.of(count - first, ids=ids[first:]),
        }
        pairs -= np.array([[0], [first]])
        edge_type: EdgeType = ("user", "edits", "page")
    else:
        nodes = {"node": NodeTable.of(count, ids=ids)}
        edge_type = ("node", "to", "node")
    sizes = nodes[edge_type[0]].num_nodes, nodes[edge_type[2]].num_nodes
    borders = [0, *arrays["split_pos"].tolist(), len(time)]
    links = {}
    for number, part in enumerate(_SPLITS):
        mine = slice(borders[number], borders[number + 1])
        labels = None if weight is None else weight[mine]
        links[part] = Links.of(pairs[:, mine], *sizes, time=time[mine], labels=labels)
    mine = slice(0, borders[1])
    weights = None if weight is None else weight[mine]
    relation = Relation.of(pairs[:, mine], *sizes, time=time[mine], weights=weights)
    return HeteroGraph(nodes, {edge_type: relation}, links={edge_type: links})


#: All of them, by the name of their file.
LINK_GRAPHS: dict[str, Callable[[], Graph | HeteroGraph]] = {
    "ogbl_ddi": load_ddi,
    "gowalla": load_gowalla,
    "fb15k237": lambda: load_knowledge("fb15k237"),
    "codex_s": lambda: load_knowledge("codex_s"),
    "wikipedia_edits": lambda: load_events("wikipedia_edits"),
    "collegemsg": lambda: load_events("collegemsg"),
    "bitcoin_otc": lambda: load_events("bitcoin_otc"),
}
