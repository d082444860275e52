"""PairLoader: the order and the negatives of a LinkLoader, without neighbours; exact positions."""

import itertools

import numpy as np
import pytest
import torch

from foregather import Graph, LinkLoader
from foregather.errors import InputError
from foregather.loader.links.pair_loader import PairLoader

RULE = {"mode": "triplet", "amount": 3, "exclude": "positives"}


def graph_and_links():
    draw = np.random.default_rng(0)
    edges = draw.integers(40, size=(2, 150))
    return Graph.from_edge_index(edges, 40), edges


def test_the_same_links_and_negatives_as_a_link_loader():
    graph, edges = graph_and_links()
    options = {"negatives": RULE, "shuffle": True, "seed": 5}
    mine = PairLoader(edges, (40, 40), 32, same_type=True, positives=edges, **options)
    theirs = LinkLoader(graph, [2], edges, 32, **options)
    assert len(mine) == len(theirs) == 5
    for _ in range(2):
        for ours, other in zip(mine, theirs, strict=True):
            assert torch.equal(ours.input_id, other.input_id)
            assert torch.equal(ours.src_index, other.n_id[other.src_index])
            assert torch.equal(ours.dst_pos_index, other.n_id[other.dst_pos_index])
            assert torch.equal(ours.dst_neg_index, other.n_id[other.dst_neg_index])


def test_a_position_is_restored():
    _, edges = graph_and_links()
    options = {"negatives": "binary", "shuffle": True, "same_type": True}
    first = PairLoader(edges, (40, 40), 32, **options)
    seen = list(itertools.islice(iter(first), 2))
    state = first.state_dict()
    second = PairLoader(edges, (40, 40), 32, **options)
    second.load_state_dict(state)
    again = PairLoader(edges, (40, 40), 32, **options)
    expected = list(again)[2:]
    assert len(seen) == 2
    for ours, other in zip(second, expected, strict=True):
        assert torch.equal(ours.edge_label_index, other.edge_label_index)
        assert ours.edge_label.sum() == len(ours.input_id)
    with pytest.raises(InputError, match="saved with links"):
        PairLoader(edges[:, 1:], (40, 40), 32, **options).load_state_dict(state)


def test_refused():
    _, edges = graph_and_links()
    with pytest.raises(InputError, match="positives= is not given"):
        PairLoader(edges, (40, 40), 32, negatives=RULE)
    with pytest.raises(InputError, match="edge_label_index"):
        PairLoader(edges, (30, 40), 32)
