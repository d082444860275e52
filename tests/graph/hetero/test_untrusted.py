"""Typed folders from strangers: refused in a sentence, without a look outside the folder."""

import json
import os

import numpy as np
import pytest

from foregather import FormatError
from foregather.graph.hetero import HeteroGraph
from foregather.graph.on_disk.writer import meta_digest
from tests.graph.hetero.typed_graphs import CITES, typed_graph


@pytest.fixture
def folder(tmp_path):
    return typed_graph().save(tmp_path / "g")


def rewrite(folder, change) -> None:
    """Changes meta.json as somebody would who can make its digest."""
    meta = json.loads((folder / "meta.json").read_text())
    change(meta)
    meta["digest"] = meta_digest(meta)
    (folder / "meta.json").write_text(json.dumps(meta))
    (folder / "checks.json").unlink(missing_ok=True)


def set_to(*way):
    *path, key, value = way

    def change(meta):
        for step in path:
            meta = meta[step]
        meta[key] = value

    return change


def drop(*way):
    *path, key = way

    def change(meta):
        for step in path:
            meta = meta[step]
        del meta[key]

    return change


def add_array(name, like="nodes/1/time"):
    def change(meta):
        meta["arrays"][name] = {**meta["arrays"][like], "file": f"{name}.npy"}

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_to("version", 6), "format version 6"),
        (set_to("version", 3), "not a valid name"),
        (set_to("version", 4), "no list of links"),
        (set_to("version", 1), "not a valid name"),
        (set_to("version", True), "format version True"),
        (set_to("nodes", {}), "has no list of nodes"),
        (set_to("edges", None), "has no list of edges"),
        (set_to("nodes", 0, 7), "a node type that is no object"),
        (set_to("edges", 0, []), "a relation that is no object"),
        (set_to("nodes", 0, "type", ""), "empty name"),
        (set_to("nodes", 0, "type", 5), "expected a string"),
        (set_to("nodes", 0, "type", "\x1b[2J"), "not printable"),
        (set_to("nodes", 0, "type", "zz"), "twice or not in their order"),
        (set_to("nodes", 0, "type", "paper"), "twice or not in their order"),
        (set_to("nodes", 0, "num_nodes", -1), "expected a count"),
        (set_to("nodes", 0, "num_nodes", 1 << 70), "expected a count"),
        (set_to("nodes", 0, "num_nodes", 13), "do not add up"),
        (set_to("nodes", 0, "features", "x"), "has no list of features"),
        (set_to("nodes", 1, "features", ["x", "words"]), "twice or not in their order"),
        (set_to("nodes", 1, "features", ["a", "b", "c"]), "lists no array nodes/1/features_2"),
        (set_to("nodes", 1, "features", ["a"]), "nodes/1/features_1, which this version"),
        (set_to("nodes", 1, "splits", []), "nodes/1/split_0, which this version"),
        (set_to("edges", 0, "type", ["a", "b"]), "is not three names"),
        (set_to("edges", 0, "type", "abc"), "is not three names"),
        (set_to("edges", 0, "type", ["author", "at", "zoo"]), "there is no node type 'zoo'"),
        (set_to("edges", 0, "type", ["author", "at", "author"]), "indptr has 5 rows"),
        (set_to("edges", 0, "num_edges", 1), "do not add up"),
        (set_to("edges", 0, "order", "size"), "a relation of order 'size'"),
        (set_to("edges", 0, "order", []), "a relation of order"),
        (set_to("edges", 0, "order", "time"), "the edges have no time"),
        (set_to("edges", 2, "time_level", "node"), "only to order rows by them"),
        (set_to("edges", 2, "time_level", None), "time_level None"),
        (set_to("num_nodes", 3), "do not add up"),
        (drop("arrays", "edges/1/indices"), "lists no array edges/1/indices"),
        (drop("arrays", "nodes/0/ids_offsets"), "lists no array nodes/0/ids_offsets"),
        (add_array("nodes/0/ids"), "which this version of foregather does not know"),
        (add_array("nodes/9/time"), "nodes/9/time, which this version"),
        (add_array("edges/0/secret"), "edges/0/secret, which this version"),
        (add_array("edges/00/time"), "not a valid name"),
        (add_array("edges/../../x"), "not a valid name"),
        (add_array("/etc/passwd"), "not a valid name"),
        (add_array("labels"), "not a valid name"),
        (add_array("nodes/2/time"), "nodes/2/time.npy is missing"),
        (set_to("arrays", "nodes/1/time", "file", "../x.npy"), "expected nodes/1/time.npy"),
        (set_to("arrays", "nodes/1/time", "shape", [1] * 9), "expected a few counts"),
        (set_to("arrays", "nodes/1/time", "dtype", "object"), "not a number type"),
        (set_to("arrays", "nodes/1/time", "shape", [31]), "holds int64 of shape"),
    ],
)
def test_a_meta_that_lies_is_refused(folder, change, words):
    rewrite(folder, change)
    with pytest.raises(FormatError, match=words):
        HeteroGraph.open(folder)


def test_counts_that_are_moved_between_relations_are_refused(folder):
    def change(meta):
        meta["edges"][0]["num_edges"], meta["edges"][1]["num_edges"] = 1, 119

    rewrite(folder, change)
    with pytest.raises(FormatError, match=r"relation \(author, at, place\): there are 0 edges"):
        HeteroGraph.open(folder)


def test_a_changed_meta_is_refused(folder):
    text = (folder / "meta.json").read_text().replace('"cites"', '"sites"')
    (folder / "meta.json").write_text(text)
    with pytest.raises(FormatError, match="does not match its own digest"):
        HeteroGraph.open(folder)


@pytest.mark.parametrize("part", ["nodes/1/time.npy", "nodes/1", "nodes", "edges/2/indices.npy"])
def test_no_name_inside_the_folder_may_be_a_link(folder, tmp_path, part):
    os.rename(folder / part, tmp_path / "moved")
    os.symlink(tmp_path / "moved", folder / part)
    with pytest.raises(FormatError, match="is a link, or lies behind one"):
        HeteroGraph.open(folder)


def test_a_pipe_is_refused_and_not_waited_for(folder):
    os.remove(folder / "nodes/1/time.npy")
    os.mkfifo(folder / "nodes/1/time.npy")
    with pytest.raises(FormatError, match="is not a regular file"):
        HeteroGraph.open(folder)


def test_pickles_are_never_loaded(folder):
    np.save(folder / "nodes/1/time.npy", np.array([{}] * 30, object), allow_pickle=True)
    with pytest.raises(FormatError, match="pickles are never loaded"):
        HeteroGraph.open(folder)


@pytest.mark.parametrize(
    ("file", "at", "value", "words"),
    [
        ("edges/2/indices", 0, 99, "indices holds node 99"),
        ("edges/2/indptr", 1, 99, "indptr falls"),
        ("edges/2/edge_ids", 0, 1 << 40, "edge_ids does not hold each position"),
        ("edges/2/edge_ids", 0, -1, "edge_ids does not hold each position"),
        ("edges/2/time", 3, -(1 << 63), "time holds NaT"),
    ],
)
def test_arrays_that_lie_are_found_before_they_are_walked(folder, file, at, value, words):
    path = folder / f"{file}.npy"
    data = bytearray(path.read_bytes())
    size = 4 if file.endswith("indices") else 8
    data[4096 + at * size : 4096 + (at + 1) * size] = value.to_bytes(size, "little", signed=True)
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"npy: block 0 .* does not match its checksum"):
        HeteroGraph.open(folder).relation(CITES)
    (folder / "checks.json").unlink()  # who made the folder may have left the checksums out
    with pytest.raises(FormatError, match=words):
        HeteroGraph.open(folder).relation(CITES)
    with pytest.raises(FormatError, match="is corrupted"):
        HeteroGraph.open(folder).verify()
