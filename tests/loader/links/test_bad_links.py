"""What cannot be loaded as links is refused in one sentence."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from foregather import HeteroGraph, InputError, LinkLoader, Negatives
from foregather.graph.hetero import NodeTable, Relation
from foregather.loader.links.pair_loader import PairLoader
from tests.loader.graphs import small_graph
from tests.loader.hetero.batches import BUYS, LIKES, shop

GRAPH, SHOP = small_graph(), shop()
PAIRS = np.array([[0, 1, 2], [3, 4, 5]])
PAGE = Path(__file__).parents[3] / "docs/howto/links.md"

BAD = {
    "but there are 120 nodes": {"edge_label_index": [[0], [120]]},
    "holds -1 at position 0": {"edge_label_index": [[-1], [0]]},
    "expected \\[2, links\\]: sources, targets; transpose it": {"edge_label_index": PAIRS.T},
    "has shape \\[3\\], expected \\[2, links\\]": {"edge_label_index": [1, 2, 3]},
    "holds float64, expected whole numbers": {"edge_label_index": PAIRS / 2},
    "holds no links": {"edge_label_index": np.empty((2, 0), np.int64)},
    "has no links 'train'": {"edge_label_index": "train"},
    "expected 3 rows, one per link": {"edge_label": [1, 2]},
    "a Graph has no times": {"edge_label_time": [1, 2, 3]},
    "triplets have no labels": {"edge_label": [1, 2, 3], "negatives": "triplet"},
    "amount is 1.5, expected a whole": {"negatives": {"mode": "triplet", "amount": 1.5}},
    "amount is 0, expected a number above 0": {"negatives": {"amount": 0}},
    "mode is 'all', expected 'binary' or": {"negatives": "all"},
    "dst_weight is 0 for every node": {"negatives": {"dst_weight": np.zeros(120)}},
    "dst_weight is nan for node 0": {"negatives": {"dst_weight": np.full(120, np.nan)}},
    "dst_weight holds 3 numbers, but": {"negatives": {"dst_weight": np.ones(3)}},
    "exclude_seed_edges is 1.5": {"exclude_seed_edges": 1.5},
    "links are edge_label_index": {"input_nodes": "train"},
    "neg_sampling is an argument of PyG": {"neg_sampling": "binary"},
    "batch_size is 0": {"batch_size": 0},
    "has no effect in triplet": {"negatives": {"mode": "triplet", "src_weight": np.ones(120)}},
}


@pytest.mark.parametrize("match", BAD)
def test_bad_links_of_plain_graphs(match):
    options = {"edge_label_index": PAIRS, "batch_size": 2} | BAD[match]
    with pytest.raises(InputError, match=match) as caught:
        LinkLoader(GRAPH, [2], **options)
    assert ". " not in str(caught.value) and "\n" not in str(caught.value)


def test_negatives_that_cannot_exist():
    everything = np.stack(np.meshgrid(np.arange(4), np.arange(4))).reshape(2, -1)
    graph = type(GRAPH).from_edge_index(everything, 4)
    with pytest.raises(InputError, match="every source is linked to all destinations"):
        LinkLoader(graph, [2], None, 4, negatives=Negatives(exclude="positives"))
    every = Negatives("triplet", exclude="positives")
    words = "link 0 has no negative: its source, 0, is linked to every destination; leave such"
    with pytest.raises(InputError, match=words):
        LinkLoader(graph, [2], None, 4, negatives=every)
    with pytest.raises(InputError, match=words):
        PairLoader(everything, (4, 4), 2, negatives=every, positives=everything)
    loader = LinkLoader(graph, [2], None, 4, negatives="triplet")
    with pytest.raises(InputError, match=words):
        loader.beside(everything, negatives=every)


@pytest.mark.parametrize("limit", [5, 6])
def test_a_source_may_be_linked_to_all_that_there_was(limit):
    """Of three items two are there at time 5; user 1 bought both, and user 0 the first."""
    items = NodeTable.of(3, time=np.array([4, 5, 6]))
    nodes = {"user": NodeTable.of(2, time=np.array([0, 0])), "item": items}
    kind, pairs = ("user", "buys", "item"), np.array([[0, 1, 1], [0, 0, 1]])
    graph = HeteroGraph(nodes, {kind: Relation.of(pairs, 2, 3)}).with_reverse()
    options = {"time": "node", "edge_label_time": [5, limit, 6]}
    negatives = Negatives("triplet", 4, exclude="positives")

    def drawn():
        made = LinkLoader(graph, [2], (kind, pairs), 3, negatives=negatives, **options)
        return [one["item"].n_id[one["item"].dst_neg_index].unique().tolist() for one in made]

    if limit == 5:
        with pytest.raises(InputError, match="link 1 has .*, 1, .* destination at its time, 5;"):
            drawn()
    else:
        assert drawn() == [[1, 2]]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"edge_label_index": None}, "the graph has 3 relations; pass an edge type"),
        ({"edge_label_index": ("user", "sells", "item")}, "no relation \\(user, sells, item\\)"),
        ({"edge_label_index": (("user", "at", "shop"), PAIRS)}, "no node type 'shop'"),
        ({"edge_label_index": (BUYS, [[0], [25]])}, "but there are 25 nodes"),
        ({"time": "node"}, "'edge_label_time' is not set"),
        ({"edge_label_time": [1] * 400}, "'edge_label_time' is set, but nothing says whose"),
        ({"time": "edge", "edge_label_time": [1]}, "expected \\[400\\], one per link"),
        ({"input_time": [1]}, "links are edge_label_time"),
        ({"memory": "1GB"}, "memory is an argument of Loader"),
        ({"edge_label_index": LIKES, "time": "node", "edge_label_time": [-9] * 400,
          "negatives": "binary"}, "no negative: there are no nodes to draw from at its time, -9"),
    ],
)  # fmt: skip
def test_bad_links_of_typed_graphs(options, match):
    with pytest.raises(InputError, match=match) as caught:
        list(LinkLoader(SHOP, [2], **({"edge_label_index": BUYS} | options)))
    assert ". " not in str(caught.value)


def test_the_page_runs():
    code = re.search(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert code
    made = {"__name__": "example"}
    exec(compile(code[1], str(PAGE), "exec"), made)
    assert made["loss"].isfinite() and isinstance(made["batch"].edge_label, torch.Tensor)
