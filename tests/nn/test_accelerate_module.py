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
from foregather.nn import SAGE, Accelerated, accelerate
from foregather.nn.arguments import call_arguments
from foregather.train.metrics import forward
from tests.nn.accelerate_cases import (
    WIDTH,
    assert_near,
    batches,
    in_double,
    one_batch,
    outcome,
    random_graph,
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


def test_what_is_not_a_model():
    with pytest.raises(InputError, match="expected a torch module"):
        accelerate(3)
    with pytest.raises(InputError, match='"exact" or "needed"'):
        accelerate(made(), norms="all")


def test_counts_by_every_way(batch):
    model = made()
    expected = model(batch.x, batch.edge_index)[: batch.batch_size]
    known = {"num_sampled_nodes": batch.num_sampled_nodes}
    counts = {f"{name}_per_hop": getattr(batch, name) for name in (*known, "num_sampled_edges")}
    fresh = batch.edge_index.clone()
    calls = [
        lambda fast: fast(batch),
        lambda fast: fast(batch.x, batch.edge_index),
        lambda fast: fast(x=batch.x, edge_index=batch.edge_index),
        lambda fast: fast(batch.x, fresh, **counts),
        lambda fast: fast(batch.x, fresh, None, None, None, None, *counts.values()),
    ]
    for call in some(calls):
        fast = accelerate(model)
        got = call(fast)
        assert fast.plain is None, fast.plain
        assert got.shape[0] == batch.batch_size
        assert_near(got, expected)


def test_without_counts_it_runs_plain(batch):
    model = made()
    fast = accelerate(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = fast(batch.x, batch.edge_index.clone())
    assert torch.equal(got, model(batch.x, batch.edge_index))
    assert "how many nodes and edges" in fast.plain
    assert "not proven yet" in fast.explain()


def test_edges_changed_in_place_are_not_taken_for_the_batchs(batch):
    edges = one_batch([4, 3]).edge_index
    edges[0, 0] = 0
    fast = accelerate(made())
    assert fast(batch.x, edges).shape[0] == batch.num_nodes


@pytest.mark.parametrize("change", ["nodes", "edges", "order", "sum"])
def test_counts_that_do_not_fit_are_not_used(change, batch):
    nodes, edges = list(batch.num_sampled_nodes), list(batch.num_sampled_edges)
    index = batch.edge_index.clone()
    if change == "nodes":
        nodes[0], nodes[1] = nodes[0] - 1, nodes[1] + 1
    elif change == "edges":
        edges[0], edges[1] = edges[0] - 1, edges[1] + 1
    elif change == "order":
        index = index.flip(1)
    else:
        edges[1] += 1
    model = made()
    fast = accelerate(model)
    counts = {"num_sampled_nodes_per_hop": nodes, "num_sampled_edges_per_hop": edges}
    try:
        expected = model(batch.x, index, **counts)
    except (RuntimeError, IndexError):
        pytest.skip("the model cannot trim by these counts either")
    assert torch.equal(fast(batch.x, index, **counts), expected)
    assert "do not fit" in fast.plain


def test_edges_of_a_hop_in_another_order(batch):
    """Kernels need ascending targets; the modules' own code does not."""
    model = made()
    start, parts = 0, []
    for count in batch.num_sampled_edges:
        parts.append(torch.randperm(count) + start)
        start += count
    index = batch.edge_index[:, torch.cat(parts)]
    fast = accelerate(model)
    got = fast(
        batch.x,
        index,
        num_sampled_nodes_per_hop=batch.num_sampled_nodes,
        num_sampled_edges_per_hop=batch.num_sampled_edges,
    )
    assert fast.plain is None
    assert "its own code" in fast.explain()
    assert_near(got, model(batch.x, batch.edge_index)[: batch.batch_size])


def test_models_that_take_the_batch(batch):
    class Takes(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = made()

        def forward(self, batch):
            return self.inner(batch.x, batch.edge_index)

    model = Takes()
    fast = accelerate(model)
    got = fast(batch)
    assert fast.plain is None
    assert got.shape[0] == batch.batch_size
    assert_near(got, model(batch)[: batch.batch_size])
    plain = batches(random_graph(), [4, 3], pyg=False)[0]
    single = accelerate(Takes().float())
    assert single(plain).shape[0] == plain.batch_size
    assert single.plain is None


def test_models_that_trim_by_themselves(batch):
    from torch_geometric.utils import trim_to_layer

    class Trims(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList([pyg.SAGEConv(WIDTH, 8), pyg.SAGEConv(8, 8)])

        def forward(self, x, edge_index, num_sampled_nodes, num_sampled_edges):
            for place, conv in enumerate(self.convs):
                x, edge_index, _ = trim_to_layer(
                    place, num_sampled_nodes, num_sampled_edges, x, edge_index
                )
                x = conv(x, edge_index).relu()
            return x

    model = Trims().double()
    fast = accelerate(model)
    got = fast(batch)
    assert fast.plain is None, fast.plain
    args, named = call_arguments(model, batch, torch.float64)
    assert_near(got, model(*args, **named)[: batch.batch_size])


def test_training_uses_it_as_any_model(batch):
    single = batches(random_graph(), [4, 3], pyg=False)[0]
    model = SAGE([WIDTH, 8, 3], dropout=0.0)
    fast = accelerate(model)
    got = forward(fast, single)
    assert fast.plain is None
    torch.testing.assert_close(got, forward(model, single))


def test_edge_index_of_pyg(batch):
    from torch_geometric import EdgeIndex

    model = made()
    edges = EdgeIndex(batch.edge_index, sparse_size=(batch.num_nodes,) * 2, sort_order="col")
    fast = accelerate(model)
    got = fast(
        batch.x,
        edges,
        num_sampled_nodes_per_hop=batch.num_sampled_nodes,
        num_sampled_edges_per_hop=batch.num_sampled_edges,
    )
    assert fast.plain is None, fast.plain
    assert_near(got, model(batch.x, batch.edge_index)[: batch.batch_size])


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


def test_hops_of_one_node_run_plain():
    alone = one_batch([4, 3], size=1)
    model = made()
    fast = accelerate(model)
    assert torch.equal(fast(alone.x, alone.edge_index), model(alone.x, alone.edge_index))
    assert "one node" in fast.plain


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


def test_batches_of_pygs_own_loader():
    pytest.importorskip("pyg_lib")
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    rng = torch.Generator().manual_seed(0)
    data = Data(
        x=torch.randn(300, WIDTH, generator=rng),
        edge_index=torch.randint(300, (2, 2000), generator=rng),
    )
    model = made()
    fast = accelerate(model)
    for found in some(NeighborLoader(data, [4, 3], batch_size=50)):
        batch = in_double(found)
        got = fast(batch)
        assert got.shape[0] == batch.batch_size
        assert_near(got, model(batch.x, batch.edge_index)[: batch.batch_size])
    assert fast.plain is None
