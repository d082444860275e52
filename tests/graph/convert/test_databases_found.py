"""What someone who knew only the pages found in conversions of tables and databases."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from foregather import InputError, ReadOptions, convert
from foregather.cli.main import main
from foregather.graph.hetero import HeteroGraph, NodeTable
from tests.graph.convert.test_databases import make_sqlite, pairs

KEYS = """
CREATE TABLE cust(id TEXT PRIMARY KEY);
INSERT INTO cust VALUES ('a'), ('b');
CREATE TABLE ord(id INTEGER PRIMARY KEY, cust TEXT REFERENCES cust(id));
INSERT INTO ord VALUES (1, 'a'), (2, ''), (3, NULL), (4, 'b'), (5, '');
"""


def test_an_empty_key_of_a_database_points_nowhere_and_null_is_no_key(tmp_path):
    path = make_sqlite(tmp_path / "k.sqlite", KEYS)
    facts = convert(path, tmp_path / "g", memory="4GB")
    assert facts["dropped"] == {"(ord, f2p_cust, cust)": 2}
    assert pairs(HeteroGraph.open(tmp_path / "g"), ("ord", "f2p_cust", "cust")) == [(0, 0), (3, 1)]
    with pytest.raises(InputError, match="column 'cust' .* has '' in row 2, which is no node"):
        convert(path, tmp_path / "s", memory="4GB", reading=ReadOptions(strict=True))
    assert not (tmp_path / "s").exists()


def test_an_empty_cell_of_a_file_is_no_key(tmp_path):
    (tmp_path / "cust.csv").write_text("id\na\nb\n")
    (tmp_path / "ord.csv").write_text("n,cust\n1,a\n2,\n3,b\n")
    (tmp_path / "x.toml").write_text(
        '[nodes.cust]\nfile = "cust.csv"\nid = "id"\n'
        '[nodes.ord]\nfile = "ord.csv"\nforeign = { cust = "cust" }\n'
    )
    options = ReadOptions(strict=True)
    facts = convert(tmp_path / "x.toml", tmp_path / "g", memory="4GB", reading=options)
    assert facts["dropped"] == {}


UNITS = """
CREATE TABLE a(id INTEGER PRIMARY KEY, at DATETIME);
INSERT INTO a VALUES (1, 1700000000000);
CREATE TABLE b(id INTEGER PRIMARY KEY, at DATETIME);
INSERT INTO b VALUES (1, '2024-01-01');
"""


def test_times_of_two_units_are_not_chosen_in_silence(tmp_path):
    path = make_sqlite(tmp_path / "u.sqlite", UNITS)
    with pytest.raises(InputError, match="times of table 'a' are whole numbers and those of 'b'"):
        convert(path, tmp_path / "g", memory="4GB")
    spec = tmp_path / "u.toml"
    spec.write_text('database = "u.sqlite"\n[nodes.a]\ntime = "at"\n[nodes.b]\ntime = "at"\n')
    notes = convert(spec, tmp_path / "g", memory="4GB")["notes"]
    assert any("Times of a are whole numbers, which are compared with" in note for note in notes)
    spec.write_text('database = "u.sqlite"\n[nodes.a]\ntime = ""\n')
    convert(spec, tmp_path / "h", memory="4GB")
    assert HeteroGraph.open(tmp_path / "h").nodes["a"].time is None


NAMES = """
CREATE TABLE c(id INTEGER PRIMARY KEY, time TEXT, y TEXT, num_nodes TEXT, kind TEXT);
INSERT INTO c VALUES (1, 'noon', 'yes', 'p', 'k'), (2, 'night', 'no', 'q', 'l');
"""


def test_columns_called_as_something_else_in_a_batch_are_left_out_by_name(tmp_path):
    path = make_sqlite(tmp_path / "n.sqlite", NAMES)
    notes = " ".join(convert(path, tmp_path / "g", memory="4GB")["notes"])
    for name in ("time", "y", "num_nodes"):
        assert f"{name} (batches call something else so; rename it)" in notes
    graph = HeteroGraph.open(tmp_path / "g")
    assert list(graph.nodes["c"].features) == ["kind"]
    again = HeteroGraph.from_pyg(graph.to_pyg())
    assert again.nodes["c"].time is None and again.nodes["c"].labels is None
    (tmp_path / "t.csv").write_text("y\na\nb\n")
    (tmp_path / "t.toml").write_text('[nodes.c]\nfile = "t.csv"\ncategories = ["y"]\n')
    with pytest.raises(InputError, match="has a feature called 'y', as something else in a batch"):
        convert(tmp_path / "t.toml", tmp_path / "t", memory="4GB")


@pytest.mark.parametrize("name", ["y", "time", "num_nodes"])
def test_pyg_is_not_given_a_feature_in_the_place_of_something_else(name):
    table = NodeTable.of(2, {name: np.zeros(2, np.int64), "x": np.zeros((2, 1), np.float32)})
    with pytest.raises(InputError, match=f"the feature '{name}' would take the place"):
        HeteroGraph({"c": table}, {}).to_pyg()


def test_numbers_beyond_float32_are_refused_and_large_whole_ones_rounded(tmp_path):
    text = "CREATE TABLE p(id INTEGER PRIMARY KEY, v {}); INSERT INTO p VALUES (1, 0), (2, {});"
    path = make_sqlite(tmp_path / "r.sqlite", text.format("REAL", "1e300"))
    with pytest.raises(InputError, match="'v' .* 1e\\+300 in row 2, a number beyond float32"):
        convert(path, tmp_path / "g", memory="4GB")
    path = make_sqlite(tmp_path / "i.sqlite", text.format("INTEGER", 2**53 + 1))
    convert(path, tmp_path / "g", memory="4GB")
    x = HeteroGraph.open(tmp_path / "g").nodes["p"].features["x"]
    assert x.tolist() == [[0.0], [float(np.float32(2**53 + 1))]]


def test_a_file_that_changed_under_its_old_times_is_read_again(tmp_path):
    """Same size and time of change, other bytes: as `cp -p` or `rsync -t` leave it."""
    (tmp_path / "u.csv").write_text("id,label\n" + "".join(f"{i},{i % 2}\n" for i in range(50)))
    (tmp_path / "e.csv").write_text("a,b\n" + "".join(f"{i},{49 - i}\n" for i in range(50)))
    (tmp_path / "x.toml").write_text(
        '[nodes.u]\nfile = "u.csv"\nid = "id"\nlabels = "label"\n'
        '[[edges]]\ntype = ["u", "to", "u"]\nfile = "e.csv"\nsource = "a"\ntarget = "b"\n'
    )
    killed = (
        "import os, signal\n"
        "from foregather.graph.convert.typed import run\n"
        "run.write_relations = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\n"
        "run.convert_typed('x.toml', 'g', memory='1GB')\n"
    )
    done = subprocess.run([sys.executable, "-c", killed], cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL and (tmp_path / "g.partial").exists()
    file = tmp_path / "u.csv"
    before = os.stat(file)
    file.write_text(file.read_text().replace("\n7,1\n", "\n7,5\n"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert convert(tmp_path / "x.toml", tmp_path / "g", memory="4GB")["reused"] == 0
    assert HeteroGraph.open(tmp_path / "g").nodes["u"].labels[7] == 5


def test_a_run_that_is_not_there(tmp_path, capsys):
    made = HeteroGraph({"c": NodeTable.of(2)}, {})
    made.save(tmp_path / "g")
    assert main(["infer", str(tmp_path / "none"), str(tmp_path / "g"), str(tmp_path / "o")]) != 0
    assert "is not a run folder" in capsys.readouterr().err
