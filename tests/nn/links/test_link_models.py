"""Links: decoders against plain loops, losses against torch, LightGCN against PyG's."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.errors import InputError
from foregather.nn.links.decoders import DECODERS, make_decoder
from foregather.nn.links.lookup import LightGCN, Lookup
from foregather.nn.links.losses import LOSSES, link_loss
from foregather.nn.links.model import LinkModel, links_of


@pytest.mark.parametrize("kind", DECODERS)
def test_pairs_and_matrices_agree(kind):
    torch.manual_seed(0)
    decoder = make_decoder(kind, 5, 3 if kind == "distmult" else 0)
    left, right = torch.randn(7, 5), torch.randn(4, 5)
    relation = torch.randint(3, (7,)) if kind == "distmult" else None
    whole = decoder.against(left, right, relation)
    for i in range(7):
        for j in range(4):
            named = None if relation is None else relation[i]
            assert torch.allclose(whole[i, j], decoder(left[i], right[j], named), atol=1e-5)
    one = None if relation is None else relation[:1].expand(4)
    back = decoder.against_sources(right, left, one)
    same = None if relation is None else relation[:1].expand(7)
    assert torch.allclose(back.T, decoder.against(left, right, same), atol=1e-5)
    if decoder.product:
        assert torch.allclose(whole, decoder.queries(left, relation) @ right.T)


def test_distmult_is_a_product_of_three():
    decoder = make_decoder("distmult", 3, 2)
    a, b = torch.randn(3), torch.randn(3)
    rows = decoder.state_dict()["relation"]
    found = decoder(a, b, torch.tensor(1))
    assert torch.allclose(found, (a * rows[1] * b).sum())


@pytest.mark.parametrize("kind", DECODERS)
def test_symmetric_decoders_are_those_that_say_so(kind):
    torch.manual_seed(0)
    decoder = make_decoder(kind, 5)
    left, right = torch.randn(2, 6, 5)
    same = torch.allclose(decoder(left, right), decoder(right, left), atol=1e-6)
    assert same == decoder.symmetric == (kind not in ("bilinear", "mlp"))


def test_hadamard_is_layers_over_the_product():
    decoder = make_decoder("hadamard", 4)
    left, right = torch.randn(2, 3, 4)
    rows = decoder.second(decoder.first(left * right).relu()).relu()
    assert torch.allclose(decoder(left, right), decoder.last(rows)[:, 0])
    queries = decoder(left.unsqueeze(1), torch.stack([right, left], dim=1))
    assert torch.allclose(queries[:, 0], decoder(left, right), atol=1e-6)


def test_refused_decoders():
    with pytest.raises(InputError, match="the decoder is 'cosine', expected dot, bilinear"):
        make_decoder("cosine", 3)
    with pytest.raises(InputError, match="4 relations, which the decoder dot does not tell apart"):
        make_decoder("dot", 3, 4)
    with pytest.raises(InputError, match="not said which one a pair is of"):
        make_decoder("distmult", 3, 2)(torch.ones(3), torch.ones(3))


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_losses_are_sums_over_pairs(n, k, seed):
    draw = torch.Generator().manual_seed(seed)
    positive = torch.randn(n, generator=draw, dtype=torch.float64)
    negative = torch.randn(n, k, generator=draw, dtype=torch.float64)
    found = {kind: float(link_loss(kind, positive, negative, 0.5)) for kind in LOSSES}
    p, q = positive.numpy(), negative.numpy()
    assert found["bpr"] == pytest.approx(
        np.mean([-np.log(1 / (1 + np.exp(q[i, j] - p[i]))) for i in range(n) for j in range(k)])
    )
    assert found["margin"] == pytest.approx(np.maximum(0, 0.5 - p[:, None] + q).mean())
    terms = [np.log1p(np.exp(-p)).sum(), np.log1p(np.exp(q)).sum()]
    assert found["bce"] == pytest.approx(sum(terms) / (n + n * k))
    each = np.log(np.exp(p) + np.exp(q).sum(1)) - p
    assert found["softmax"] == pytest.approx(each.mean())


def test_refused_losses():
    with pytest.raises(InputError, match="the loss is 'l2', expected bce, bpr"):
        link_loss("l2", torch.ones(2), torch.ones(2, 1))
    with pytest.raises(InputError, match=r"its own negatives, \[2, k\], but they are \[3\]"):
        link_loss("bpr", torch.ones(2), torch.ones(3))


def bipartite(users=6, items=5, links=14, seed=0):
    draw = np.random.default_rng(seed)
    return draw.integers(users, size=links), draw.integers(items, size=links)


def test_lightgcn_equals_pyg():
    pyg = pytest.importorskip("torch_geometric.nn.models")
    sources, targets = bipartite()
    ours = LightGCN((6, 5), False, 4, layers=3)
    ours.set_edges(sources, targets)
    theirs = pyg.LightGCN(11, 4, num_layers=3)
    with torch.no_grad():
        theirs.embedding.weight.copy_(torch.cat(ours.weights()))
    pairs = np.unique(np.stack([sources, targets + 6]), axis=1)
    edges = torch.from_numpy(np.concatenate([pairs, pairs[::-1]], axis=1).copy())
    expected = theirs.get_embedding(edges)
    left, right = ours.every()
    assert torch.allclose(torch.cat([left, right]), expected, atol=1e-6)
    weigh = torch.randn(11, 4)
    (torch.cat([left, right]) * weigh).sum().backward()
    (expected * weigh).sum().backward()
    found = torch.cat([table.weight.grad for table in ours.tables])
    assert torch.allclose(found, theirs.embedding.weight.grad, atol=1e-6)


def test_lightgcn_on_one_type_and_without_links():
    model = LightGCN((4, 4), True, 3, layers=1)
    with pytest.raises(InputError, match="no links to pass rows along"):
        model.every()
    model.set_edges(np.array([0, 1]), np.array([1, 0]))
    rows, same = model.every()
    assert rows is same
    own = model.weights()[0]
    assert torch.allclose(rows[0], (own[0] + own[1]) / 2)  # both directions are one link
    assert torch.allclose(rows[3], own[3] / 2)


def plain_batch(**fields):
    return SimpleNamespace(n_id=torch.tensor([5, 2, 0, 7]), input_id=None, **fields)


def test_triplets_and_binary_links_of_a_batch():
    model = LinkModel(Lookup((8, 8), True, 3), make_decoder("dot", 3))
    own = model.encoder.weights()[0]
    batch = plain_batch(
        src_index=torch.tensor([0, 1]),
        dst_pos_index=torch.tensor([2, 3]),
        dst_neg_index=torch.tensor([[3, 1], [0, 0]]),
    )
    positive, negative, links = model(batch)
    assert torch.allclose(positive, torch.stack([own[5] @ own[0], own[2] @ own[7]]))
    assert torch.allclose(negative[0], torch.stack([own[5] @ own[7], own[5] @ own[2]]))
    assert links.label is None and links.negative.shape == (2, 2)
    batch = plain_batch(
        edge_label_index=torch.tensor([[0, 1], [1, 1]]), edge_label=torch.tensor([1.0, 0.0])
    )
    positive, negative, links = model(batch)
    assert negative.shape == (2, 0) and links.label.tolist() == [1, 0]
    with pytest.raises(InputError, match="holds no links"):
        links_of(plain_batch())


def test_too_few_rows_are_refused():
    class Short(torch.nn.Module):
        def forward(self, batch):
            return torch.ones(1, 3), torch.ones(1, 3)

    model = LinkModel(Short(), make_decoder("dot", 3))
    with pytest.raises(InputError, match="gave 1 rows, but the links of the batch need 2"):
        model(plain_batch(edge_label_index=torch.tensor([[0], [1]])))
