"""Loaders, training and inference on files that are cut or unreadable: a sentence, then resume."""

import re

import numpy as np
import pytest
from safetensors.numpy import load_file

from foregather import BatchContents, Graph, InputError, Loader, StorageError, infer
from foregather.cli.main import main
from foregather.graph.mapped import is_mapped, owner_of
from foregather.graph.synthetic import synthesize
from foregather.loader import arranged as loader_module
from foregather.nn import SAGE
from foregather.observe import usable_memory as usable
from tests.graph.cut import run_cases
from tests.graph.unreadable import fail_reads
from tests.loader.graphs import same_batch
from tests.some import some


@pytest.fixture
def folder(tmp_path):
    synthesize(
        tmp_path / "g", 6_000, degree=6, features=48, classes=5, seed=3, split=(0.3, 0.1, 0.1)
    )
    return tmp_path / "g"


def options(**more):
    return {"shuffle": True, "contents": BatchContents(pyg=False), "threads": 2, **more}


# ---- cut in the middle of a loop -----------------------------------------------------------------

LOOP = """
contents = BatchContents(norm={norm!r}, pyg=False)
loader = Loader(graph, {fanouts}, "train", 64, shuffle=True, contents=contents, threads=1, {more})
batches = iter(loader)
next(batches)
cut()
print(1 + sum(1 for _ in batches), flush=True)
"""


def loop(name, more="", fanouts="[4, 3]", norm=None):
    return (name, LOOP.format(more=more, fanouts=fanouts, norm=norm))


@pytest.mark.slow
def test_a_file_that_is_cut_in_the_middle_of_a_loop(folder):
    weighted = 'sampler=Ladies([64, 64]), memory="60MB"'
    cases = {
        "memory features": loop("features.npy"),
        "memory indices": loop("indices.npy"),
        "memory indptr": loop("indptr.npy"),
        "memory labels": loop("labels.npy"),
        "memory norm": loop("indptr.npy", norm="gcn"),
        "budget features": loop("features.npy", 'memory="200MB"'),
        "topology features": loop("features.npy", 'memory="60MB", storage="topology"'),
        "topology labels": loop("labels.npy", 'memory="60MB", storage="topology"'),
        "disk norm": loop("indptr.npy", 'memory="60MB", storage="disk"', norm="gcn"),
        "layerwise indices": loop("indices.npy", weighted, "None"),
    }
    count = len(Loader(Graph.open(folder), [4, 3], "train", 64))
    for case, (code, out, err) in run_cases(folder, cases).items():
        assert (code, out, err) == (0, f"{count}\n", ""), case  # it was read before it was cut


@pytest.mark.slow
def test_a_file_that_is_cut_before_it_is_read(folder):
    cases = {
        f"{kind} {name}": (f"{name}.npy", f"{code}")
        for kind, code in {
            "loop": 'cut(); list(Loader(graph, [4, 3], "train", 64))',
            "judged": 'cut(); Loader(graph, [4, 3], "train", 64, memory="60MB")',
            "beside": 'cut(); Loader(graph, [4], "train", memory="20MB", storage="memory")',
        }.items()
        for name in ("features", "indices")
        if (kind, name) != ("judged", "features")
    }
    model = "from foregather.nn import SAGE; model = SAGE([48, 8, 5]); cut(); "
    for name in ("features", "indices", "indptr"):
        cases[f"infer {name}"] = (
            f"{name}.npy",
            model + "infer(model, graph, f'{folder}.scores.npy')",
        )
        budget = "infer(model, graph, f'{folder}.scores.npy', memory='60MB')"
        cases[f"budget {name}"] = (f"{name}.npy", model + budget)
    for name in ("features", "indices", "labels"):
        full = "from foregather.nn import sage_layers; from foregather.pipeline import FullGraph; "
        full += "cut(); FullGraph(graph, sage_layers([48, 8, 5]), 2)"
        cases[f"full {name}"] = (f"{name}.npy", full)
    for case, (code, _, err) in run_cases(folder, cases).items():
        assert code == 2, (case, code, err)
        assert case.split()[1] in err and "Traceback" not in err, (case, err)
        assert err.strip().count("\n") == 0, (case, err)


# ---- what is read, and held ----------------------------------------------------------------------


def test_loaded_batches_are_those_of_the_map(folder):
    opened, view = Graph.open(folder), Graph.open(folder)
    plain = Loader(opened, [4, 3], "train", 64, **options())
    mapped = Loader(view, [4, 3], "train", 64, **options())
    mapped._home._parts = ()
    for a, b in some(zip(plain, mapped, strict=True)):
        assert same_batch(a, b)


def test_loaders_of_a_graph_share_what_they_read_and_give_it_back(folder):
    graph = Graph.open(folder)
    one = Loader(graph, [4], "train", 64, **options())
    two = Loader(graph, [3, 2], "valid", 64, **options(memory="300MB"))
    next(iter(one)), next(iter(two))
    rows = one._home._held.features.data
    assert not is_mapped(rows) and two._home._held.features.data is rows
    assert one.graph is graph and is_mapped(graph.features.data)
    del rows
    held = owner_of(graph.features.data)._held
    one.close()
    assert len(held) == 1  # the other has it still
    two.close()
    assert len(held) == 0
    assert len(list(one)) == len(one)  # and is read again


def test_a_graph_beyond_what_is_free_is_read_by_plan(folder, monkeypatch):
    expected = list(Loader(Graph.open(folder), [4, 3], "train", 64, **options()))
    assert Loader(Graph.open(folder), [4, 3], "train", 64, **options()).layout is None
    graph = Graph.open(folder)
    room = graph.indices.nbytes + graph.indptr.nbytes + 300_000
    monkeypatch.setattr(usable, "usable_memory", lambda: room)
    monkeypatch.setattr("foregather.graph.load.usable_memory", lambda: room)
    monkeypatch.setattr(loader_module, "usable_memory", lambda: 40_000_000)
    loader = Loader(graph, [4, 3], "train", 64, **options())
    for a, b in zip(loader, expected, strict=True):
        assert same_batch(a, b)
    monkeypatch.setattr(loader_module, "usable_memory", lambda: 1000)  # too little for any plan
    last = Loader(graph, [4, 3], "train", 64, **options())
    assert last.layout is None
    for a, b in zip(last, expected, strict=True):
        assert same_batch(a, b)


def test_an_error_of_the_disk_names_the_file_and_the_next_loop_works(folder, monkeypatch):
    expected = list(Loader(Graph.open(folder), [4, 3], "train", 64, **options()))
    loader = Loader(Graph.open(folder), [4, 3], "train", 64, **options())
    with monkeypatch.context() as patch:
        fail_reads(patch, "features.npy")
        with pytest.raises(StorageError, match=r"features.npy at byte \d+ failed: Input/output"):
            list(loader)
    loader.set_epoch(0)
    for a, b in zip(loader, expected, strict=True):
        assert same_batch(a, b)


def test_a_run_that_met_an_error_of_the_disk_resumes_to_the_same_weights(
    folder, tmp_path, monkeypatch, capfd
):
    def train(name, *more):
        flags = ["--train.epochs", "3", "--train.evaluate", "exact", "--train.threads", "1"]
        flags += ["--sampler.fanouts", "3", "2", "--model.hidden", "8", "--train.batch-size", "200"]
        return main(["train", "--graph", str(folder), "--run", str(tmp_path / name), *flags, *more])

    with monkeypatch.context() as patch:
        count = fail_reads(patch, "features.npy", 1 << 30)
        assert train("whole") == 0
    with monkeypatch.context() as patch:
        fail_reads(patch, "features.npy", count[0] * 2 // 3)
        assert train("cut") == 2
    said = capfd.readouterr().err
    assert re.search(r"reading features.npy at byte \d+ failed: Input/output error", said)
    assert "Traceback" not in said
    records = (tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()
    assert 0 < len(records) < 3  # in the middle
    assert main(["train", "--resume", str(tmp_path / "cut")]) == 0
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("storage", ["auto", "memory", "features", "topology", "disk"])
def test_a_graph_of_no_nodes_has_no_batches(tmp_path, storage):
    none = np.zeros((2, 0), np.int64)
    made = Graph.from_edge_index(
        none, 0, x=np.zeros((0, 4), np.float32), y=np.zeros(0, np.int64), splits={"train": none[0]}
    )
    graph = Graph.open(made.save(tmp_path / "none"))
    assert graph.verify().num_nodes == 0
    for nodes in (None, "train"):
        assert list(Loader(graph, [4, 3], nodes, 8, memory="50MB", storage=storage)) == []
    with pytest.raises(InputError, match="no nodes"):
        infer(SAGE([4, 2]), graph, tmp_path / "scores.npy", memory="50MB")
