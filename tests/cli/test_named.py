"""Named nodes on the command line: from two tables to scores that carry the names."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

from foregather import Graph
from foregather.cli.main import main

NAMES = [f"user, {k}" for k in range(60)]
FLAGS = ("--train.epochs", "1", "--train.batch-size", "32", "--json")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A named graph and a run on it."""
    folder = tmp_path_factory.mktemp("named")
    rng = np.random.default_rng(0)
    with open(folder / "e.csv", "w", newline="") as file:
        csv.writer(file).writerows(
            (NAMES[s], NAMES[t]) for s, t in rng.integers(0, 50, (300, 2)).tolist()
        )
    with open(folder / "n.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["name", "x1", "x2", "label"])
        rows.writerows([name, k, k % 7, ["red", "green"][k % 2]] for k, name in enumerate(NAMES))
    command = ["convert", "e.csv", "g", "--node-table", "n.csv", "--split", "0.5", "0.25", "0.25"]
    paths = {"e.csv", "g", "n.csv"}
    command = [str(folder / one) if one in paths else one for one in command]
    assert main([*command, "--ids", "string", "--header", "no", "--json"]) == 0
    run = ["train", "--graph", str(folder / "g"), "--run", str(folder / "r"), *FLAGS]
    assert main(run) == 0
    return folder


def call(capsys, *args):
    code = main([*map(str, args)])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_the_graph_is_what_the_tables_say(made):
    graph = Graph.open(made / "g")
    assert graph.num_nodes == 60
    nodes = graph.nodes_of(NAMES)
    assert graph.original_ids(nodes) == NAMES
    np.testing.assert_array_equal(graph.features.data[nodes, 0], np.arange(60))
    np.testing.assert_array_equal(graph.labels[nodes], (np.arange(60) + 1) % 2)
    assert [len(graph.split(name)) for name in ("train", "valid", "test")] == [30, 15, 15]


def test_scores_come_with_names(made, capsys, tmp_path):
    code, out, err = call(capsys, "infer", made / "r", made / "g", tmp_path / "s.npy")
    assert code == 0, err
    assert "s.npy.ids.csv: the id of each row" in out
    with open(tmp_path / "s.npy.ids.csv", newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["id"] and len(lines) == 61
    assert [line[0] for line in lines[1:]] == Graph.open(made / "g").original_ids(range(60))
    assert len(np.load(tmp_path / "s.npy")) == 60
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.npy", "s.npy.ids.csv"]


def test_names_of_another_file_are_not_replaced(made, capsys, tmp_path):
    (tmp_path / "s.npy.ids.csv").write_text("mine")
    code, _, err = call(capsys, "infer", made / "r", made / "g", tmp_path / "s.npy")
    assert code and "s.npy.ids.csv exists already" in err
    assert [p.name for p in tmp_path.iterdir()] == ["s.npy.ids.csv"]
    args = ("infer", made / "r", made / "g", tmp_path / "s.npy", "--overwrite")
    assert call(capsys, *args)[0] == 0
    assert (tmp_path / "s.npy.ids.csv").read_text().startswith("id\n")


def test_info_and_summary_show_names(made, capsys, tmp_path):
    code, out, _ = call(capsys, "info", made / "g")
    first = Graph.open(made / "g").original_ids([0])[0]
    assert code == 0 and f"source ids   text, node 0 is {first!r}" in out
    assert "(red)" in out or "(green)" in out
    facts = json.loads(call(capsys, "info", made / "g", "--json")[1])
    assert facts["original_ids"] == {"kind": "text", "example": first}
    args = ("--node-table", made / "n.csv", "--header", "no", "--ids", "string")
    code, out, _ = call(capsys, "convert", made / "e.csv", tmp_path / "g", *args)
    assert code == 0 and "classes: 0 = green, 1 = red" in out
    assert "n.csv: ids from column 1 (name); labels from column 4 (label)" in out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--fill", "0"), "--fill has no effect without --node-table"),
        (("--node-label", "y"), "--node-label has no effect without --node-table"),
        (("--node-label-kind", "text"), "--node-label-kind has no effect without --node-table"),
        (("--split-seed", "3"), "--split-seed has no effect without --split"),
        (("--no-splits", "--split", "0.6", "0.2", "0.2"), "exclude each other"),
        (("--split", "0.6", "0.2", "0.3"), "add up to 1.1"),
        (("--split", "0.6", "nan", "0.3"), "'nan', expected a finite number"),
        (("--split", "0.6", "0.2", "0.2", "--split-time", "1", "2"), "not both"),
        (("--node-table", "none.csv"), "none.csv does not exist"),
        (("--node-table", "n.xlsx"), "n.xlsx"),
    ],
)
def test_flags_without_effect_are_refused(made, capsys, tmp_path, flags, message):
    args = ("convert", made / "e.csv", tmp_path / "g", "--ids", "string", "--header", "no", *flags)
    code, _, err = call(capsys, *args)
    assert code and message in err and len(err.strip().splitlines()) == 1
    assert not (tmp_path / "g").exists()


def test_a_graph_of_a_graph_keeps_names_and_classes(made, tmp_path, capsys):
    assert call(capsys, "convert", made / "g", tmp_path / "u", "--undirected")[0] == 0
    old, new = Graph.open(made / "g"), Graph.open(tmp_path / "u")
    assert new.original_ids(range(60)) == old.original_ids(range(60))
    assert new.meta["labels"]["classes"] == ["green", "red"]
    assert new.num_edges > old.num_edges


def test_a_partition_keeps_names(made, tmp_path):
    from foregather.dist.renumber import renumber

    old = Graph.open(made / "g")
    order = np.random.default_rng(1).permutation(60)
    renumber(old, order, np.array([0, 60]), tmp_path / "p", how="test")
    new = Graph.open(tmp_path / "p")
    new.verify()
    assert new.original_ids(range(60)) == old.original_ids(order)
    np.testing.assert_array_equal(
        new.features.data[new.nodes_of(NAMES)], old.features.data[old.nodes_of(NAMES)]
    )


@pytest.mark.slow
def test_memory_is_a_promise_for_names_too(tmp_path):
    """More names than the budget holds: the same folder as with enough, and no more memory."""
    count, width = 400_000, 24
    rng = np.random.default_rng(0)
    names = [f"{'I' * 90} is called {k:x}" for k in rng.permutation(count).tolist()]
    with open(tmp_path / "e.csv", "w") as file:
        pairs = rng.integers(0, count, (count, 2)).tolist()
        file.writelines(f"{names[s]},{names[t]}\n" for s, t in pairs)
    with open(tmp_path / "n.csv", "w") as file:
        file.write("id," + ",".join(f"x{k}" for k in range(width)) + ",label\n")
        for name, first in zip(names, rng.integers(0, 1000, count).tolist(), strict=True):
            file.write(f"{name}{f',{first}' * width},c{first % 5}\n")
    flags = ["--node-table", str(tmp_path / "n.csv"), "--header", "no", "--json"]
    made = {}
    for memory in ("250MB", "2GB"):
        command = [sys.executable, "-m", "foregather", "convert", str(tmp_path / "e.csv")]
        command += [str(tmp_path / memory), "--memory", memory, *flags]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        made[memory] = json.loads(done.stdout)
    assert made["250MB"]["peak_memory"] <= 250e6
    assert Graph.open(tmp_path / "250MB").digest == Graph.open(tmp_path / "2GB").digest
    assert made["250MB"]["num_nodes"] == count
