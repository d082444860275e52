"""Typed sampling of real tables with times: flights of 2013, with rows of 100,000 edges."""

import numpy as np
import pytest

from foregather.graph.hetero import HeteroGraph
from foregather.sampling import HeteroNeighbor
from tests.some import some
from tests.typed_data import load_typed


@pytest.fixture(scope="module")
def flights():
    """A row is a node, a foreign key a relation and its reverse; flights and weather have times."""
    return load_typed("nycflights13_graph").with_reverse()


def sampled(graph, count, **rule):
    rng = np.random.default_rng(0)
    ids = rng.integers(0, graph.nodes["flight"].num_nodes, count)
    made = HeteroNeighbor([16, 8], time="node", **rule).sample_bulk(
        graph,
        {"flight": np.array_split(ids, 3)},
        rows={"flight": np.array_split(np.arange(count), 3)},
        seed=1,
    )
    return ids, made


@pytest.mark.parametrize("rule", [{}, {"temporal_strategy": "last"}, {"replace": True}], ids=str)
def test_nothing_is_later_than_its_flight(flights, rule):
    ids, bulk = sampled(flights, 600, **rule)
    for sample, own in some(zip(bulk, np.array_split(ids, 3), strict=True)):
        limit = flights.nodes["flight"].time[own]
        reached = 0
        for name in some(n for n in sample.nodes if flights.nodes[n].time is not None):
            nodes = sample.nodes[name]
            times = flights.nodes[name].time[nodes.node]
            reached += len(nodes.node) - nodes.num_nodes[0]
            assert (times <= limit[nodes.tree]).all()
        assert reached > 5000 and len(sample.nodes["airport"].node) > 100


def test_the_last_flights_of_an_airport(flights):
    ids, bulk = sampled(flights, 90, temporal_strategy="last")
    time = flights.nodes["flight"].time
    name = next(n for n in flights.edge_types if n[0] == "flight" and n[2] == "airport")
    relation = flights.relation(name, "node")
    checked = 0
    for sample, own in zip(bulk, np.array_split(ids, 3), strict=True):
        airports, edges = sample.nodes["airport"], sample.edges[name]
        for place in range(airports.num_nodes[1]):  # those that layer 1 expands
            v, limit = int(airports.node[place]), time[own[airports.tree[place]]]
            row = relation.indices[relation.indptr[v] : relation.indptr[v + 1]]
            seen = row[time[row] <= limit]
            want = seen[np.lexsort((seen, time[seen]))][-8:]
            got = sample.nodes["flight"].node[edges.row[edges.col == place]]
            assert got.tolist() == want.tolist()
            checked += len(want) == 8
    assert checked > 80


@pytest.mark.parametrize("ordered", [False, True])
def test_from_a_folder_it_is_the_same(flights, ordered, tmp_path):
    """Also where rows are stored in the order of time."""
    graph = flights.with_time_order("node") if ordered else flights
    opened = HeteroGraph.open(graph.save(tmp_path / "flights.fg"))
    assert opened.path is not None
    want = sampled(flights, 300)[1]
    assert sampled(opened, 300)[1].digest == want.digest
    assert sum(len(edges.row) for edges in want[0].edges.values()) > 3000
