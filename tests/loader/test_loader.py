"""Loader: PyG's contract, the same batches however they are made, exact resume, clean ends."""

import gc
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import trim_to_layer

from foregather import BatchContents, Graph, InputError
from foregather.loader.batches.batch import Batch
from foregather.loader.batches.pyg_batch import to_pyg
from foregather.loader.loader import Loader
from foregather.loader.prefetch import THREAD_NAME
from foregather.sampling import FastGCN, Full, Ladies
from tests.loader.graphs import grouped, same_batch, small_graph
from tests.sampling.reference import ReferenceNeighbor
from tests.some import some

GRAPH = small_graph()
ONCE = ReferenceNeighbor((4, 3, 2))


def plain(graph: Graph = GRAPH, **options) -> Loader:
    defaults = {"sampler": ONCE, "input_nodes": "train", "batch_size": 8, "shuffle": True}
    return Loader(graph, **grouped({"pyg": False, **defaults, **options}))


def feed_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    gc.collect()
    assert feed_threads() == []


# ---- the contract --------------------------------------------------------------------------


@pytest.mark.parametrize("replace", [False, True])
def test_contract(replace):
    loader = plain(sampler=ReferenceNeighbor((4, -1, 2), replace=replace), edge_attr=True)
    targets = np.repeat(np.arange(GRAPH.num_nodes), GRAPH.in_degree())
    seen = []
    for number, batch in enumerate(loader):
        assert isinstance(batch, Batch) and batch.number == number
        n_id, e_id = batch.n_id.numpy(), batch.e_id.numpy()
        row, col = batch.edge_index.numpy()
        assert batch.n_id.dtype == batch.e_id.dtype == batch.edge_index.dtype == torch.int64
        # seeds first, each node once
        assert n_id[: batch.batch_size].tolist() == batch.seed_id.tolist()
        assert len(set(n_id.tolist())) == len(n_id) == batch.num_nodes
        np.testing.assert_array_equal(GRAPH.split("train")[batch.input_id], batch.seed_id)
        # messages flow along edges of the graph
        np.testing.assert_array_equal(GRAPH.indices[e_id], n_id[row])
        np.testing.assert_array_equal(targets[e_id], n_id[col])
        assert (np.diff(col) >= 0).all()
        # layers are contiguous blocks of nodes and edges
        assert sum(batch.num_sampled_nodes) == len(n_id)
        assert sum(batch.num_sampled_edges) == len(e_id)
        assert batch.num_sampled_nodes[0] == batch.batch_size
        known, start = np.cumsum(batch.num_sampled_nodes), 0
        for layer, count in enumerate(batch.num_sampled_edges):
            block = slice(start, start + count)
            begin = 0 if layer == 0 else known[layer - 1]
            assert ((col[block] >= begin) & (col[block] < known[layer])).all()
            assert (row[block] < known[layer + 1]).all()
            start += count
        # what is carried
        np.testing.assert_array_equal(batch.x, GRAPH.features[n_id])
        np.testing.assert_array_equal(batch.y, GRAPH.labels[n_id])
        np.testing.assert_array_equal(batch.edge_attr, GRAPH.edge_features[e_id])
        seen += batch.seed_id.tolist()
    assert sorted(seen) == sorted(GRAPH.split("train").tolist())
    assert len(loader) == number + 1 == 7


def test_yields_data_of_pyg_with_the_same_fields():
    for data, batch in some(zip(plain_as_pyg(), plain(), strict=True)):
        assert type(data) is Data
        data.validate()
        for name in ("x", "y", "edge_index", "n_id", "e_id", "input_id"):
            assert torch.equal(data[name], getattr(batch, name))
        assert isinstance(data.num_sampled_nodes, list) and isinstance(data.batch_size, int)
        assert data.num_nodes == batch.num_nodes and data.batch is None
        assert data.to("cpu").num_sampled_edges == batch.num_sampled_edges


def plain_as_pyg(**options) -> Loader:
    return Loader(GRAPH, None, "train", 8, sampler=ONCE, shuffle=True, **grouped(options))


@pytest.mark.parametrize("edge_index", ["tensor", "EdgeIndex"])
def test_trimming_changes_nothing_for_the_seeds(edge_index):
    torch.manual_seed(0)
    convs = [SAGEConv(6, 8), SAGEConv(8, 8), SAGEConv(8, 3)]
    for batch in some(plain_as_pyg(edge_index=edge_index)):
        whole, edges = batch.x, batch.edge_index
        trimmed, fewer = batch.x, batch.edge_index
        for layer, conv in enumerate(convs):
            whole = conv(whole, edges).relu()
            trimmed, fewer, _ = trim_to_layer(
                layer, batch.num_sampled_nodes, batch.num_sampled_edges, trimmed, fewer
            )
            trimmed = conv(trimmed, fewer).relu()
        size = batch.batch_size
        torch.testing.assert_close(trimmed[:size], whole[:size])


def test_per_layer_graphs():
    sampler = ReferenceNeighbor((3, 2), expand="per-layer")
    torch.manual_seed(0)
    convs = [SAGEConv(6, 8), SAGEConv(8, 3)]
    for batch in some(plain(sampler=sampler, norm="gcn")):
        assert batch.edge_index is None and len(batch.layers) == 2
        x = batch.x
        for conv, layer in zip(convs, batch.layers, strict=True):
            sources, targets = layer.size
            assert sources == x.shape[0] and layer.weight.shape == layer.e_id.shape
            np.testing.assert_array_equal(
                GRAPH.indices[layer.e_id], batch.n_id[layer.edge_index[0]]
            )
            x = conv((x, x[:targets]), layer.edge_index)
        assert x.shape == (batch.batch_size, 3)
        data = to_pyg(batch).to("cpu")
        assert data.edge_index is None and tuple(data.layers[0].size) == batch.layers[0].size
        moved = batch.to("cpu")
        assert torch.equal(moved.layers[1].edge_index, batch.layers[1].edge_index)
        assert moved.nbytes == batch.nbytes > 0


def test_repeated_seeds():
    nodes = np.array([5, 9, 5, 5, 7])
    (batch,) = plain(input_nodes=nodes, batch_size=5, shuffle=False)
    assert batch.batch_size == 3 and batch.n_id[:3].tolist() == [5, 9, 7]
    assert batch.n_id[batch.seed_position].tolist() == batch.seed_id.tolist() == nodes.tolist()
    assert batch.input_id.tolist() == [0, 1, 2, 3, 4]


def test_labels_of_seeds_and_no_features():
    graph = Graph.from_edge_index(np.array([[0, 1], [1, 2]]), 3)
    (batch,) = Loader(
        graph, sampler=ReferenceNeighbor((2,)), batch_size=9, contents=BatchContents(pyg=False)
    )
    assert batch.x is None and batch.y is None and batch.input_id.tolist() == [0, 1, 2]
    for batch in some(plain(labels="seeds")):
        np.testing.assert_array_equal(batch.y, GRAPH.labels[batch.seed_id])


def test_no_input_nodes_no_batches():
    assert list(plain(input_nodes=[])) == [] and len(plain(input_nodes=[])) == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_gcn_normalisation_is_the_whole_graphs(weighted):
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    rng = np.random.default_rng(3)
    pairs = rng.integers(0, 40, (2, 200))
    weight = rng.random(200) if weighted else None
    graph = Graph.from_edge_index(pairs, 50, edge_weight=weight)
    targets = np.repeat(np.arange(50), graph.in_degree())
    edge_index = torch.from_numpy(np.stack([graph.indices.astype(np.int64), targets]))
    given = None if graph.edge_weight is None else torch.from_numpy(graph.edge_weight)
    _, expected = gcn_norm(edge_index, given, 50, add_self_loops=False)
    contents = BatchContents(norm="gcn", pyg=False)
    for batch in some(Loader(graph, sampler=Full(2), batch_size=9, contents=contents)):
        torch.testing.assert_close(batch.edge_weight, expected[batch.e_id])
    for expand in ("once", "per-layer"):
        rule = ReferenceNeighbor((4, 3), expand=expand)
        contents = BatchContents(norm="gcn", pyg=False)
        for batch in some(Loader(graph, sampler=rule, batch_size=9, contents=contents)):
            # the sampled edges of a target stand for all it has in the graph
            target, end = targets[batch.e_id], 0
            for count in batch.num_sampled_edges if expand == "per-layer" else [len(target)]:
                layer = slice(end, end := end + count)
                sampled = np.bincount(target[layer], minlength=50)
                share = (graph.in_degree() / np.maximum(sampled, 1))[target[layer]]
                wanted = expected[batch.e_id[layer]] * torch.from_numpy(share.astype("f4"))
                torch.testing.assert_close(batch.edge_weight[layer], wanted)
    for batch in some(Loader(graph, sampler=ONCE, batch_size=9, contents=BatchContents(pyg=False))):
        if weighted:
            assert torch.equal(batch.edge_weight, given[batch.e_id])
        else:
            assert batch.edge_weight is None


@pytest.mark.parametrize("norm", [None, "gcn"])
@pytest.mark.parametrize("rule", [Ladies, FastGCN])
def test_weights_of_layerwise_samplers_hold_the_graphs_once(rule, norm):
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    rng = np.random.default_rng(4)
    pairs = rng.integers(0, 30, (2, 200))
    for weight in (None, rng.random(200)):
        graph = Graph.from_edge_index(pairs, 30, edge_weight=weight)
        targets = np.repeat(np.arange(30), graph.in_degree())
        edge_index = torch.from_numpy(np.stack([graph.indices.astype(np.int64), targets]))
        given = None if weight is None else torch.from_numpy(graph.edge_weight)
        if norm is not None:
            _, expected = gcn_norm(edge_index, given, 30, add_self_loops=False)
        else:
            mean = torch.from_numpy((1 / graph.in_degree())[targets].astype("f4"))
            expected = mean if given is None else given
        # all nodes are chosen, so the weights are those of the whole graph
        for batch in Loader(
            graph,
            sampler=rule([-1, -1]),
            batch_size=9,
            contents=BatchContents(norm=norm, pyg=False),
        ):
            torch.testing.assert_close(batch.edge_weight, expected[batch.e_id])


# ---- the same batches, however they are made -------------------------------------------------


def test_batches_do_not_depend_on_threads_bulk_or_prefetch():
    expected = list(plain(threads=1, bulk=1, prefetch=1))
    for options in (
        {"threads": 2, "bulk": 3, "prefetch": 4},
        {"threads": 8, "bulk": 8, "prefetch": 1},
        {"bulk": "auto", "memory": "1GB"},
    ):
        made = list(plain(**options))
        assert len(made) == len(expected)
        assert all(same_batch(a, b) for a, b in zip(made, expected, strict=True))


def test_epochs_advance_and_can_be_set():
    loader = plain()
    first, second = list(loader), list(loader)
    assert not same_batch(first[0], second[0]) and loader.epoch == 2
    loader.set_epoch(1)
    assert all(same_batch(a, b) for a, b in zip(loader, second, strict=True))
    other = plain(seed=1)
    assert not same_batch(next(iter(other)), first[0])


def test_after_a_break_comes_the_next_epoch():
    loader, expected = plain(), plain()
    for _ in loader:
        break
    list(expected)
    assert all(same_batch(a, b) for a, b in zip(loader, expected, strict=True))


@pytest.mark.parametrize("stop", [1, 3, 7])
def test_resume_is_exact(stop):
    whole = plain()
    expected = [*whole, *whole]
    loader = plain()
    taken = []
    for batch in loader:
        taken.append(batch)
        if len(taken) == stop:
            break
    state = loader.state_dict()
    assert {state["epoch"], state["batch"]} == ({0, stop} if stop < 7 else {1, 0})
    resumed = plain(bulk=2, prefetch=1)
    resumed.load_state_dict(state)
    taken += list(resumed)
    if len(taken) < 14:
        taken += list(resumed)
    assert len(taken) == 14
    assert all(same_batch(a, b) for a, b in zip(taken, expected, strict=True))


def test_state_of_something_else_is_refused():
    state = plain(seed=3).state_dict()
    loader = plain()
    loader.load_state_dict(state)
    assert loader.seed == 3
    for other, name in (
        (plain(graph=small_graph(seed=1)), "graph"),
        (plain(sampler=ReferenceNeighbor((4, 3))), "sampler"),
        (plain(batch_size=9), "batch_size"),
        (plain(shuffle=False), "shuffle"),
        (plain(input_nodes=None), "input_nodes"),
    ):
        with pytest.raises(InputError, match=f"saved with {name}"):
            other.load_state_dict(state)
    with pytest.raises(InputError, match="batch 99"):
        loader.load_state_dict({**state, "batch": 99})


# ---- ends ------------------------------------------------------------------------------------


def test_leaving_early_leaves_no_thread():
    for _ in plain(prefetch=1, bulk=2):
        break
    assert feed_threads() == []
    iterator = iter(plain())
    next(iterator)
    assert len(feed_threads()) == 1
    del iterator
    gc.collect()
    assert feed_threads() == []


def test_consumer_raises_or_is_interrupted():
    for error in (RuntimeError, KeyboardInterrupt):
        with pytest.raises(error):
            for _ in plain(prefetch=1):
                raise error
        assert feed_threads() == []


def test_interrupted_while_waiting():
    class Slow(ReferenceNeighbor):
        def sample_bulk(self, *arguments, **options):
            time.sleep(0.5)
            return super().sample_bulk(*arguments, **options)

    def interrupt() -> None:
        time.sleep(0.2)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        list(plain(sampler=Slow((2,)), bulk=1))
    other.join()
    assert feed_threads() == []


def test_transform_sees_batches_and_its_error_is_the_users_own():
    def broken_by_the_user(batch):
        if batch.number == 2:
            raise ZeroDivisionError("mine")
        return batch.number

    made = []
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        made.extend(plain(transform=broken_by_the_user))
    assert "broken_by_the_user" in {f.name for f in traceback.extract_tb(caught.tb)}


def test_an_error_of_the_sampler_reaches_the_loop():
    class Broken(ReferenceNeighbor):
        def sample_bulk(self, graph, seeds, *, first_batch=0, **options):
            if first_batch >= 3:  # bulks of 1, 2, 2, ...
                raise OSError("the sampler failed")
            return super().sample_bulk(graph, seeds, first_batch=first_batch, **options)

    made = []
    with pytest.raises(OSError, match="the sampler failed") as caught:
        made.extend(plain(sampler=Broken((2,)), bulk=2))
    assert len(made) == 3
    assert "sample_bulk" in {f.name for f in traceback.extract_tb(caught.tb)}


def test_a_batch_is_not_kept():
    iterator = iter(plain(prefetch=1))
    batch = next(iterator)
    rows = weakref.ref(batch.x)
    del batch
    next(iterator)
    assert rows() is None


def test_two_loops_at_once():
    loader = plain(shuffle=False)
    for a, b in some(zip(loader, plain(shuffle=False), strict=True)):
        assert same_batch(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["pass", "sys.exit(0)"])
def test_the_interpreter_ends(end):
    code = f"""
import sys
from foregather import BatchContents, Loader
from tests.loader.graphs import small_graph
from tests.sampling.reference import ReferenceNeighbor
rule, contents = ReferenceNeighbor((3, 2)), BatchContents(pyg=False)
loader = Loader(small_graph(), sampler=rule, batch_size=2, contents=contents)
iterator = iter(loader)
next(iterator)
{end}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, b"")
