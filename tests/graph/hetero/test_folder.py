"""Typed graphs as folders: the same arrays, the same digest, in whole or not at all."""

import json
import os
import pickle
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from foregather import FormatError, Graph, InputError, StorageError
from foregather.graph.hetero import HeteroGraph, NodeTable, Relation, TextIds
from foregather.graph.hetero.time_order import turned
from foregather.graph.integrity.add_checks import add_checks
from foregather.graph.mapped import is_mapped
from foregather.graph.on_disk.meta import read_meta
from foregather.graph.on_disk.stamp import Stamp
from tests.flip import flip, places
from tests.graph.hetero.typed_graphs import AT, CITES, WRITES, typed_graph
from tests.some import some


@pytest.fixture
def folder(tmp_path):
    return typed_graph().save(tmp_path / "g.fg")


def assert_same(one: HeteroGraph, other: HeteroGraph) -> None:
    assert one.node_types == other.node_types
    assert one.edge_types == other.edge_types
    first, second = one.stored_arrays(), other.stored_arrays()
    assert first.keys() == second.keys()
    for name in some(first):
        assert first[name].dtype == second[name].dtype
        np.testing.assert_array_equal(first[name], second[name], name)
    for name in one.edge_types:
        assert one.edges[name].order == other.edges[name].order
        assert one.edges[name].time_level == other.edges[name].time_level
    for name in one.node_types:
        assert list(one.nodes[name].features) == list(other.nodes[name].features)
        assert list(one.nodes[name].splits) == list(other.nodes[name].splits)
        assert one.nodes[name].num_nodes == other.nodes[name].num_nodes


@pytest.mark.parametrize("order", [None, "node", "edge"])
def test_what_is_saved_is_opened(tmp_path, order):
    graph = typed_graph()
    if order == "node":
        cites = replace(graph.edges[CITES], time=None)
        graph = HeteroGraph(graph.nodes, {**graph.edges, CITES: cites})
    if order is not None:
        graph = graph.with_time_order(order)
        assert graph.edges[CITES].order == "time"
    opened = HeteroGraph.open(graph.save(tmp_path / "g"))
    assert_same(graph, opened)
    assert opened.digest == graph.digest
    assert opened.checked and opened.path == tmp_path / "g"
    assert opened.verify().num_edges == graph.num_edges
    for edge_type in some(graph.edge_types):
        np.testing.assert_array_equal(
            opened.relation(edge_type).indices, graph.relation(edge_type).indices
        )
    assert list(opened.nodes["author"].ids) == list(graph.nodes["author"].ids)


def test_times_of_both_levels_do_not_replace_each_other():
    with pytest.raises(
        InputError, match=r"relation \(paper, cites, paper\) has times of its edges"
    ):
        typed_graph().with_time_order("node")


def test_equal_graphs_give_equal_bytes(tmp_path):
    one, two = (typed_graph().save(tmp_path / name) for name in "ab")
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(two) for path in two.rglob("*") if path.is_file())
    for file in some(files):
        assert (one / file).read_bytes() == (two / file).read_bytes()


def test_the_digest_changes_with_every_array_and_name(folder):
    graph = HeteroGraph.open(folder)
    digests = {graph.digest}
    for number, name in enumerate(some(graph.stored_arrays())):
        again = folder.with_name(f"changed-{number}")
        subprocess.run(["cp", "-r", folder, again], check=True)
        if graph.stored_arrays()[name].size:
            digests.add(change_one(again, name).digest)
    paper = graph.nodes["paper"]
    for nodes in (
        {**graph.nodes, "other": NodeTable(0)},
        {**graph.nodes, "place": replace(graph.nodes["place"], ids=None)},
        {**graph.nodes, "paper": replace(paper, features={"x": paper.features["x"]})},
        {**graph.nodes, "paper": replace(paper, features={"z": paper.features["x"]})},
        {**graph.nodes, "paper": replace(paper, splits={"t": paper.splits["train"]})},
    ):
        digests.add(HeteroGraph(nodes, graph.edges).digest)
    renamed = {("author", "is at", "place") if k == AT else k: v for k, v in graph.edges.items()}
    digests.add(HeteroGraph(graph.nodes, renamed).digest)
    filled = [name for name, values in graph.stored_arrays().items() if values.size]
    assert len(digests) == 1 + len(filled) + 6


def change_one(folder: Path, name: str) -> HeteroGraph:
    """The graph of a folder with one bit of one array changed, as if it had been made so."""
    flip(folder / f"{name}.npy", 4096 + (8 if name.endswith(("indptr", "offsets")) else 0))
    (folder / "checks.json").unlink()
    changed = HeteroGraph.open(folder)
    return HeteroGraph(changed.nodes, changed.edges)  # without the digest in meta.json


def test_a_flipped_bit_of_any_array_is_found(folder):
    names = [name for name, entry in read_meta(folder).arrays.items() if entry.nbytes]
    assert len(names) == 25
    for name in some(names):
        for _, at, words in some(places(folder, name)):
            flip(folder / f"{name}.npy", at)
            with pytest.raises(FormatError, match=f"{name}.npy(: block 0| is corrupted)"):
                HeteroGraph.open(folder).verify()
            if name.startswith("edges/") and not name.endswith("features"):
                with pytest.raises(FormatError, match=words):
                    graph = HeteroGraph.open(folder)
                    graph.relation(graph.edge_types[int(name.split("/")[1])])
            flip(folder / f"{name}.npy", at)
    assert HeteroGraph.open(folder).verify().blocks == 25


def test_a_flipped_bit_of_a_table_or_header_is_found(folder):
    for path in some(sorted(folder.rglob("*.crc"))):
        if path.stat().st_size == 4096:
            continue
        flip(path, 4096)
        with pytest.raises(FormatError, match=r"\.crc does not match"):
            HeteroGraph.open(folder).verify()
        flip(path, 4096)
    flip(folder / "nodes/1/time.npy", 4000)
    with pytest.raises(FormatError, match="nodes/1/time.npy"):
        HeteroGraph.open(folder).verify()


def test_a_flipped_bit_of_edge_features_is_found_when_they_are_used(folder):
    flip(folder / "edges/1/features.npy", 4100)
    graph = HeteroGraph.open(folder)
    relation = graph.relation(WRITES)  # sampling needs no features, so they stay on disk
    assert is_mapped(relation.features) and not is_mapped(relation.indices)
    words = "edges/1/features.npy: block 0 .* does not match its checksum"
    for use in some((graph.to_pyg, lambda: turned(relation, 12), lambda: pickle.dumps(relation))):
        with pytest.raises(FormatError, match=words):
            use()


def test_a_changed_file_is_noticed(folder):
    stamp = Stamp.of(HeteroGraph.open(folder))
    stamp.check()
    os.utime(folder / "nodes/1/time.npy")
    with pytest.raises(FormatError, match="nodes/1/time.npy of g.fg was written to"):
        stamp.check()


def test_block_checksums_are_added_to_a_folder_without(folder):
    before = (folder / "checks.json").read_bytes()
    for path in [*folder.rglob("*.crc"), folder / "checks.json"]:
        path.unlink()
    opened = HeteroGraph.open(folder)
    assert not opened.checked and opened.verify().blocks is None
    assert add_checks(folder) == 25
    assert (folder / "checks.json").read_bytes() == before
    assert HeteroGraph.open(folder).checked


def test_a_plain_graph_is_not_mistaken_for_a_typed_one(folder):
    with pytest.raises(FormatError, match="with node types and relations, expected a plain one"):
        Graph.open(folder)


def test_nothing_is_replaced_that_is_not_a_graph(folder):
    graph = typed_graph(1)
    with pytest.raises(StorageError, match="exists already"):
        graph.save(folder)
    (folder / "nodes/0/notes.txt").write_text("mine")
    with pytest.raises(StorageError, match="holds nodes/0/notes.txt, which is not part"):
        graph.save(folder, overwrite=True)
    (folder / "nodes/0/notes.txt").unlink()
    (folder / "nodes/7").mkdir()
    with pytest.raises(StorageError, match=r"holds nodes/7 \(a link, folder or device\)"):
        graph.save(folder, overwrite=True)
    (folder / "nodes/7").rmdir()
    assert HeteroGraph.open(graph.save(folder, overwrite=True)).digest == graph.digest
    plain = Graph.from_edge_index([[0], [1]], 2)
    assert Graph.open(plain.save(folder, overwrite=True)).digest == plain.digest
    assert graph.save(folder, overwrite=True) == folder
    assert sorted(os.listdir(folder.parent)) == ["g.fg"]


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    synced, sync = [], os.fsync

    def full(descriptor):
        synced.append(descriptor)
        if len(synced) == 30:  # some arrays are complete
            raise OSError(28, "No space left on device")
        sync(descriptor)

    graph = typed_graph()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="no space left"):
        graph.save(tmp_path / "g")
    monkeypatch.undo()
    assert os.listdir(tmp_path) == []


def test_a_copy_with_other_arrays_has_no_folder(folder):
    graph = HeteroGraph.open(folder)
    paper = graph.nodes["paper"]
    for table in some((replace(paper, labels=None), replace(paper, time=paper.time + 1))):
        copy = replace(graph, nodes={**graph.nodes, "paper": table})
        assert copy.path is None and not copy.checked
        assert copy.digest != graph.digest
    renamed = {"writer" if name == "author" else name: one for name, one in graph.nodes.items()}
    assert replace(graph, nodes=renamed, edges={CITES: graph.edges[CITES]}).path is None
    alike = {name.replace("author", "autho"): one for name, one in graph.nodes.items()}
    edges = {
        tuple(part.replace("author", "autho") for part in name): one
        for name, one in graph.edges.items()
    }
    assert replace(graph, nodes=alike, edges=edges).path is None  # the same arrays, other names
    same = replace(graph)
    assert same.path == folder and same.digest == graph.digest


@pytest.mark.parametrize("where", ["memory", "folder", "changed"])
def test_graphs_are_pickled(folder, where):
    graph = typed_graph() if where == "memory" else HeteroGraph.open(folder)
    if where == "changed":
        graph = replace(graph, nodes={**graph.nodes, "zoo": NodeTable(3, ids=TextIds.of("abc"))})
    data = pickle.dumps(graph)
    again = pickle.loads(data)
    assert_same(graph, again)
    assert again.digest == graph.digest and again.path == graph.path
    assert (len(data) < 500) == (where == "folder")


def test_a_pickled_graph_whose_folder_changed_is_refused(folder):
    data = pickle.dumps(HeteroGraph.open(folder))
    typed_graph(1).save(folder, overwrite=True)
    with pytest.raises(FormatError, match="now holds one with"):
        pickle.loads(data)


def test_hostile_names_are_names_and_not_paths(tmp_path):
    names = ["../up", "/etc", "a/b", "A", "a", "..", " ", "a__b", "文", "x" * 4096, "nodes", "é"]
    nodes = {name: NodeTable.of(2, {name: np.ones((2, 1))}) for name in names}
    edges = {(a, b, a): Relation.of([[0], [1]], 2, 2) for a in names for b in names[:4]}
    graph = HeteroGraph(nodes, edges)
    opened = HeteroGraph.open(graph.save(tmp_path / "g"))
    assert_same(graph, opened)
    assert os.listdir(tmp_path) == ["g"]
    listed = {path.relative_to(tmp_path / "g").parts[0] for path in (tmp_path / "g").rglob("*")}
    assert listed == {"nodes", "edges", "meta.json", "checks.json"}


def test_a_graph_of_nothing_is_a_graph(tmp_path):
    for number, graph in enumerate(
        some([HeteroGraph({}, {}), HeteroGraph({"a": NodeTable(0), "b": NodeTable(3)}, {})])
    ):
        opened = HeteroGraph.open(graph.save(tmp_path / str(number)))
        assert (opened.num_nodes, opened.num_edges) == (graph.num_nodes, 0)
        assert opened.node_types == graph.node_types
        assert opened.digest == graph.digest
        assert opened.verify().num_edges == 0


def test_more_relations_than_the_usual_limit_of_files(tmp_path):
    """80 relations have 240 arrays, and this process may open 200 files."""
    one = Relation.of([[1, 0], [0, 0]], 2, 2)
    assert one.edge_ids is not None
    graph = HeteroGraph({"e": NodeTable(2)}, {("e", f"r{i}", "e"): one for i in range(80)})
    graph.save(tmp_path / "g")
    code = (
        "import sys; from foregather.graph import HeteroGraph; g = HeteroGraph.open(sys.argv[1]);"
        "print(g.relation(('e', 'r79', 'e')).num_edges)"
    )

    def limit() -> None:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(200, hard), hard))

    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "g"],
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
    )
    assert done.stdout == "2\n", done.stderr


def test_meta_says_what_is_there(folder):
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["version"] == 2
    assert (meta["num_nodes"], meta["num_edges"]) == (47, 360)
    assert [entry["type"] for entry in meta["nodes"]] == ["author", "paper", "place"]
    assert meta["nodes"][1]["features"] == ["words", "x"]
    assert meta["nodes"][1]["splits"] == ["test", "train", "val"]
    assert [tuple(entry["type"]) for entry in meta["edges"]] == sorted(typed_graph().edges)
    assert meta["edges"][1] == {
        "type": list(WRITES),
        "num_edges": 120,
        "order": "source",
        "time_level": "edge",
    }


def test_every_folder_is_synced_before_it_gets_its_name(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(
        "foregather.graph.on_disk.writer.sync_folder",
        lambda folder: synced.append(str(folder).partition("/graph")[2]),
    )
    typed_graph().save(tmp_path / "g")
    inner = [f"/{name}/{number}" for name in ("nodes", "edges") for number in range(3)]
    assert set(synced) == {"", "/nodes", "/edges", "/edges/3", *inner}
    assert synced[-1] == "" and synced.index("/nodes") > synced.index("/nodes/0")
