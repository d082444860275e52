"""A call with a batch gives what the model gives untrimmed, also where trimming changes it."""

from contextlib import nullcontext

import pytest
import torch

pytest.importorskip("torch_geometric")
from torch_geometric.data import Data
from torch_geometric.nn import models

from foregather.errors import AccelerateWarning
from foregather.nn import accelerate
from foregather.nn.arguments import call_arguments
from foregather.nn.trimming import trims_alike
from tests.nn.accelerate_cases import WIDTH, assert_near, one_batch

ALIKE = [
    (models.GraphSAGE, {}),
    (models.GIN, {}),
    (models.GAT, {"heads": 2}),
    (models.EdgeCNN, {}),
    (models.GCN, {"normalize": False}),
]


class Center(torch.nn.Module):
    """A norm of one's own, over nodes."""

    def forward(self, x):
        return x - x.mean(0)


OTHERS = [
    (models.GraphSAGE, {"norm": Center()}),
    (models.GraphSAGE, {"act": lambda x: x - x.mean(0)}),
    (models.GraphSAGE, {"act": torch.nn.Softmax(dim=0)}),
    (models.GraphSAGE, {"flow": "target_to_source"}),
    (models.GCN, {}),
    (models.GCN, {"improved": True}),
    (models.GCN, {"add_self_loops": False}),
    (models.GraphSAGE, {"norm": "batch_norm"}),
    (models.GraphSAGE, {"norm": "pair_norm"}),
    (models.GIN, {"norm": "graph_norm"}),
]


@pytest.fixture(scope="module")
def batch():
    return one_batch([5, 4, 3])


def made(kind, options):
    torch.manual_seed(3)
    return kind(WIDTH, 8, 3, 5, **options).double()


def weights(model, batch):
    return {"edge_weight": batch.edge_weight} if model.supports_edge_weight else {}


def counts(batch):
    return {
        "num_sampled_nodes_per_hop": batch.num_sampled_nodes,
        "num_sampled_edges_per_hop": batch.num_sampled_edges,
    }


def untrimmed(model, batch):
    x = batch.x.double()
    return model(x, batch.edge_index, **weights(model, batch))[: batch.batch_size]


@pytest.mark.parametrize(("kind", "options"), ALIKE + OTHERS)
def test_a_batch_is_computed_untrimmed(batch, kind, options):
    model = made(kind, options)
    want = untrimmed(model, batch)
    args, named = call_arguments(model, batch, torch.float64)
    assert_near(model(*args, **named)[: batch.batch_size], want)
    with pytest.warns(AccelerateWarning) if {"norm", "act", "flow"} & {*options} else nullcontext():
        got = accelerate(model)(batch)[: batch.batch_size]
    assert_near(got, want)


@pytest.mark.parametrize(("kind", "options"), ALIKE)
def test_what_trims_alike_is_trimmed(batch, kind, options):
    model = made(kind, options)
    assert trims_alike(model)
    _, named = call_arguments(model, batch, torch.float64)
    assert "num_sampled_nodes_per_hop" in named
    assert len(model(batch.x.double(), batch.edge_index, **named)) < len(batch.x)


@pytest.mark.parametrize(("kind", "options"), OTHERS)
def test_what_does_not_would_give_other_scores(batch, kind, options):
    """So leaving the counts out is needed, and not only careful."""
    model = made(kind, options)
    assert not trims_alike(model)
    given = {**counts(batch), **weights(model, batch)}
    trimmed = model(batch.x.double(), batch.edge_index, **given)[: batch.batch_size]
    assert not torch.allclose(trimmed, untrimmed(model, batch))
    _, named = call_arguments(model, batch, torch.float64)
    assert not named.keys() & counts(batch).keys()


def test_gcn_is_accelerated_on_batches_of_other_loaders(batch):
    """Their counts are taken from the batch, although the model does not get them."""
    other = Data(**{name: batch[name] for name in ("x", "batch_size")})
    other.edge_index = batch.edge_index.clone()
    other.num_sampled_nodes = list(batch.num_sampled_nodes)
    other.num_sampled_edges = list(batch.num_sampled_edges)
    model = made(models.GCN, {})
    fast = accelerate(model)
    got = fast(other)
    assert fast.plain is None, fast.plain
    assert got.shape[0] == batch.batch_size
    assert_near(got, model(batch.x.double(), batch.edge_index)[: batch.batch_size])


def test_counts_that_are_given_trim(batch):
    """Who calls the model with counts asks for what the model does with them."""
    model = made(models.GCN, {})
    x = batch.x.double()
    want = model(x, batch.edge_index, **counts(batch))[: batch.batch_size]
    assert_near(accelerate(model)(x, batch.edge_index, **counts(batch))[: batch.batch_size], want)


def test_models_of_ones_own_decide_what_counts_do(batch):
    class Own(torch.nn.Module):
        def forward(self, x, edge_index, num_sampled_nodes_per_hop=None):
            return x

    _, named = call_arguments(Own(), batch, torch.float64)
    assert [*named] == ["num_sampled_nodes_per_hop"]
