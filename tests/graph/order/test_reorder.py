"""Reordering: rows move, ids do not: every batch and score is the same, bit for bit."""

import json
import os
import shutil
import subprocess

import numpy as np
import pytest
import torch

from foregather import BatchContents, Features, Graph, Loader
from foregather.cli.main import main
from foregather.cli.plan_orders import dtype_facts, order_facts, show_forecasts
from foregather.dist.features.feature_block import FeatureBlock
from foregather.dist.renumber import renumber
from foregather.errors import FormatError, InputError, StorageError
from foregather.gather.memory import gather
from foregather.gather.store import open_store
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.integrity.verify import verify
from foregather.graph.on_disk.writer import meta_digest
from foregather.graph.order import reorder
from foregather.graph.synthetic import synthesize
from foregather.interop.stores.group import groups_of
from foregather.loader.disk.dtype_forecast import _error, forecast_dtypes
from foregather.loader.disk.order_forecast import NOW, forecast_loader_orders
from foregather.nn import SAGE
from foregather.sampling import FastGCN, Full, Labor, Ladies, Neighbor, RandomWalk, Saint
from foregather.train.infer import infer
from tests.loader.graphs import same_batch
from tests.loader.loops import STORAGES, loader_of
from tests.some import some


@pytest.fixture(scope="module", params=["float32", "int8"])
def pair(request, tmp_path_factory):
    """A folder and the same graph with its rows in an order."""
    home = tmp_path_factory.mktemp("order")
    shape = {"degree": 6, "features": 24, "classes": 3, "seed": 5}
    synthesize(home / "plain", 1200, dtype=request.param, **shape)
    reorder(home / "plain", home / "ordered", "hot+communities")
    return Graph.open(home / "plain"), Graph.open(home / "ordered")


def test_rows_moved_and_ids_did_not(pair):
    plain, ordered = pair
    assert not (plain.features.data == ordered.features.data).all()
    assert (ordered.features.data[ordered.features.places] == plain.features.data).all()
    assert ordered.features.nbytes == plain.features.nbytes + 4 * 1200
    for ids in some(([0, 7, 7, 1199], slice(5, 900, 3), torch.arange(40), slice(None))):
        assert (ordered.features[ids] == plain.features[ids]).all()
    ids = np.array([3, 1100, 3])
    assert (ordered.features.take(ids) == plain.features.take(ids)).all()
    assert (ordered.features.part(5, 50)[:] == plain.features.part(5, 50)[:]).all()
    for name in some(("indptr", "indices", "labels")):
        assert (getattr(plain, name) == getattr(ordered, name)).all()
    assert verify(ordered).arrays == tuple(sorted((*verify(plain).arrays, "places")))
    with pytest.raises(InputError):
        ordered.features[[1200]]
    with pytest.raises(InputError):
        gather(ordered.features, np.array([1200]))


@pytest.mark.parametrize("storage", STORAGES)
def test_batches_are_the_same_in_every_storage(pair, storage):
    plain, ordered = (loader_of(graph, storage) for graph in pair)
    for _ in range(2):
        seen = 0
        for one, other in zip(plain, ordered, strict=True):
            assert same_batch(one, other)
            seen += 1
        assert seen == 8
    for loader in (plain, ordered):
        loader.close()


SAMPLERS = [
    Neighbor([3, 2]),
    Neighbor([3, 2], replace=True),
    Labor([3, 2]),
    Ladies([8, 8]),
    FastGCN([8, 8]),
    Full(2),
    RandomWalk(3),
    Saint("node", 40),
]


@pytest.mark.parametrize("rule", SAMPLERS, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("memory", [None, "60MB"])
def test_batches_are_the_same_with_every_sampler(pair, rule, memory):
    options = {"shuffle": True, "seed": 3, "contents": BatchContents(pyg=False), "threads": 1}
    if memory:
        options |= {"memory": memory, "storage": "features", "bulk": 2}
    loaders = [Loader(g, None, "train", 60, sampler=rule, **options) for g in pair]
    if memory:
        assert all(one.layout.features == "disk" for one in loaders)
    batches = list(zip(*loaders, strict=True))
    assert len(batches) > 3
    for one, other in batches:
        assert same_batch(one, other)
    for loader in loaders:
        loader.close()


def test_losses_scores_and_predictions_are_the_same(pair, tmp_path):
    found = []
    for number, graph in enumerate(pair):
        torch.manual_seed(0)
        model = SAGE([24, 8, 3])
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for batch in loader_of(graph, "features"):
            scores = model(batch.x.float(), batch.edge_index)[: batch.batch_size]
            loss = torch.nn.functional.cross_entropy(scores, batch.y[: batch.batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        out = tmp_path / f"{number}.npy"
        infer(model, graph, out)
        infer(model, graph, tmp_path / f"disk{number}.npy", memory="80MB", storage="features")
        found.append((loss.item(), out.read_bytes(), np.load(tmp_path / f"disk{number}.npy")))
    (loss, scores, disk), (other_loss, other_scores, other_disk) = found
    assert loss == other_loss and scores == other_scores
    np.testing.assert_allclose(disk, other_disk, rtol=1e-5, atol=1e-6)


def test_stores_blocks_and_other_views(pair, tmp_path):
    plain, ordered = pair
    ids = np.random.default_rng(0).integers(0, 1200, 500)
    with open_store(plain, "100KB") as one, open_store(ordered, "100KB") as other:
        assert (one[ids] == other[ids]).all() and (one[5:70] == other[5:70]).all()
    for block in some((0, 2)):
        one, other = (FeatureBlock.open(graph.path, 3, block) for graph in pair)
        assert (one.rows.data == other.rows.data).all()
    with pytest.raises(InputError, match="in an order, so the rows of a rank do not lie"):
        FeatureBlock.on_disk(ordered, 3, 0)
    for loaded in some((False, True)):
        one, other = (groups_of(graph, None, loaded)[None] for graph in pair)
        for some_ids in some((ids, np.arange(1200))):
            whole = len(some_ids) == 1200
            assert torch.equal(one.rows("x", some_ids, whole), other.rows("x", some_ids, whole))
    tables = [HeteroGraph.from_graph(graph) for graph in pair]
    for table in tables:
        assert (next(iter(table.nodes.values())).features["x"] == plain.features.data).all()
    order = np.random.default_rng(1).permutation(1200)
    starts = np.array([0, 600, 1200])
    made = [
        renumber(g, order, starts, tmp_path / str(k), how="natural") for k, g in enumerate(pair)
    ]
    one, other = map(Graph.open, made)
    assert other.features.places is None and (one.features.data == other.features.data).all()


def test_a_saved_loaded_or_pickled_graph_keeps_its_order(pair, tmp_path):
    import pickle

    plain, ordered = pair
    ordered.save(tmp_path / "again")
    again = Graph.open(tmp_path / "again")
    assert again.digest == ordered.digest and again.meta["version"] == 5
    assert plain.meta["version"] == 1 and "order" not in plain.meta
    held = pickle.loads(pickle.dumps(ordered))
    assert (held.features[:] == plain.features[:]).all()
    assert held.digest == ordered.digest


def test_putting_rows_back_gives_the_folder_that_was(pair, tmp_path):
    plain, ordered = pair
    facts = reorder(ordered.path, tmp_path / "back", "ids")
    assert facts["order"] == "ids"
    assert Graph.open(tmp_path / "back").digest == plain.digest


def test_rows_that_do_not_fit_are_moved_through_a_scratch_file(pair, tmp_path, monkeypatch):
    from foregather.graph.order import rewrite as module

    plain, ordered = pair
    monkeypatch.setattr(module, "_LEAST", 1 << 13)
    monkeypatch.setattr(module, "order_bytes", lambda graph, name: 1 << 40)
    facts = reorder(plain.path, tmp_path / "made", "hot+communities")
    assert facts["scratch_bytes"] == plain.features.data.nbytes
    assert Graph.open(tmp_path / "made").digest == ordered.digest
    assert [one.name for one in tmp_path.iterdir()] == ["made"]


def test_bad_input_is_one_sentence(pair, tmp_path, capsys):
    plain, ordered = pair
    with pytest.raises(InputError, match=r"in order hot\+communities already; put them back"):
        reorder(ordered.path, tmp_path / "g", "bfs")
    with pytest.raises(InputError, match="lie by id already; nothing to do"):
        reorder(plain.path, tmp_path / "g", "ids")
    with pytest.raises(InputError, match="order is 'best'"):
        reorder(plain.path, tmp_path / "g", "best")
    with pytest.raises(StorageError, match="exists already"):
        reorder(plain.path, ordered.path, "bfs")
    Graph.from_edge_index(np.array([[0], [1]])).save(tmp_path / "bare")
    with pytest.raises(InputError, match="has no features"):
        reorder(tmp_path / "bare", tmp_path / "g", "bfs")
    assert main(["reorder", str(plain.path)]) == 2
    assert "no target folder was given" in capsys.readouterr().err
    assert not (tmp_path / "g").exists()


def test_damaged_places_are_refused(pair, tmp_path):
    folder = tmp_path / "g"
    shutil.copytree(pair[1].path, folder)
    meta = json.loads((folder / "meta.json").read_text())

    def wrong(change, match):
        text = json.loads(json.dumps(meta))
        change(text)
        text["digest"] = meta_digest(text)
        (folder / "meta.json").write_text(json.dumps(text))
        (folder / "checks.json").unlink(missing_ok=True)
        with pytest.raises(FormatError, match=match):
            verify(folder)

    wrong(lambda text: text["arrays"].pop("places"), "features or places are not there")
    wrong(lambda text: text.update(version=6), "format version 6")
    graph = Graph.open(pair[1].path)
    for value, match in some(((1, "to no node"), (1200, "holds 1200 for node 7"))):
        places = np.array(graph.features.places)
        places[7] = value if value > 1 else places[8]
        features = type(graph.features)(graph.features.data, graph.features.scale, places)
        bad = Graph(1200, graph.num_edges, graph.indptr, graph.indices, features)
        with pytest.raises(FormatError, match=match):
            verify(bad)


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_leaves_the_old_folder_as_it_was(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        synthesize(disk / "g", 5000, degree=4, features=64, classes=3)
        before = Graph.open(disk / "g").digest
        for target in some((disk / "h", disk / "g")):
            with pytest.raises(StorageError, match="no space left on the disk"):
                reorder(disk / "g", target, "bfs", overwrite=True)
            assert [one.name for one in disk.iterdir()] == ["g"]
            assert Graph.open(disk / "g").digest == before
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_commands(tmp_path, capsys):
    source = tmp_path / "edges.npz"
    rng = np.random.default_rng(0)
    x = rng.random((300, 4), np.float32)
    np.savez(source, edge_index=rng.integers(0, 300, (2, 2000)), x=x)
    assert main(["convert", str(source), str(tmp_path / "g"), "--order", "communities"]) == 0
    assert "feature rows in order communities" in capsys.readouterr().out
    graph = Graph.open(tmp_path / "g")
    assert graph.meta["order"] == {"name": "communities"} and (graph.features[:] == x).all()
    assert main(["info", str(tmp_path / "g")]) == 0
    assert "rows in order communities" in capsys.readouterr().out
    assert main(["reorder", str(tmp_path / "g"), "--order", "ids", "--overwrite"]) == 0
    assert Graph.open(tmp_path / "g").features.places is None


def test_forecasts_are_those_of_the_folder_that_is_made(pair):
    plain, ordered = (
        Loader(g, [3, 2], "train", 40, shuffle=True, memory="60MB", storage="features", bulk=4)
        for g in pair
    )
    now, planned = forecast_loader_orders(plain, ["hot+communities"], 12)
    there, again = forecast_loader_orders(ordered, ["hot+communities"], 12)
    assert now.order == there.order == NOW
    assert (planned.way.requests, planned.way.bytes) == (there.way.requests, there.way.bytes)
    assert planned.way == again.way and now.gathered_bytes == there.gathered_bytes
    assert now.pays_after(now) is None and now.rewrite_seconds > 0
    with pytest.raises(InputError, match="orders are best, expected some of"):
        forecast_loader_orders(plain, ["best"], 12)
    with pytest.raises(InputError, match="so how they lie does not matter"):
        forecast_loader_orders(Loader(pair[0], [3, 2], "train", 40), ["bfs"])


def test_forecasts_of_narrower_rows_measure_their_error(tmp_path, capsys):
    synthesize(tmp_path / "g", 3000, degree=6, features=32, classes=3)
    graph = Graph.open(tmp_path / "g")
    options = {"memory": "60MB", "storage": "features", "bulk": 4}
    wide, half, small = forecast_dtypes(Loader(graph, [3, 2], "train", 40, **options), 12)
    x = graph.features[:].astype(np.float64)
    rounded = x.astype(np.float16).astype(np.float64)
    expected = np.sqrt(np.square(rounded - x).sum() / np.square(x).sum())
    assert (wide.dtype, wide.error) == ("float32", 0.0)
    assert half.error == pytest.approx(expected, rel=1e-6) and half.error < small.error < 0.02
    assert small.way.bytes <= half.way.bytes <= wide.way.bytes
    infer_free = [np.full((10, 2), value, np.float32) for value in (1e9, np.inf, 0.0)]
    errors = [_error(Features(one), dtype) for one in infer_free for dtype in ("float16", "int8")]
    assert errors == [np.inf, pytest.approx(0, abs=1e-6), 0.0, np.inf, 0.0, 0.0]
    reorder(tmp_path / "g", tmp_path / "o", "bfs")
    there = Loader(Graph.open(tmp_path / "o"), [3, 2], "train", 40, **options)
    assert [one.error for one in forecast_dtypes(there, 12)] == [0.0, half.error, small.error]
    points = [{"memory": 60, "orders": order_facts(there, ("all",), 8)}]
    points[0]["dtypes"] = dtype_facts(there, 8)
    text = "\n".join(show_forecasts(points))
    assert "relative error" in text and "hot+communities" in text and "as it is" in text
    json.dumps(points)
    plain = Loader(graph, [3, 2], "train", 40, shuffle=True)
    assert "does not matter" in order_facts(plain, ("bfs",), 8)["error"]
    with pytest.raises(InputError, match="so how they lie does not matter"):
        forecast_dtypes(plain)
    command = ["plan", str(tmp_path / "g"), "--memory", "60MB", "--batch-size", "64"]
    assert main([*command, "--fanouts", "3", "--dtypes", "--orders", "bfs", "--batches", "8"]) == 0
    out = capsys.readouterr().out
    assert "everything fits" in out or "relative error" in out
