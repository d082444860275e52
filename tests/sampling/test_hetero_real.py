"""Typed sampling of real tables with times: flights of 2013, with rows of 100,000 edges."""

import numpy as np
import pytest

from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.sampling import HeteroNeighbor
from tests.some import some


@pytest.fixture(scope="module")
def flights(request):
    """A row is a node, a foreign key a relation and its reverse; flights and weather have times."""
    path = request.getfixturevalue("data_folder") / "typed" / "nycflights13_graph.npz"
    if not path.exists():
        pytest.skip("the flights are not there")
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    counts = {str(name): int(arrays[f"num_nodes_{name}"]) for name in arrays["node_types"]}
    nodes = {
        name: NodeTable.of(count, time=arrays.get(f"time_{name}")) for name, count in counts.items()
    }
    edges = {}
    for key, values in arrays.items():
        if not key.startswith("fk_"):
            continue
        parts = key[3:].split("__")
        source, target, role = parts[0], parts[-1], "__".join(parts[1:])
        there = np.flatnonzero(values >= 0)
        ends = np.stack([there, values[there].astype(np.int64)])
        edges[source, f"f2p_{role}", target] = Relation.of(ends, counts[source], counts[target])
        edges[target, f"rev_f2p_{role}", source] = Relation.of(
            ends[::-1], counts[target], counts[source]
        )
    return HeteroGraph(nodes, edges)


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
