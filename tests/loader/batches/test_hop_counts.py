"""Counts of hops are kept by the tensor of edges: for as long as it exists, and as it was."""

import gc

import pytest
import torch

from foregather import BatchContents, Loader
from foregather.loader.batches import hop_counts
from foregather.loader.batches.hop_counts import recall, remember
from tests.loader.graphs import small_graph
from tests.some import some


def test_counts_are_kept_by_the_very_tensor():
    edges = torch.zeros(2, 3, dtype=torch.long)
    assert recall(edges) is None
    remember(edges, [1, 2], [3])
    found = recall(edges)
    assert found is not None
    assert (found.nodes, found.edges) == ((1, 2), (3,))
    assert recall(edges.clone()) is None
    assert recall(edges[:, :2]) is None


def test_counts_go_with_the_tensor():
    gc.collect()  # tensors of other tests
    before = len(hop_counts._known)
    edges = torch.zeros(2, 3, dtype=torch.long)
    remember(edges, [1, 2], [3])
    assert len(hop_counts._known) == before + 1
    del edges
    gc.collect()
    assert len(hop_counts._known) == before


def test_counts_of_changed_edges_are_not_found():
    edges = torch.zeros(2, 3, dtype=torch.long)
    remember(edges, [1, 2], [3])
    edges[0, 0] = 1
    assert recall(edges) is None


def test_edges_made_for_inference_only():
    with torch.inference_mode():
        edges = torch.zeros(2, 3, dtype=torch.long)
        remember(edges, [1, 2], [3])
        assert recall(edges) is not None


@pytest.mark.parametrize("pyg", [True, False])
def test_loaders_keep_the_counts_of_their_batches(pyg):
    if pyg:
        pytest.importorskip("torch_geometric")
    loader = Loader(small_graph(), [3, 2], None, 40, contents=BatchContents(pyg=pyg))
    for batch in some(loader):
        found = recall(batch.edge_index)
        assert found is not None
        assert list(found.nodes) == batch.num_sampled_nodes
        assert list(found.edges) == batch.num_sampled_edges
    loader.close()
