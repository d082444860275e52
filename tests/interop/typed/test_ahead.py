"""Rows of typed data that are looked up in the producer: the same as if the loop had done it."""

import threading

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import SamplerOutput

from foregather.interop.finish import paired
from foregather.interop.pyg import NeighborLoader
from foregather.interop.typed import ahead as module
from tests.interop.typed.test_typed_seat import CITES, DATA, check_filter, example, ours, timed_data
from tests.some import some


@pytest.fixture
def threads(monkeypatch):
    """The threads in which rows were looked up ahead."""
    seen, look = [], module.Ahead.look

    def noted(self, *given):
        seen.append(threading.current_thread())
        return look(self, *given)

    monkeypatch.setattr(module.Ahead, "look", noted)
    return seen


def test_attributes_are_looked_up_in_the_producer(threads, monkeypatch):
    loader = ours(prefetch=2)
    monkeypatch.setattr("foregather.interop.attributes.rows_of", _only_arrays)
    for batch in some(loader):
        check_filter(batch, DATA)
    assert len(threads) == len(loader) and threading.main_thread() not in threads


def _only_arrays(value, index, dim):
    assert not isinstance(value, torch.Tensor), "a tensor was looked up in the loop"
    return torch.from_numpy(value[index.numpy()])


def test_data_with_times_too(threads):
    data = timed_data()
    for batch in some(NeighborLoader(data, [3], time_attr="time", batch_size=7, prefetch=2)):
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
    assert threads and threading.main_thread() not in threads


@pytest.mark.parametrize("how", ["in place", "another tensor", "with a gradient", "removed"])
def test_changes_during_a_loop_take_effect_at_once(how):
    data = example(1)
    for number, batch in enumerate(some(ours(data, batch_size=2, prefetch=4))):
        if how == "removed" and number:
            assert "x" not in batch["paper"]
        else:
            assert torch.equal(batch["paper"].x, data["paper"].x[batch["paper"].n_id])
        assert torch.equal(batch[CITES].edge_attr, data[CITES].edge_attr[batch[CITES].e_id])
        if how == "in place":
            data["paper"].x.add_(1)
            data[CITES].edge_attr.mul_(2)
        elif how == "another tensor":
            data["paper"].x = data["paper"].x + 1
            data[CITES].edge_attr = data[CITES].edge_attr + 1
        elif how == "with a gradient":
            data["paper"].x.requires_grad_()
            assert not number or batch["paper"].x.requires_grad
        elif "x" in data["paper"]:
            del data["paper"].x


def test_a_new_attribute_arrives():
    data = example(1)
    for number, batch in enumerate(some(ours(data, batch_size=4, prefetch=4))):
        assert ("late" in batch["paper"]) == (number > 0)
        data["paper"].late = torch.arange(40)


def test_a_changed_sample_is_looked_up_again():
    def other_nodes(out):
        out.node["paper"] = out.node["paper"].flip(0)
        return out

    def in_place(out):
        out.node["paper"].copy_(out.node["paper"].flip(0).clone())
        return out

    for change in some([other_nodes, in_place]):
        for batch in some(ours(transform_sampler_output=change, prefetch=4)):
            paper = batch["paper"]
            assert torch.equal(paper.x, DATA["paper"].x[paper.n_id])
            assert torch.equal(paper.y, DATA["paper"].y[paper.n_id])


def test_rows_of_every_kind():
    """Several arrays a type, of several shapes and dtypes; those that cannot be ahead too."""
    data = HeteroData()
    data["a"].x = torch.randn(9, 3)
    data["a"].half = torch.randn(9, 3).half()
    data["a"].wide = torch.randn(9, 2, 2, dtype=torch.float64)
    data["a"].flat = torch.arange(9)
    data["a"].turned = torch.randn(3, 9).t()
    data["a"].flag = torch.arange(9) % 2 == 0
    data["a"].empty = torch.randn(9, 0)
    data["a"].sparse = torch.eye(9).to_sparse()
    data["a", "to", "a"].edge_index = torch.randint(0, 9, (2, 30))
    data["a", "to", "a"].weight = torch.rand(30)
    for batch in some(NeighborLoader(data, [2], "a", batch_size=4, prefetch=2)):
        own = batch["a"]
        for name in some(["x", "half", "wide", "flat", "turned", "flag", "empty"]):
            assert torch.equal(own[name], data["a"][name][own.n_id]), name
            assert own[name].dtype == data["a"][name].dtype
        assert torch.equal(own.sparse.to_dense(), torch.eye(9)[own.n_id])
        edges = batch["a", "to", "a"]
        assert torch.equal(edges.weight, data["a", "to", "a"].weight[edges.e_id])


def test_a_tensor_frame():
    frame = pytest.importorskip("torch_frame", reason="pytorch-frame is not installed")
    numbers = torch.randn(40, 2)
    table = frame.TensorFrame(
        feat_dict={frame.numerical: numbers},
        col_names_dict={frame.numerical: ["a", "b"]},
        y=torch.arange(40),
    )
    data = example()
    data["paper"].tf = table
    for batch in some(ours(data, prefetch=2)):
        node = batch["paper"].n_id
        assert torch.equal(batch["paper"].tf.feat_dict[frame.numerical], numbers[node])
        assert torch.equal(batch["paper"].tf.y, node)


def test_ids_of_edges_and_whole_numbers_are_looked_up_in_the_producer(monkeypatch):
    made = torch.Generator().manual_seed(0)
    data = Data(
        x=torch.rand(40, 3, generator=made),
        y=torch.randint(-5, 1 << 40, (40,), generator=made),
        time=torch.randint(0, 40, (40,), generator=made),
        edge_index=torch.randint(0, 40, (2, 300), generator=made),
    )
    seen, numbers = [], module._numbers

    def noted(*given):
        seen.append(threading.current_thread())
        return numbers(*given)

    monkeypatch.setattr(module, "_numbers", noted)
    loader = NeighborLoader(data, [3, 2], time_attr="time", batch_size=7, prefetch=2)
    for batch in some(loader):
        assert torch.equal(batch.y, data.y[batch.n_id]) and batch.y.dtype == torch.int64
        assert torch.equal(data.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])
    # y, time and the ids of edges, and nothing of them in the loop
    assert len(seen) == 3 * len(loader) and threading.main_thread() not in seen


def test_ids_of_a_changed_sample_of_edges_are_those_of_the_change():
    def turned(out):
        out.row, out.col, out.edge = out.row.flip(0), out.col.flip(0), out.edge.flip(0)
        return out

    made = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 40, (2, 300), generator=made)
    data = Data(num_nodes=40, edge_index=edges, time=torch.zeros(40, dtype=torch.int64))
    how = {"time_attr": "time", "batch_size": 7, "transform_sampler_output": turned}
    for batch in some(NeighborLoader(data, [3, 2], **how)):
        assert torch.equal(edges[:, batch.e_id], batch.n_id[batch.edge_index])


def test_edges_are_copied_only_where_somebody_else_has_them():
    pairs = torch.arange(8).reshape(2, 4)
    out = SamplerOutput(pairs[0] * 0, pairs[0], pairs[1], None)
    assert paired(out, True).data_ptr() == pairs.data_ptr()
    assert torch.equal(paired(out, True), pairs)
    assert paired(out, False).data_ptr() != pairs.data_ptr()
    assert torch.equal(paired(out, False), pairs)
    for row, col in ((pairs[1], pairs[0]), (pairs[0], pairs[1].clone()), (pairs[0], pairs[0])):
        other = SamplerOutput(row, row, col, None)
        assert torch.equal(paired(other, True), torch.stack([row, col]))


def test_what_a_transform_keeps_is_not_the_batch():
    kept = []
    data = timed_data()
    keep = {"transform_sampler_output": lambda out: kept.append(out) or out}
    (batch, *_) = NeighborLoader(data, [3], time_attr="time", batch_size=7, **keep)
    before = batch.edge_index.clone()
    kept[0].row.zero_()
    assert before[0].any() and torch.equal(batch.edge_index, before)
