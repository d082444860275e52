"""GraphSAINT in training: every layer sees the edges of a subgraph, and losses are unbiased."""

from pathlib import Path

import numpy as np
import pytest
import torch

from foregather import BatchContents, Graph, Loader
from foregather.graph.synthetic import synthesize
from foregather.nn.by_name import ModelShape, make_plain_model
from foregather.sampling import RandomWalk, Saint
from foregather.train.metrics import forward
from foregather.train.rank_agreement import Together
from foregather.train.settings import ModelSettings, SamplerSettings
from foregather.train.tasks.classes import Classification, Multilabel
from foregather.train.tasks.numbers import Regression
from foregather.train.trainers.sampled import SampledTrainer
from tests.some import some
from tests.train.runs import settings_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("saint") / "g"
    synthesize(path, 300, degree=5, features=8, classes=3, seed=0)
    return path


@pytest.mark.parametrize("kind", ["gcn", "gat", "gin", "sage"])
@pytest.mark.parametrize("sampler", [RandomWalk(3), Saint("walk", 20), Saint("node", 60)])
def test_every_layer_of_a_model_has_the_edges_of_a_subgraph(folder, kind, sampler):
    graph = Graph.open(folder)
    contents = BatchContents("seeds", norm="gcn" if kind == "gcn" else None, pyg=False)
    batch = next(iter(Loader(graph, None, "train", 20, sampler=sampler, contents=contents)))
    model = make_plain_model(kind, ModelShape(8, 16, 3, 3, 0.0), {}).eval()
    weight = {}
    if batch.edge_weight is not None and kind in ("gcn",):
        weight = {"edge_weight": batch.edge_weight}
    with torch.no_grad():
        found = forward(model, batch)
        whole = model(batch.x, batch.edge_index, **weight)[: batch.batch_size]
        blind = model(batch.x, batch.edge_index[:, :0], **{n: w[:0] for n, w in weight.items()})
    assert torch.equal(found, whole) or torch.allclose(found, whole, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(found, blind[: batch.batch_size], atol=1e-3)


@pytest.mark.parametrize("kind", ["saint-node", "saint-edge"])
def test_losses_are_those_of_the_training_nodes_expected(folder, tmp_path, kind):
    settings = settings_of(
        folder,
        tmp_path / "r",
        model=ModelSettings("sage", hidden=8),
        sampler=SamplerSettings(kind, fanouts=(5, 5), options={"size": 80, "coverage": 400}),
    )
    trainer = SampledTrainer(settings, Path(tmp_path), lambda _: None, Together())
    training, graph = trainer.training, trainer.graph
    # scores that depend on the node alone, with losses that depend on how often it is drawn
    degree = np.bincount(graph.indices, minlength=graph.num_nodes)
    rows = torch.zeros(graph.num_nodes, 3)
    rows[:, 0] = torch.from_numpy(np.minimum(degree, 12).astype(np.float32))
    train = torch.from_numpy(np.array(graph.split("train"), np.int64))
    labels = torch.from_numpy(np.array(graph.labels)).long()
    wanted = float(training.goal.task.loss(rows[train], labels[train]))
    weighted, plain = [], []
    for _ in range(100):
        for batch in training.loader:
            scores, own = rows[batch.n_id[: batch.batch_size]], training.labels(batch)
            weighted.append(float(training.loss(batch, scores, own)))
            plain.append(float(training.goal.task.loss(scores, own)))
    spread = np.std(weighted) / np.sqrt(len(weighted))
    assert len(weighted) == 200
    assert abs(np.mean(weighted) - wanted) < 4 * spread + 0.02 * wanted
    assert abs(np.mean(plain) - wanted) > abs(np.mean(weighted) - wanted)


def test_walks_and_others_have_no_weights(folder, tmp_path):
    for kind, options in some([("saint-walk", {}), ("saint-node", {"normalise": False})]):
        settings = settings_of(
            folder, tmp_path / kind, sampler=SamplerSettings(kind, (5, 5), options=options)
        )
        made = SampledTrainer(settings, Path(tmp_path), lambda _: None, Together())
        assert made.training.loss_weight is None


def test_the_loss_of_each_node():
    torch.manual_seed(0)
    scores, classes = torch.randn(6, 4), torch.tensor([0, 3, -1, 2, 1, -1])
    each = Classification(4).loss_each(scores, classes)
    assert each[[2, 5]].tolist() == [0, 0]
    assert torch.allclose(each.sum() / 4, Classification(4).loss(scores, classes))
    many = torch.tensor([[1, 0, -1, 1]] * 5 + [[-1] * 4])
    each = Multilabel(4).loss_each(scores, many)
    assert each[5] == 0 and torch.allclose(each[:5].mean(), Multilabel(4).loss(scores, many))
    task = Regression((1.0, 2.0), (3.0, 0.5))
    numbers = torch.tensor([[1.0, 2.0]] * 5 + [[float("nan")] * 2])
    pairs = scores[:, :2].clone().requires_grad_()
    each = task.loss_each(pairs, numbers)
    assert each[5] == 0 and torch.allclose(each[:5].mean(), task.loss(pairs, numbers))
    each.sum().backward()
    assert torch.isfinite(pairs.grad).all() and (pairs.grad[5] == 0).all()
