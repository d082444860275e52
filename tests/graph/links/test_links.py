"""Links of a graph: in memory, in a folder, damaged, and in graphs made of it."""

import copy
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from foregather import Graph, HeteroGraph, convert
from foregather.dist.renumber import renumber
from foregather.errors import FormatError, InputError
from foregather.graph.links.links import Links
from tests.fuzzing.fuzz_files import with_digest
from tests.graph.links.linked_graphs import BUYS, linked, some_graph, typed, typed_linked


def same(one, two):
    assert one.keys() == two.keys()
    for name in one:
        first, second = one[name].arrays(), two[name].arrays()
        assert first.keys() == second.keys()
        for key in first:
            assert first[key].dtype == second[key].dtype
            np.testing.assert_array_equal(first[key], second[key])


def test_a_plain_folder_gives_links_back(tmp_path):
    graph = linked()
    folder = graph.save(tmp_path / "g")
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["version"] == 3
    assert meta["links"] == [{"name": "test", "num_links": 1}, {"name": "valid", "num_links": 2}]
    again = Graph.open(folder)
    same(graph.links, again.links)
    assert again.digest == graph.digest and again.checked and again.path is not None
    assert "links/1/negative_sources" in again.verify().arrays
    same(HeteroGraph.open(folder).links["node", "to", "node"], graph.links)
    same(HeteroGraph.open(folder).as_graph().links, graph.links)
    again.save(folder, overwrite=True)
    assert Graph.open(folder).digest == graph.digest


def test_a_typed_folder_gives_links_back(tmp_path):
    graph = typed_linked()
    folder = graph.save(tmp_path / "g")
    assert json.loads((folder / "meta.json").read_text())["version"] == 4
    again = HeteroGraph.open(folder)
    same(graph.links[BUYS], again.links[BUYS])
    assert again.digest == graph.digest and again.path is not None
    again.verify()
    assert again.info()["links"][0]["name"] == "test"
    assert again.links_of("train").time.tolist() == [5, 6]
    same(again.with_time_order("edge").links[BUYS], graph.links[BUYS])
    same(again.with_reverse().links[BUYS], graph.links[BUYS])


def test_a_graph_without_links_keeps_its_digest_and_version(tmp_path):
    graph, _ = some_graph(0)
    assert replace(linked(), links={}).digest == graph.digest
    meta = json.loads((graph.save(tmp_path / "g") / "meta.json").read_text())
    assert meta["version"] == 1 and "links" not in meta
    both = typed()
    assert HeteroGraph(both.nodes, both.edges, links={BUYS: {}}).digest == both.digest


def test_pickles_and_copies_have_links(tmp_path):
    for graph in (linked(), Graph.open(linked().save(tmp_path / "g"))):
        same(pickle.loads(pickle.dumps(graph)).links, graph.links)
        assert copy.copy(graph) is graph
    graph = typed_linked()
    same(pickle.loads(pickle.dumps(graph)).links[BUYS], graph.links[BUYS])


def test_links_are_frozen_and_found_by_name():
    graph = linked()
    assert graph.links_of("validation").num_links == len(graph.links["valid"]) == 2
    assert "links (test 1, valid 2)" in repr(graph) and "1 negative)" in repr(graph.links["valid"])
    with pytest.raises(TypeError):
        graph.links["more"] = graph.links["test"]
    with pytest.raises(InputError, match="no links 'tset'; the nearest is 'test'"):
        graph.links_of("tset")
    with pytest.raises(InputError, match="split_links or with_links"):
        some_graph(0)[0].links_of("train")


BAD = {
    "ids": (([[0, 30], [1, 2]],), {}, "source 30 at position 1, but there are 30"),
    "negative id": (([[0, 3], [1, -2]],), {}, "target -2 at position 1"),
    "turned": ((np.zeros((5, 2), int),), {}, "transpose"),
    "floats": (([[0.5], [1.0]],), {}, "whole numbers"),
    "labels": (([[0], [1]],), {"labels": [1, 2]}, "one per link"),
    "times": (([[0], [1]],), {"time": [0.5]}, "whole numbers"),
    "NaT": (([[0], [1]],), {"time": np.array(["NaT"], "M8[s]")}, "NaT"),
    "negatives": (([[0], [1]],), {"negatives": [[40], [1]]}, "negatives hold the source 40"),
    "candidates": (([[0], [1]],), {"candidates": [[1], [2]]}, "one row of targets per link"),
    "candidate": (([[0], [1]],), {"candidates": [[1, 77]]}, "target 77"),
    "words": (([["a"], ["b"]],), {}, "expected numbers"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_links_are_one_sentence(name):
    given, options, words = BAD[name]
    with pytest.raises(InputError, match=words):
        some_graph(0)[0].with_links("valid", *given, **options)


def test_bad_names_and_times_on_one_side():
    graph = linked()
    for name, words in (("", "empty name"), (3, "expected a string"), ("val", "mean the same")):
        with pytest.raises(InputError, match=words):
            graph.with_links(name, [[0], [1]])
    with pytest.raises(InputError, match="'train' with times and links 'test' without"):
        graph.with_links("train", [[0], [1]], time=[3])
    with pytest.raises(InputError, match="nearest is '.user, buys, item.'"):
        typed().with_links("train", [[0], [1]], relation=("user", "buy", "item"))
    with pytest.raises(InputError, match="target 7 at position 0, but there are 7"):
        typed().with_links("train", [[11], [7]], relation=BUYS)
    with pytest.raises(InputError, match="only one of their two ends"):
        Links(np.zeros(1, np.uint32), np.zeros(1, np.uint32), negative_sources=np.zeros(1, "u4"))


def change(folder, edit):
    meta = json.loads((folder / "meta.json").read_text())
    edit(meta)
    (folder / "meta.json").write_bytes(with_digest(json.dumps(meta).encode()))
    (folder / "checks.json").unlink()


LIES = {
    "none": (lambda m: m.pop("links"), "no list of links"),
    "empty": (lambda m: m.update(links=[]), "no list of links"),
    "object": (lambda m: m.update(links=[3, 4]), "no object"),
    "count": (lambda m: m["links"][0].update(num_links=7), "there are 1, expected 7"),
    "huge": (lambda m: m["links"][0].update(num_links=1 << 70), "expected a count"),
    "order": (lambda m: m["links"].reverse(), "not in their order"),
    "twice": (lambda m: m["links"][0].update(name="valid"), "twice"),
    "name": (lambda m: m["links"][0].update(name="a\nb"), "not printable"),
    "fewer": (lambda m: m["links"].pop(), "links/1/labels, which this version"),
    "more": (lambda m: m["links"].append({"name": "x", "num_links": 0}), "links/2/sources"),
    "relation": (lambda m: m["links"][0].update(type=["a", "b", "c"]), "not in their order"),
    "of a relation": (
        lambda m: [one.update(type=["a", "b", "c"]) for one in m["links"]],
        "links are of relations",
    ),
    "relation of two": (lambda m: m["links"][0].update(type=["a", "b"]), "three names"),
    "array": (
        lambda m: m["arrays"].update({"links/0/../x": m["arrays"].pop("links/0/sources")}),
        "not a valid name",
    ),
    "dtype": (lambda m: m["arrays"]["links/0/sources"].update(dtype="float32"), "holds uint32"),
    "version": (lambda m: m.update(version=1), "not a valid name"),
    "ends": (lambda m: m["arrays"].pop("links/1/negative_targets"), "only one of their two ends"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_meta_that_lies_is_refused(tmp_path, name):
    folder = linked().save(tmp_path / "g")
    edit, words = LIES[name]
    change(folder, edit)
    with pytest.raises(FormatError, match=words):
        Graph.open(folder)


def test_links_of_a_relation_that_is_not_there(tmp_path):
    folder = typed_linked().save(tmp_path / "g")
    change(folder, lambda m: [one.update(type=["user", "x", "item"]) for one in m["links"]])
    with pytest.raises(FormatError, match="a relation that is not there"):
        HeteroGraph.open(folder)


@pytest.mark.parametrize("make", [linked, typed_linked])
def test_damage_is_found(tmp_path, make):
    graph = make()
    kind = type(graph)
    folder = graph.save(tmp_path / "g")
    for file in sorted((folder / "links").rglob("*.npy")):
        good = file.read_bytes()
        file.write_bytes(good[:4096] + bytes([good[4096] ^ 255]) + good[4097:])
        with pytest.raises(FormatError, match=file.name):
            kind.open(folder).verify()
        file.write_bytes(good[:-4096])
        with pytest.raises(FormatError):
            kind.open(folder)
        file.write_bytes(good)
    kind.open(folder).verify()


def test_ids_that_are_no_nodes_are_found_without_checksums():
    graph = linked()
    far = Links(np.array([3], np.uint32), np.array([30], np.uint32))
    with pytest.raises(FormatError, match="links 'far': targets holds node 30 at position 0"):
        replace(graph, links={"far": far}).verify()
    late = Links(*(np.zeros(1, np.uint32),) * 2, time=np.array([np.iinfo(np.int64).min]))
    with pytest.raises(FormatError, match="links 'late'.*NaT"):
        replace(graph, links={"late": late}).verify()
    both = typed()
    with pytest.raises(FormatError, match="links 'far' of .user, buys, item.: targets"):
        HeteroGraph(both.nodes, both.edges, links={BUYS: {"far": far}}).verify()


def test_a_partition_renumbers_links(tmp_path):
    graph = linked()
    order = np.random.default_rng(0).permutation(30)
    renumber(graph, order, np.array([0, 30]), tmp_path / "p", how="test")
    made = Graph.open(tmp_path / "p")
    made.verify()
    for name in graph.links:
        for mine, theirs in (
            (made.links[name].index, graph.links[name].index),
            (made.links[name].negatives, graph.links[name].negatives),
            (made.links[name].candidates, graph.links[name].candidates),
        ):
            assert (mine is None) == (theirs is None)
            if mine is not None:
                np.testing.assert_array_equal(order[mine], theirs)


def test_a_conversion_does_not_drop_links(tmp_path):
    folder = linked().save(tmp_path / "g")
    with pytest.raises(InputError, match=r"has links \(test, valid\), which a conversion"):
        convert(folder, tmp_path / "h", undirected=True)


def test_a_relation_in_place_of_the_name_is_told():
    with pytest.raises(InputError, match=r"expected text such as 'train'; the relation is the sec"):
        typed_linked().links_of(BUYS)
