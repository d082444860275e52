"""What cannot be loaded as links is refused in one sentence."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from foregather import InputError, LinkLoader, Negatives
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
    made = LinkLoader(graph, [2], None, 4, negatives=Negatives("triplet", exclude="positives"))
    with pytest.raises(InputError, match="is linked to every"):
        list(made)


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
          "negatives": "binary"}, "there is no source node at its time"),
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
