"""The accelerated module behaves as the model: saved, copied, moved, distributed, in threads."""

import copy
import io
import random
import threading
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from foregather.errors import AccelerateWarning, InputError
from foregather.nn import Accelerated, accelerate
from tests.nn.accelerate_cases import (
    WIDTH,
    assert_near,
    one_batch,
    outcome,
)
from tests.some import some

pyg = pytest.importorskip("torch_geometric.nn")


@pytest.fixture(scope="module")
def batch():
    return one_batch([4, 3])


def made(**options):
    torch.manual_seed(0)
    return pyg.GraphSAGE(WIDTH, 8, 2, 3, **options).double()


def test_it_has_the_models_names_and_parameters():
    model = made()
    fast = accelerate(model)
    assert isinstance(fast, Accelerated)
    assert list(fast.state_dict()) == list(model.state_dict())
    assert [name for name, _ in fast.named_parameters()] == [n for n, _ in model.named_parameters()]
    assert all(a is b for a, b in zip(fast.parameters(), model.parameters(), strict=True))
    assert fast.convs[0] is model.convs[0]
    assert fast.num_layers == 2
    other = made()
    nn.init.zeros_(other.convs[0].lin_l.weight)
    fast.load_state_dict(other.state_dict())
    assert not model.convs[0].lin_l.weight.any()
    with pytest.raises(AttributeError):
        _ = fast.nothing


def test_inside_another_module_it_is_saved_and_loaded():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = accelerate(made())

    outer, other = Outer(), Outer()
    nn.init.zeros_(outer.inner.convs[0].lin_l.weight)
    other.load_state_dict(outer.state_dict())
    assert not other.inner.accelerated_model.convs[0].lin_l.weight.any()


def test_modes_and_moves():
    model = made()
    fast = accelerate(model)
    assert not fast.eval().training
    assert not any(part.training for part in some(model.modules()))
    fast.train()
    assert all(part.training for part in some(model.modules()))
    fast.float()
    assert {part.dtype for part in model.parameters()} == {torch.float32}
    fast.dropout.p = 0.25
    assert model.dropout.p == 0.25
    fast.note = "set on the model"
    assert model.note == "set on the model"


def test_copies_and_pickles(batch):
    fast = accelerate(made())
    expected = fast(batch.x, batch.edge_index)
    again = copy.deepcopy(fast)
    assert again.plain is None
    assert again.convs[0] is again.accelerated_model.convs[0]
    assert again.convs[0] is not fast.convs[0]
    assert torch.equal(again(batch.x, batch.edge_index), expected)
    file = io.BytesIO()
    torch.save(fast, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert torch.equal(loaded(batch.x, batch.edge_index), expected)


def test_accelerating_twice_is_accelerating_once():
    fast = accelerate(made())
    assert accelerate(fast).accelerated_model is fast.accelerated_model


def test_one_in_another_is_one_pass(batch):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.last = accelerate(made()), pyg.SAGEConv(3, 2).double()

        def forward(self, x, edge_index):
            return self.last(self.inner(x, edge_index), edge_index)

    deep, model = one_batch([3, 3, 2]), Outer()
    expected = model.last(model.inner.accelerated_model(deep.x, deep.edge_index), deep.edge_index)
    fast = accelerate(model)
    got = fast(deep.x, deep.edge_index)
    assert fast.plain is None
    assert_near(got, expected[: deep.batch_size])


def test_what_is_not_a_model():
    with pytest.raises(InputError, match="expected a torch module"):
        accelerate(3)
    with pytest.raises(InputError, match='"exact" or "needed"'):
        accelerate(made(), norms="all")


def test_evaluation_without_gradients(batch):
    model = made(norm="batch_norm").train()
    model(batch.x, batch.edge_index)
    fast = accelerate(model).eval()
    expected = model(batch.x, batch.edge_index)[: batch.batch_size]
    with torch.no_grad():
        assert_near(fast(batch.x, batch.edge_index), expected)
    with torch.inference_mode():
        assert_near(accelerate(model)(batch), expected)
    assert fast.plain is None
    with pytest.warns(AccelerateWarning, match=r"norms\.0"):
        fast.train()(batch.x, batch.edge_index)
    assert "evaluation: accelerated" in fast.explain()
    assert "training: plain" in fast.explain()
    assert fast.eval().plain is None


def seed_all():
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002  (the state that a model may use)


def draw_all():
    return random.random(), np.random.random()  # noqa: NPY002


def test_the_proof_leaves_no_trace(batch):
    model = made(norm="batch_norm", dropout=0.5)
    before = copy.deepcopy(model.state_dict())
    seed_all()
    fast = accelerate(model)
    with pytest.warns(AccelerateWarning):
        fast(batch.x, batch.edge_index)
    after = torch.rand(2), draw_all()
    assert all(part.grad is None for part in some(model.parameters()))
    plain = made(norm="batch_norm", dropout=0.5)
    plain.load_state_dict(before)
    seed_all()
    plain(batch.x, batch.edge_index)
    assert torch.equal(after[0], torch.rand(2))
    assert after[1] == draw_all()
    for name, value in some(plain.state_dict().items()):
        assert torch.equal(model.state_dict()[name], value), name


def test_dropout_is_kept(batch):
    model = made(dropout=0.5)
    fast = accelerate(model)
    one, two = fast(batch.x, batch.edge_index), fast(batch.x, batch.edge_index)
    assert fast.plain is None
    assert not torch.equal(one, two)
    many = torch.stack([fast(batch.x, batch.edge_index) for _ in range(300)]).mean(0)
    fast.eval()
    gap = (many - fast(batch.x, batch.edge_index)).abs().max()
    assert gap < 0.5 * (one - two).abs().max()
    gat = accelerate(pyg.GAT(WIDTH, 8, 2, 4, heads=2).double())
    for conv in gat.convs:
        conv.dropout = 0.5
    assert not torch.equal(gat(batch.x, batch.edge_index), gat(batch.x, batch.edge_index))
    assert gat.plain is None


def test_other_precisions(batch):
    model = made()
    fast = accelerate(model)
    expected = fast(batch.x, batch.edge_index).detach()
    fast.float()
    single = fast(batch.x.float(), batch.edge_index)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), expected, rtol=1e-4, atol=1e-5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = fast(batch.x.float(), batch.edge_index)
        plain = model(batch.x.float(), batch.edge_index)
    assert half.dtype == plain.dtype
    torch.testing.assert_close(half.double(), expected, rtol=0.1, atol=0.05)
    half.float().sum().backward()
    for other in (pyg.GCN(WIDTH, 8, 2, 3), pyg.GAT(WIDTH, 8, 2, 4, heads=2, v2=True)):
        quick = accelerate(other)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = quick(batch.x.float(), batch.edge_index)
            plain = other(batch.x.float(), batch.edge_index)[: batch.batch_size]
        assert quick.plain is None
        torch.testing.assert_close(half.float(), plain.float(), rtol=0.1, atol=0.05)
        half.float().sum().backward()
    fast.bfloat16()
    out = fast(batch.x.bfloat16(), batch.edge_index)
    assert out.dtype == torch.bfloat16
    assert fast.plain is None


def test_lazy_models_are_proven_when_they_know_their_sizes(batch):
    model = pyg.GraphSAGE(-1, 8, 2, 3).double()
    fast = accelerate(model)
    assert fast(batch.x, batch.edge_index).shape[0] == batch.num_nodes
    assert fast(batch.x, batch.edge_index).shape[0] == batch.batch_size


def test_compiled_and_scripted_models_are_plain(batch):
    compiled = torch.compile(made(), backend="eager")
    fast = accelerate(compiled)
    assert "compile" in fast.plain
    with pytest.warns(AccelerateWarning, match="compile"):
        assert fast(batch.x, batch.edge_index).shape[0] == batch.num_nodes


def test_another_thread_is_not_disturbed(batch):
    """One thread accelerated, one plain, with the same modules, at the same time."""
    model = made()
    fast = accelerate(model)
    near, whole = fast(batch.x, batch.edge_index), model(batch.x, batch.edge_index)
    wrong: list[str] = []

    def repeat(call, expected):
        for _ in range(30):
            if not torch.equal(call(batch.x, batch.edge_index), expected):
                wrong.append(repr(call))

    threads = [
        threading.Thread(target=repeat, args=pair)
        for pair in ((fast, near), (model, whole), (fast, near))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert all("forward" not in part.__dict__ for part in some(model.modules()))


def test_a_copy_made_during_a_pass_is_its_own(batch):
    copies = []

    class Copies(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = pyg.SAGEConv(WIDTH, 3)

        def forward(self, x, edge_index):
            if len(copies) < 30:
                copies.append(copy.deepcopy(self.conv))
            return self.conv(x, edge_index)

    model = Copies().double()
    fast = accelerate(model)
    fast(batch.x, batch.edge_index)
    for made_then in some(copies):
        nn.init.zeros_(made_then.lin_l.weight), nn.init.zeros_(made_then.lin_l.bias)
        nn.init.zeros_(made_then.lin_r.weight)
        assert not made_then(batch.x.to(made_then.lin_l.weight.dtype), batch.edge_index).any()


def test_hooks_see_what_modules_do(batch):
    model = made()
    fast = accelerate(model)
    fast(batch.x, batch.edge_index)
    seen = []
    model.convs[1].register_forward_hook(lambda module, args, out: seen.append(out.shape[0]))
    model.register_forward_hook(lambda module, args, out: seen.append("model"))
    got = fast(batch.x, batch.edge_index)
    assert seen[-2:] == [batch.batch_size, "model"]
    model.convs[0].lin_l.register_forward_hook(lambda module, args, out: out * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccelerateWarning)
        changed = fast(batch.x, batch.edge_index)
    assert_near(changed[: batch.batch_size], model(batch.x, batch.edge_index)[: batch.batch_size])
    assert not torch.equal(changed[: batch.batch_size], got)


def test_gradients_of_weights_of_edges(batch):
    model = pyg.GCN(WIDTH, 8, 2, 3).double()
    fast, grads = accelerate(model), []
    for call in (fast, model):
        weight = batch.edge_weight.clone().requires_grad_()
        call(batch.x, batch.edge_index, edge_weight=weight)[: batch.batch_size].sum().backward()
        grads.append(weight.grad)
    assert fast.plain is None
    assert_near(*grads)


def test_training_together_over_ranks(batch, tmp_path):
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    distributed.init_process_group("gloo", f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        model = made()
        expected = outcome(copy.deepcopy(model), batch.batch_size, batch.x, batch.edge_index)
        fast = accelerate(model)
        parallel = DistributedDataParallel(fast)
        got = parallel(batch.x, batch.edge_index)
        assert fast.plain is None
        assert_near(got, expected[0])
        factor = torch.randn(got.shape, generator=torch.Generator().manual_seed(1))
        (got * factor.double()).sum().backward()
        assert_near(model.convs[0].lin_l.weight.grad, expected[1]["convs.0.lin_l.weight"])
        assert "accelerate(model)" in accelerate(DistributedDataParallel(made())).plain
    finally:
        distributed.destroy_process_group()
