"""Exact inference: equal to the model on the whole graph at once, for every model and storage."""

import numpy as np
import pytest
import torch

from foregather import Graph, infer
from foregather.cli.main import main
from foregather.errors import InputError, NumericError, StorageError
from foregather.nn import MLP, SAGE
from tests.some import some

WIDTH, CLASSES = 7, 4


def random_graph(weights: bool = False) -> Graph:
    """Random edges with self-loops, parallel edges and isolated nodes."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 280, (2, 2500))
    pairs[:, :40] = pairs[0, :40]  # self-loops
    return Graph.from_edge_index(
        pairs,
        300,
        x=rng.normal(size=(300, WIDTH)).astype(np.float32),
        y=rng.integers(0, CLASSES, 300),
        edge_weight=rng.random(2500, np.float32) + 0.1 if weights else None,
        splits={"train": np.arange(200), "valid": np.arange(200, 300)},
        dedup=True,
    )


def whole(model: torch.nn.Module, graph: Graph, **more: torch.Tensor) -> torch.Tensor:
    """The oracle: the model called once with all nodes and edges."""
    target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
    edges = torch.from_numpy(np.stack([np.asarray(graph.indices, np.int64), target]))
    x = torch.from_numpy(np.array(graph.features.data))
    if graph.edge_weight is not None and "edge_weight" in model.forward.__code__.co_varnames:
        more = {"edge_weight": torch.from_numpy(np.array(graph.edge_weight))}
    model.eval()
    with torch.no_grad():
        return model(x, edges, **more)


def assert_equal_to_whole(model, graph, path, **options):
    expected = whole(model, graph)
    model.train()
    facts = infer(model, graph, path, batch_size=64, overwrite=True, **options)
    assert model.training, "the model is left as it was"
    np.testing.assert_allclose(np.load(path), expected, rtol=2e-4, atol=2e-5)
    return facts


class Shown(SAGE):
    """A user's model that shows its layers."""

    def layer_steps(self):
        def first(x, edge_index, count):
            return self.layers[0]((x, x[:count]), edge_index).relu()

        return [first, lambda x, e, n: self.layers[1]((x, x[:n]), e)]


class Changed(SAGE):
    """One that is not what its base class is."""

    def forward(self, x, edge_index):
        return 2 * super().forward(x, edge_index)


class Hidden(torch.nn.Module):
    """One that does not."""

    def __init__(self):
        super().__init__()
        self.inner = SAGE([WIDTH, 8, CLASSES])

    def forward(self, x, edge_index):
        return self.inner(x, edge_index)


def pyg_models():
    nn = pytest.importorskip("torch_geometric.nn")
    sizes = {"in_channels": WIDTH, "hidden_channels": 8, "out_channels": CLASSES}
    yield nn.GCN(**sizes, num_layers=3, norm="batch_norm")
    yield nn.GCN(**sizes, num_layers=2, add_self_loops=False)
    yield nn.GraphSAGE(**sizes, num_layers=2, jk="last")
    yield nn.GAT(**sizes, num_layers=2, heads=2)
    yield nn.GIN(**sizes, num_layers=2)


def test_equals_the_whole_graph(tmp_path):
    torch.manual_seed(0)
    graph = random_graph()
    for model in (SAGE([WIDTH, 8, 8, CLASSES]), MLP([WIDTH, 8, CLASSES])):
        facts = assert_equal_to_whole(model, graph, tmp_path / "s.npy")
        assert facts["way"] == "layers" and facts["nodes"] == 300
    shown = Shown([WIDTH, 8, CLASSES])
    assert assert_equal_to_whole(shown, graph, tmp_path / "s.npy")["sweeps"] == 2
    for model in (Hidden(), Changed([WIDTH, 8, CLASSES])):
        facts = assert_equal_to_whole(model, graph, tmp_path / "s.npy", layers=2)
        assert facts["way"] == "neighbourhoods"


def test_pyg_models_equal_the_whole_graph(tmp_path):
    torch.manual_seed(0)
    for weights in (False, True):
        graph = random_graph(weights)
        for model in some(pyg_models()):
            assert assert_equal_to_whole(model, graph, tmp_path / "s.npy")["way"] == "layers"


@pytest.mark.parametrize("storage", ["auto", "features", "topology", "disk"])
def test_out_of_core_is_the_same(tmp_path, storage):
    torch.manual_seed(0)
    random_graph().save(tmp_path / "g")
    graph, model = Graph.open(tmp_path / "g"), SAGE([WIDTH, 8, CLASSES])
    before = sorted(path.stat().st_mtime_ns for path in (tmp_path / "g").iterdir())
    facts = assert_equal_to_whole(model, graph, tmp_path / "s.npy", memory="80MB", storage=storage)
    assert (facts["bytes"] > 0) == (storage != "auto")
    fixed = np.load(tmp_path / "s.npy")
    infer(model, graph, tmp_path / "s.npy", memory="80MB", storage=storage, overwrite=True)
    np.testing.assert_allclose(np.load(tmp_path / "s.npy"), fixed, rtol=1e-5, atol=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g", "s.npy"]
    assert sorted(path.stat().st_mtime_ns for path in (tmp_path / "g").iterdir()) == before
    graph.verify()


def test_bad_input_leaves_nothing(tmp_path):
    graph, model = random_graph(), SAGE([WIDTH, 8, CLASSES])
    with pytest.raises(InputError, match="give it a method layer_steps"):
        infer(Hidden(), graph, tmp_path / "s.npy")
    (tmp_path / "there.npy").touch()
    with pytest.raises(StorageError, match="exists already"):
        infer(model, graph, tmp_path / "there.npy")
    with torch.no_grad():
        model.layers[1].own.bias[0] = torch.nan
    with pytest.raises(NumericError, match="NaN or infinite"):
        infer(model, graph, tmp_path / "s.npy")
    with pytest.raises(StorageError):
        infer(model, graph, tmp_path / "there.npy" / "s.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["there.npy"]


def test_only_its_own_scratch_folder_is_cleared(tmp_path):
    graph, model = random_graph(), SAGE([WIDTH, 8, CLASSES])
    (tmp_path / "s.npy.scratch").mkdir()
    (tmp_path / "s.npy.scratch" / "mine").touch()
    with pytest.raises(StorageError, match="s.npy.scratch exists and was not made by"):
        infer(model, graph, tmp_path / "s.npy")
    assert (tmp_path / "s.npy.scratch" / "mine").exists()
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "mine").touch()
    (tmp_path / "t.npy.scratch").symlink_to(tmp_path / "far")
    with pytest.raises(StorageError, match="t.npy.scratch exists and was not made by"):
        infer(model, graph, tmp_path / "t.npy", overwrite=True)
    assert (tmp_path / "far" / "mine").exists() and not (tmp_path / "t.npy").exists()


def test_a_target_that_is_no_file_is_refused_before_the_work(tmp_path, monkeypatch):
    graph, model = random_graph(), SAGE([WIDTH, 8, CLASSES])
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr("foregather.train.infer.by_layers", None)
    with pytest.raises(StorageError, match="folder is not a file, so it is not replaced"):
        infer(model, graph, tmp_path / "folder", overwrite=True)
    empty = Graph.from_edge_index(np.zeros((2, 0), np.int64), 0, x=np.zeros((0, WIDTH), np.float32))
    with pytest.raises(InputError, match="the graph has no nodes"):
        infer(model, empty, tmp_path / "s.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_file_that_appeared_meanwhile_is_kept(tmp_path):
    graph, model, out = random_graph(), SAGE([WIDTH, 8, CLASSES]), tmp_path / "new" / "s.npy"

    def appear(*_: object) -> None:
        out.write_text("mine")

    step = model.layers[0].register_forward_hook(appear)
    with pytest.raises(StorageError, match="appeared while it was being made"):
        infer(model, graph, out)
    assert out.read_text() == "mine"
    step.remove()
    infer(model, graph, out, overwrite=True)
    assert np.load(out).shape == (300, CLASSES)
    assert [path.name for path in out.parent.iterdir()] == ["s.npy"]


def test_command(tmp_path, capsys):
    random_graph().save(tmp_path / "g")
    run, flags = str(tmp_path / "r"), ["--train.epochs", "1", "--train.evaluate", "exact"]
    assert main(["train", "--graph", str(tmp_path / "g"), "--run", run, *flags]) == 0
    scores = tmp_path / "s.npy"
    capsys.readouterr()
    assert main(["infer", run, str(tmp_path / "g"), str(scores)]) == 0
    shown = capsys.readouterr().out
    assert "train     accuracy 0." in shown and ", majority class 0." in shown
    assert np.load(scores).shape == (300, CLASSES)
    assert main(["infer", str(tmp_path / "g"), str(tmp_path / "g"), str(scores)]) == 2
    assert "not a run folder" in capsys.readouterr().err
