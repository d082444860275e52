"""Real typed graphs: published counts, through a folder and PyG and back, with ways back."""

import warnings

import numpy as np
import pytest
import torch
from torch_geometric.transforms import ToUndirected

from foregather import convert
from foregather.graph.hetero import HeteroGraph
from tests.some import some
from tests.typed_data import load_typed, typed_folder

COUNTS = {  # nodes by type, and edges of all relations, as the sources publish them
    "acm": ({"paper": 4019, "author": 7167, "subject": 60}, 13_407 + 4019, 2),
    "dblp": ({"author": 4057, "paper": 14_328, "conf": 20, "term": 7723}, 119_783, 3),
    "aifb": ({"entity": 8285}, 29_043, 45),
    "codex_s": ({"entity": 2034}, 32_888, 42),
    "fb15k237": ({"entity": 14_541}, 272_115, 237),
    "icews14": ({"entity": 7128}, 74_845, 230),
    "collegemsg": ({"node": 1899}, 59_835, 1),
    "bitcoin_otc": ({"node": 5881}, 35_592, 1),
    "wikipedia_edits": ({"user": 8227, "page": 1000}, 157_474, 1),
}


MANY = ("fb15k237", "icews14")  # hundreds of relations, each with files that are synced


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in MANY else name for name in COUNTS],
)
def test_a_real_graph_goes_through_a_folder(name, tmp_path):
    graph = load_typed(name)
    nodes, edges, relations = COUNTS[name]
    assert {key: table.num_nodes for key, table in graph.nodes.items()} == nodes
    assert (graph.num_edges, len(graph.edges)) == (edges, relations)
    opened = HeteroGraph.open(graph.save(tmp_path / "g"))
    assert opened.digest == graph.digest
    assert opened.verify().num_edges == edges
    if any(relation.time is not None for relation in graph.edges.values()):
        timed = opened.with_time_order("edge")
        for relation in some(timed.edges.values()):
            early = np.diff(relation.time) < 0
            starts = relation.indptr[(relation.indptr > 0) & (relation.indptr < len(early) + 1)]
            early[starts - 1] = False
            assert not early.any()


def test_flights_have_times_of_nodes(tmp_path):
    graph = load_typed("nycflights13_graph")
    assert graph.nodes["flight"].num_nodes == 336_776 and graph.nodes["flight"].time is not None
    assert graph.edges["flight", "f2p_plane", "plane"].num_edges == 284_170
    back = graph.with_reverse()
    assert len(back.edges) == 12
    row = back.relation(("flight", "f2p_dest", "airport"), "node")
    assert row.order == "time" and row.time_level == "node"
    np.testing.assert_array_equal(row.time, graph.nodes["flight"].time[row.indices])
    assert back.relation(("airport", "rev_f2p_dest", "flight"), "node").time is None


@pytest.mark.parametrize("name", ["acm", "dblp"])
def test_ways_back_are_those_of_pyg(name):
    graph = load_typed(name).with_reverse()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = ToUndirected()(load_typed(name).to_pyg())
    assert sorted(data.edge_types) == sorted(graph.edge_types)
    made = graph.to_pyg()
    for edge_type in some(graph.edge_types):
        one, two = data[edge_type].edge_index, made[edge_type].edge_index
        for pairs in (one, two):
            assert pairs.shape == one.shape
        key = [pairs[0] * (1 << 32) + pairs[1] for pairs in (one, two)]
        assert torch.equal(key[0].sort().values, key[1].sort().values)
    assert len(graph.with_reverse().edges) == len(graph.edges)


def test_triples_in_text_give_the_same_graph(tmp_path):
    """Published triples as people have them, and the arrays made of them by others."""
    graph = load_typed("codex_s")
    names = graph.nodes["entity"].ids
    data, lines = graph.to_pyg(), []
    for _, name, _ in some(graph.edge_types):
        relation = data["entity", name, "entity"].edge_index.tolist()
        lines += [f"{names[s]}\t{name}\t{names[t]}" for s, t in zip(*relation, strict=True)]
    (tmp_path / "facts.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "names.txt").write_text("\n".join(names) + "\n")
    (tmp_path / "kg.toml").write_text(
        '[nodes.entity]\nfile = "names.txt"\nid = "1"\n[triples]\nfile = "facts.txt"'
    )
    convert(tmp_path / "kg.toml", tmp_path / "g")
    opened = HeteroGraph.open(tmp_path / "g")
    assert HeteroGraph(opened.nodes, opened.edges).digest == graph.digest


def test_relational_tables_give_the_published_graph(tmp_path):
    """Flights of 2013 as Parquet tables, against the arrays that others made of them."""
    graph, tables = load_typed("nycflights13_graph"), typed_folder() / "nycflights13"
    (tmp_path / "flights.toml").write_text(
        f"""
        [nodes.flight]
        file = "{tables}/flights.parquet"
        time = "time_hour"
        features = ["distance"]
        foreign = {{ carrier = "airline", origin = "airport", dest = "airport", tailnum = "plane" }}
        [nodes.airline]
        file = "{tables}/airlines.parquet"
        id = "carrier"
        [nodes.airport]
        file = "{tables}/airports.parquet"
        id = "faa"
        features = ["lat", "lon", "alt", "tz"]
        [nodes.plane]
        file = "{tables}/planes.parquet"
        id = "tailnum"
        """
    )
    facts = convert(tmp_path / "flights.toml", tmp_path / "g")
    made = HeteroGraph.open(tmp_path / "g")
    lost = {"(flight, f2p_dest, airport)": 7602, "(flight, f2p_tailnum, plane)": 50_094}
    assert facts["dropped"] == lost  # 2512 flights have no tail number at all
    for column, name, end in some(
        (
            ("carrier", "airline", "airline"),
            ("origin", "origin", "airport"),
            ("dest", "dest", "airport"),
            ("tailnum", "plane", "plane"),
        )
    ):
        one = made.relation(("flight", f"f2p_{column}", end))
        two = graph.relation(("flight", f"f2p_{name}", end))
        np.testing.assert_array_equal(one.indptr, two.indptr)
        np.testing.assert_array_equal(one.indices, two.indices)
    np.testing.assert_array_equal(
        made.nodes["airport"].features["x"], graph.nodes["airport"].features["x"]
    )
