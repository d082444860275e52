"""plan: the choice is what the Loader does, the runner-up is the next cheapest, and it fits."""

import json

import pytest

from foregather import BatchContents, Graph, Loader
from foregather.cli.main import main
from foregather.graph.synthetic import synthesize
from foregather.loader.memory.ways import compare_measured, prospects
from foregather.train.fit import Training, fit

CONTENTS = BatchContents("seeds", pyg=False)


def test_ways_side_by_side(tmp_path, capsys):
    synthesize(tmp_path / "g", 20_000, degree=8, features=1024, classes=5, seed=0)
    budgets = ["--memory", "60MB", "1GB", "auto"]
    flags = ["--fanouts", "5", "5", "--batch-size", "50", "--batches", "8", "--json"]
    assert main(["plan", str(tmp_path / "g"), *budgets, *flags]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    graph = Graph.open(tmp_path / "g")
    kinds = set()
    for point in points:
        choice, *others = point["ways"]
        assert choice["rank"] == "choice" and len(point["ways"]) == 4
        loader = Loader(
            graph, [5, 5], "train", 50, shuffle=True, bulk="auto",
            contents=CONTENTS, memory=point["memory"],
        )  # fmt: skip
        assert choice["storage"] == storage_of(loader)
        kinds.add(choice["storage"])
        assert choice["peak"] <= point["memory"]
        possible = [way["seconds"] for way in others if not way["error"]]
        assert possible == sorted(possible)
        assert all(way["peak"] <= point["memory"] for way in others if not way["error"])
    assert {"memory", "features"} <= kinds
    assert main(["plan", str(tmp_path / "g"), *budgets, *flags[:-1]]) == 0
    out = capsys.readouterr().out
    assert "choice" in out and "runner-up" in out and "needs" in out and "ratio:" in out


def test_what_is_read_is_explained_only_where_something_is_read(tmp_path, capsys):
    synthesize(tmp_path / "g", 300, degree=4, features=8, classes=3, seed=0)
    assert main(["plan", str(tmp_path / "g"), "--memory", "1GB"]) == 0
    out = capsys.readouterr().out
    assert "everything fits" in out and "ratio:" not in out
    assert main(["plan", str(tmp_path / "g"), "--memory", "1GB", "1"]) == 0
    assert "ratio:" not in capsys.readouterr().out


def storage_of(loader):
    if loader.layout is None:
        return "memory"
    on_disk = loader.layout.features == "disk", loader.layout.topology == "disk"
    return {(True, False): "features", (False, True): "topology", (True, True): "disk"}[on_disk]


def test_auto_takes_the_fewest_predicted_seconds(tmp_path):
    """Wide rows and few edges, or narrow rows and many edges, under half of what is held."""
    chosen = set()
    for name, degree, width in (("wide", 4, 512), ("narrow", 64, 4), ("even", 32, 32)):
        synthesize(tmp_path / name, 20_000, degree=degree, features=width, classes=5, seed=0)
        graph = Graph.open(tmp_path / name)

        def make(graph=graph, **options):
            fixed = {
                "shuffle": True,
                "bulk": 4,
                "contents": CONTENTS,
                "threads": 1,
            }
            return Loader(graph, [5, 5], "train", 20, **fixed, **options)

        least = 12_000_000  # tables, staging, and room for batches
        for memory in (least + graph.nbytes // 2, least + 3 * graph.nbytes // 4):
            ways = prospects(make, memory, 32)
            possible = [way for way in ways if not way.refused]
            assert ways[0].chosen and ways[0].seconds == min(way.seconds for way in possible)
            for way in possible:  # all that decides is in the line
                assert way.seconds == pytest.approx(way.work + way.disk) and way.work > 0
                assert f"{way.seconds:.2f} s" in way.line("") and f"{way.disk:.2f} s" in way.line(
                    ""
                )
            loader = make(memory=memory, storage=ways[0].storage)  # seconds differ from run to run
            assert storage_of(loader) == ways[0].storage
            chosen.add(storage_of(loader))
            for ours, theirs in zip(loader, make(), strict=False):
                assert (ours.n_id == theirs.n_id).all() and (ours.x == theirs.x).all()
            loader.close()
    assert len(chosen) >= 2, chosen


def test_everything_in_memory_is_chosen_for_its_epochs_not_for_its_one_reading(tmp_path):
    """Reading all of it once takes longer than the few rows that two batches need from disk."""
    synthesize(tmp_path / "g", 40_000, degree=2, features=256, classes=5, seed=0)
    graph = Graph.open(tmp_path / "g")

    def make(**options):
        return Loader(graph, [2], [1, 2, 3, 4], 2, bulk=2, contents=CONTENTS, threads=1, **options)

    ways = prospects(make, 10**9, 0)
    assert ways[0].storage == "memory" and ways[0].chosen and ways[0].bytes > 0
    assert ways[0].seconds == min(way.seconds for way in ways if not way.refused)
    assert ways[0].disk == 0 and any(way.disk > 0 for way in ways[1:])


def test_the_prediction_of_a_whole_epoch_is_what_is_read(tmp_path):
    import torch

    from foregather.nn import SAGE

    synthesize(tmp_path / "g", 5_000, degree=8, features=128, classes=5, seed=0)
    graph = Graph.open(tmp_path / "g")

    def make(**options):
        fixed = {
            "shuffle": True,
            "bulk": "auto",
            "contents": CONTENTS,
        }
        return Loader(graph, [5, 5], "train", 100, **fixed, **options)

    ways = {way.storage: way for way in prospects(make, 40_000_000, 0)}
    loader = make(memory=40_000_000, storage="features")
    model = SAGE([128, 8, 5])
    record = fit(Training(model, loader, torch.optim.SGD(model.parameters(), 0.1)), 1)[0]
    assert record["feature_bytes"] == ways["features"].bytes > 0
    table = compare_measured(loader, record)
    assert table.count(f"{record['feature_requests']:,}") == 2
    loader.close()
    for storage in ("topology", "disk"):
        loader = make(memory=40_000_000, storage=storage)
        record = fit(Training(model, loader, torch.optim.SGD(model.parameters(), 0.1)), 1)[0]
        read = loader.counters()["topology"]
        if storage == "topology":
            assert record["bytes"] == ways[storage].bytes > 0
        else:  # a bulk is sampled once more, to choose the way of reading rows
            assert record["bytes"] >= ways[storage].bytes > 0
        table = compare_measured(loader, record)
        assert table.count(f"{int(read['requests']):,}") >= 2
        loader.close()
