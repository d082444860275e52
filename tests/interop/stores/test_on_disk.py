"""OnDisk: PyG's own NodeLoader over a folder gets the Loader's batches, from the plan."""

import numpy as np
import pytest
import torch
from torch_geometric.loader import NodeLoader

from foregather import BatchContents, Graph, Loader
from foregather.errors import InputError
from foregather.graph.synthetic import synthesize
from foregather.interop.pyg import OnDisk, OnDiskFeatureStore
from foregather.sampling import Labor
from tests.some import some

FANOUT, BATCH = [6, 4], 64


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    folder = tmp_path_factory.mktemp("on_disk") / "g"
    synthesize(str(folder), 3000, degree=8, features=32, classes=5)
    return Graph.open(folder)


def same(batch, want):
    for name in ("n_id", "x", "y", "edge_index", "e_id"):
        one, other = getattr(batch, name), getattr(want, name)
        assert one.dtype == other.dtype and torch.equal(one, other), name
    assert batch.batch_size == want.batch_size
    assert list(batch.num_sampled_nodes) == list(want.num_sampled_nodes)
    return True


@pytest.mark.parametrize("storage", ["features", "disk", "memory"])
def test_batches_are_the_loaders(graph, storage):
    options = {"shuffle": True, "seed": 3, "memory": "60MB", "storage": storage}
    seat = OnDisk(graph, FANOUT, "train", BATCH, **options)
    plain = Loader(graph, FANOUT, "train", BATCH, contents=BatchContents(pyg=False), **options)
    loader = NodeLoader(**seat.arguments)
    assert len(loader) == len(plain)
    rows = 0
    for _ in range(2):  # two epochs, each with its own order
        for batch, want in some(zip(loader, plain, strict=True)):
            assert same(batch, want)
            rows += len(batch.x) + len(batch.y)
    assert (seat.feature_store.planned_rows, seat.feature_store.other_rows) == (rows, 0)
    seat.close()
    plain.close()


def test_rows_equal_those_of_the_folder(graph):
    with OnDisk(graph, FANOUT, None, BATCH, memory="60MB", storage="features") as seat:
        for batch in some(NodeLoader(**seat.arguments)):
            nodes = batch.n_id.numpy()
            assert np.array_equal(batch.x.numpy(), np.asarray(graph.features.data)[nodes])
            assert np.array_equal(batch.y.numpy(), np.asarray(graph.labels)[nodes])


def test_a_mask_gives_the_nodes_of_the_mask(graph):
    mask = np.arange(graph.num_nodes) % 3 == 0
    with OnDisk(graph, FANOUT, mask, BATCH, memory="60MB", shuffle=True) as seat:
        seen = torch.cat([b.n_id[: b.batch_size] for b in some(NodeLoader(**seat.arguments))])
    assert np.array_equal(np.sort(seen.numpy()), np.flatnonzero(mask))


def test_what_was_not_foreseen_is_answered_without_a_plan(graph):
    with OnDisk(graph, FANOUT, "train", BATCH, memory="60MB", storage="features") as seat:
        loader = NodeLoader(**seat.arguments)
        batch = loader([5, 9, 2])
        assert torch.equal(batch.n_id[:3], loader.input_nodes[[5, 9, 2]])
        wanted = np.asarray(graph.features.data)[batch.n_id.numpy()]
        assert np.array_equal(batch.x.numpy(), wanted)
        before = seat.feature_store.other_rows
        rows = seat.feature_store.get_tensor(None, "x", index=torch.tensor([7, 1]))
        assert np.array_equal(rows.numpy(), np.asarray(graph.features.data)[[7, 1]])
        assert seat.feature_store.other_rows == before + 2


def test_a_sample_that_the_user_changes_gets_its_own_rows(graph):
    def fewer(out):
        out.node = out.node.flip(0)
        return out

    with OnDisk(graph, FANOUT, "train", BATCH, memory="60MB", storage="features") as seat:
        for batch in some(NodeLoader(transform_sampler_output=fewer, **seat.arguments)):
            wanted = np.asarray(graph.features.data)[batch.n_id.numpy()]
            assert np.array_equal(batch.x.numpy(), wanted)
        assert seat.feature_store.planned_rows == 0 < seat.feature_store.other_rows


def test_refusals(graph):
    with OnDisk(graph, FANOUT, "train", BATCH, memory="60MB") as seat:
        loader = NodeLoader(num_workers=1, **seat.arguments)
        with pytest.raises(InputError, match="num_workers is above 0"):
            list(loader)
    with (
        OnDisk(graph, None, "train", BATCH, memory="60MB", sampler=Labor([5])) as seat,
        pytest.raises(InputError, match="Labor gives each edge a factor"),
    ):
        list(NodeLoader(**seat.arguments))
    with pytest.raises(InputError, match="per-layer"):
        OnDisk(graph, FANOUT, "train", BATCH, memory="60MB", expand="per-layer")
    with (
        OnDisk(graph, FANOUT, [3, 3, 4], 3, memory="60MB") as seat,
        pytest.raises(InputError, match="seed twice"),
    ):
        list(NodeLoader(**seat.arguments))
    with pytest.raises(InputError, match="read-only"):
        OnDiskFeatureStore(graph).put_tensor(torch.zeros(1), None, "x", index=None)
