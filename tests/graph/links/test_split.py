"""split_links: edges become links of one list each, and only training links stay edges."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import Graph, HeteroGraph
from foregather.errors import FormatError, InputError
from foregather.graph.links.borders import as_keys, keys_at, pair_keys
from foregather.graph.links.split import split_links
from tests.graph.links.linked_graphs import BACK, BUYS, edges_of, pairs_of, some_graph, typed

PARTS = ("train", "valid", "test")


@given(st.integers(0, 50), st.sampled_from([40, 111, 1 << 20]), st.booleans())
@settings(max_examples=20, deadline=None)
def test_every_edge_is_a_link_once(seed, step, undirected):
    rng = np.random.default_rng(seed)
    weight, rows = rng.random(200, np.float32), rng.random((200, 2), np.float32)
    graph, _ = some_graph(seed, edge_weight=weight, edge_attr=rows, undirected=undirected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("foregather.graph.links.split.STEP", step)
        made = split_links(graph, (0.6, 0.3, 0.1), seed=seed)
    found = {name: pairs_of(made.links[name]) for name in PARTS}
    given_edges = edges_of(graph)
    if undirected:
        given_edges = [(s, t) for s, t in given_edges if s <= t]
    assert sorted(pair for pairs in found.values() for pair in pairs) == sorted(given_edges)
    kept = {pair for pair in found["train"]}
    if undirected:
        kept |= {(t, s) for s, t in kept}
    assert edges_of(made) == [pair for pair in edges_of(graph) if pair in kept]
    out = {pair for name in PARTS[1:] for pair in found[name]}
    assert not out & kept and not {(t, s) for s, t in out if undirected} & kept
    weights = dict(zip(edges_of(graph), graph.edge_weight.tolist(), strict=True))
    if undirected:  # no parallel edges
        assert made.edge_weight.tolist() == [weights[pair] for pair in edges_of(made)]
        for name in PARTS:
            labels = made.links[name].labels.tolist()
            assert labels == [weights[pair] for pair in found[name]]
    assert made.edge_features.data.shape == (made.num_edges, 2)
    made.verify()


def test_sizes_are_exact_where_no_edge_is_repeated():
    graph, _ = some_graph(1, 60, 500, dedup=True)
    made = split_links(graph, (0.8, 0.1, 0.1))
    edges = graph.num_edges
    sizes = [made.links[name].num_links for name in PARTS]
    assert sizes == [
        int(edges * 0.8),
        int(edges * 0.9) - int(edges * 0.8),
        edges - int(edges * 0.9),
    ]


def test_the_division_is_a_function_of_seed_and_nodes():
    graph, pairs = some_graph(2)
    mixed = Graph.from_edge_index(pairs[:, ::-1].copy(), 30)
    one, two, other = (
        split_links(g, (0.5, 0.25, 0.25), seed=seed)
        for g, seed in ((graph, 7), (mixed, 7), (graph, 8))
    )
    assert one.digest == two.digest != other.digest
    assert pairs_of(one.links["test"]) != pairs_of(other.links["test"])


def test_it_is_fair():
    """Each edge is held out as often as the fractions say, over many seeds."""
    graph, _ = some_graph(3, 20, 60, dedup=True)
    counts = dict.fromkeys(edges_of(graph), 0)
    for seed in range(200):
        for pair in pairs_of(split_links(graph, (0.5, 0.25, 0.25), seed=seed).links["test"]):
            counts[pair] += 1
    found = np.array(list(counts.values())) / 200
    assert abs(found.mean() - 0.25) < 0.01 and found.min() > 0.1 and found.max() < 0.4


@pytest.mark.parametrize("order", ["source", "time"])
@pytest.mark.parametrize("how", [{"fractions": (0.5, 0.3, 0.2), "seed": 3}, {"times": (20, 35)}])
def test_a_relation_and_its_reverse_are_divided_alike(order, how):
    graph = typed(order=order)
    made = split_links(graph, relation=BUYS, **how)
    made.verify()
    there, back = made.edges[BUYS], made.edges[BACK]
    weights = there.weights.tolist()
    assert sorted(weights) == sorted(back.weights.tolist())
    assert sorted(made.links[BUYS]["train"].labels.tolist()) == sorted(weights)
    by_id = [None] * len(weights)  # both ways share edge ids
    for one in (there, back):
        ids = np.arange(len(weights)) if one.edge_ids is None else one.edge_ids
        for number, weight in zip(ids.tolist(), one.weights.tolist(), strict=True):
            assert by_id[number] in (None, weight)
            by_id[number] = weight
    every = [w for name in PARTS for w in made.links[BUYS][name].labels.tolist()]
    assert sorted(every) == list(range(90))
    if "times" in how:
        assert there.time.max() < 20 and back.time.max() < 20
        valid, test = (made.links[BUYS][name].time for name in PARTS[1:])
        assert valid.min() >= 20 and valid.max() < 35 and test.min() >= 35


def test_fractions_of_time_keep_equal_times_together():
    graph = typed(reverse=False)
    made = split_links(graph, (0.7, 0.15, 0.15), by_time=True)
    times = [made.links[BUYS][name].time for name in PARTS]
    assert times[0].max() < times[1].min() and times[1].max() < times[2].min()
    everything = np.sort(graph.edges[BUYS].time)
    assert times[1].min() == everything[63] and times[2].min() == everything[76]


def test_a_plain_graph_inside_a_typed_one_stays_plain():
    graph, _ = some_graph(4)
    made = split_links(HeteroGraph.from_graph(graph), (0.6, 0.2, 0.2), seed=2)
    assert made.digest == split_links(graph, (0.6, 0.2, 0.2), seed=2).digest


@given(st.lists(st.integers(-(2**63) + 1, 2**63 - 1), min_size=1, max_size=60), st.data())
@settings(max_examples=30, deadline=None)
def test_keys_at_places_are_those_of_the_sorted_list(values, data):
    places = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=3))
    keys = as_keys(np.array(values, np.int64))
    cut = data.draw(st.integers(0, len(values)))
    found = list(keys_at(lambda: iter([keys[:cut], keys[cut:]]), places))
    assert found == [int(np.sort(keys)[place]) for place in places]


def test_keys_of_pairs_differ():
    ids = np.arange(1000)
    keys = np.concatenate([pair_keys(ids, ids[::-1].copy(), seed) for seed in (0, 1)])
    assert len(np.unique(keys)) == 2000


BAD = {
    "neither": (dict(), "by fractions or by times"),
    "both": (dict(fractions=(0.8, 0.1, 0.1), times=(1, 2)), "by fractions or by times"),
    "two": (dict(fractions=(0.8, 0.2)), "expected three"),
    "sum": (dict(fractions=(0.8, 0.1, 0.2)), "add up to 1.1"),
    "nan": (dict(fractions=(0.8, 0.2, float("nan"))), "fraction nan"),
    "zero": (dict(fractions=(1.0, 0, 0)), "fraction 1"),
    "empty": (dict(fractions=(0.999, 0.0005, 0.0005)), "leaves valid empty"),
    "no times": (dict(times=(1, 2)), "no times"),
    "order": (dict(times=(2, 1), relation=BUYS), "ascend"),
    "empty in time": (dict(times=(-5, 20), relation=BUYS), "leaves train empty"),
    "floats": (dict(times=(1.5, 2.5), relation=BUYS), "whole numbers"),
    "one time": (dict(times=(1,)), "shape"),
    "seed": (dict(fractions=(0.8, 0.1, 0.1), seed=-1), "seed"),
    "seed in time": (dict(times=(1, 2), seed=4), "no effect"),
    "relation": (dict(fractions=(0.8, 0.1, 0.1), relation=("user", "bys", "item")), "buys"),
    "types": (dict(fractions=(0.8, 0.1, 0.1), relation=BUYS, undirected=True), "two node types"),
    "undirected": (dict(fractions=(0.8, 0.1, 0.1), undirected=True), "no reverse"),
    "plain": (dict(fractions=(0.8, 0.1, 0.1), relation=("a", "b", "c")), "no types"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence(name):
    options, words = BAD[name]
    relation = options.get("relation")
    typed_graph = relation is not None and name != "plain"
    graph = typed() if typed_graph else some_graph(0)[0]
    with pytest.raises(InputError, match=words):
        split_links(
            graph,
            options.get("fractions"),
            **{k: v for k, v in options.items() if k != "fractions"},
        )


def test_a_graph_is_split_once():
    graph = split_links(some_graph(0)[0], (0.6, 0.2, 0.2))
    with pytest.raises(InputError, match="has links already: test, train, valid"):
        split_links(graph, (0.6, 0.2, 0.2))
    made = split_links(typed(), (0.6, 0.2, 0.2), relation=BUYS)
    with pytest.raises(InputError, match="has links already"):
        split_links(made, (0.6, 0.2, 0.2), relation=BUYS)


def test_a_reverse_without_times_is_refused():
    graph = typed()
    edges = {**graph.edges, BACK: typed(time=False).edges[BACK]}
    with pytest.raises(InputError, match=r"\(item, rev_buys, user\).*has none"):
        split_links(HeteroGraph(graph.nodes, edges), times=(20, 35), relation=BUYS)


def test_damaged_ids_are_refused(tmp_path):
    graph, _ = some_graph(5)
    folder = graph.save(tmp_path / "g")
    (folder / "checks.json").unlink()
    with open(folder / "indices.npy", "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4)
    with pytest.raises(FormatError, match="4294967295"):
        split_links(Graph.open(folder), (0.6, 0.2, 0.2))


def test_the_only_relation_needs_no_name():
    graph = typed()
    made = split_links(graph, (0.6, 0.2, 0.2))  # its way back does not count
    assert list(made.links) == [BUYS]
    edges = {**graph.edges, ("user", "sees", "item"): graph.edges[BUYS]}
    with pytest.raises(InputError, match="there are 2: .user, buys, item., .user, sees, item."):
        split_links(HeteroGraph(graph.nodes, edges), (0.6, 0.2, 0.2))
