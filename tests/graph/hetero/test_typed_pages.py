"""formats.md and the how-to of typed graphs: what the pages promise, on a folder."""

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from foregather.graph.convert.typed.description.spec import read_spec
from foregather.graph.hetero import HeteroGraph
from foregather.graph.on_disk.npy import pack_header
from tests.graph.hetero.typed_graphs import CITES, typed_graph
from tests.processes import ROOT
from tests.some import some

FORMATS = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
HOWTO = (ROOT / "docs/howto/typed.md").read_text(encoding="utf-8")
SECTION = FORMATS[FORMATS.index("## Typed graphs") : FORMATS.index("## Atomicity")]


def words_of(part: str) -> set[str]:
    """Arrays that the page lists under nodes/ or edges/."""
    tree = SECTION[SECTION.index(f"{part}/") :]
    tree = tree[: tree.index("1/ …")]
    return {re.sub("_0", "_N", name) for name in re.findall(r"(\w+)\.npy", tree)}


def test_the_page_lists_the_arrays_that_folders_have(tmp_path):
    graph = typed_graph()
    names = set(graph.stored_arrays())
    for part in some(("nodes", "edges")):
        found = {
            re.sub(r"_\d+", "_N", name.split("/")[2]) for name in names if name.startswith(part)
        }
        assert found <= words_of(part)
        assert words_of(part) - found <= {"features_N_scale"}


def test_the_page_lists_the_fields_of_meta(tmp_path):
    meta = json.loads((typed_graph().save(tmp_path / "g") / "meta.json").read_text())
    for part, sign in some((("nodes", "i"), ("edges", "j"))):
        listed = set(re.findall(rf"`{part}\[{sign}\]\.(\w+)`", SECTION))
        for entry in some(meta[part]):
            assert entry.keys() == listed


def test_a_folder_is_read_with_numpy_alone(tmp_path):
    """By the page: names from meta.json, arrays by their numbers."""
    graph = typed_graph()
    folder = graph.save(tmp_path / "g")
    meta = json.loads((folder / "meta.json").read_text())
    arrays = {
        name: np.load(folder / a["file"], mmap_mode="r") for name, a in meta["arrays"].items()
    }
    number = [tuple(entry["type"]) for entry in meta["edges"]].index(CITES)
    relation = graph.edges[CITES]
    np.testing.assert_array_equal(arrays[f"edges/{number}/indices"], relation.indices)
    np.testing.assert_array_equal(arrays[f"edges/{number}/time"], relation.time)
    paper = [entry["type"] for entry in meta["nodes"]].index("paper")
    column = meta["nodes"][paper]["features"].index("words")
    np.testing.assert_array_equal(
        arrays[f"nodes/{paper}/features_{column}"], graph.nodes["paper"].features["words"]
    )
    author = [entry["type"] for entry in meta["nodes"]].index("author")
    data, offsets = (arrays[f"nodes/{author}/ids_{key}"] for key in ("bytes", "offsets"))
    assert bytes(data[offsets[3] : offsets[4]]).decode() == "räuber 3"


def test_arrays_have_the_bytes_of_the_page(tmp_path):
    folder = typed_graph().save(tmp_path / "g")
    data = (folder / "nodes/1/features_0.npy").read_bytes()
    assert data[:4096] == pack_header(np.int64, (30, 2, 3))
    assert b"'shape': (30, 2, 3)" in data[:4096]
    assert len(data) == 8192 and not any(data[4096 + 30 * 6 * 8 :])


@pytest.mark.parametrize("name", ["pyg", "arrays"])
def test_examples_of_the_how_to_run(name, tmp_path, monkeypatch, capsys):
    match = re.search(rf"<!-- test: {name} -->\n```python\n(.*?)```", HOWTO, re.DOTALL)
    assert match is not None
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(match[1], names)
    if name == "pyg":
        for key, value in some(names["data"]["paper"].items()):
            assert torch.equal(names["again"]["paper"][key], value)
        assert HeteroGraph.open(Path("papers.fg")).digest == names["graph"].digest
    else:
        assert capsys.readouterr().out == "[11 12 25]\n"


def test_descriptions_of_the_how_to_are_valid(tmp_path):
    blocks = re.findall(r"```toml\n(.*?)```", HOWTO, re.DOTALL)
    assert len(blocks) == 3
    database = sqlite3.connect(tmp_path / "shop.sqlite")
    database.executescript(
        "CREATE TABLE users(id INTEGER PRIMARY KEY);"
        "CREATE TABLE orders(id INTEGER PRIMARY KEY, user_id INTEGER REFERENCES users, note TEXT,"
        " paid_at DATE, returned INTEGER, part TEXT, price REAL, count INTEGER, status TEXT);"
    )
    database.close()
    specs = []
    for block in some(blocks):
        (tmp_path / "d.toml").write_text(block)
        specs.append(read_spec(tmp_path / "d.toml"))
    assert specs[0].edges[0].missing == "drop" and specs[0].triples is not None
    keys = {key.column: key.type for key in specs[1].nodes[0].foreign}
    assert keys == {"carrier": "airline", "dest": "airport"}
    orders, users = specs[2].nodes
    assert (orders.name, orders.time, orders.labels) == ("orders", "paid_at", "returned")
    assert orders.features == ("price", "count") and orders.foreign == () and specs[2].strict
    assert users.id == "id"
