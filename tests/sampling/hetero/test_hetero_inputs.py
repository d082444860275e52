"""Typed samplers and what they are given: names, numbers, times, and graphs with little in them."""

import gc
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from foregather.errors import InputError
from foregather.graph import Graph
from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.sampling import HeteroBulk, HeteroNeighbor, Neighbor
from foregather.sampling.identity import identity_of
from tests.sampling.helpers_hetero import assert_same_samples, random_graph, sample_slowly
from tests.some import some

GOLDEN = Path(__file__).parents[2] / "golden" / "sampling.json"
BUYS, SELLS, KNOWS = ("user", "buys", "item"), ("item", "rev_buys", "user"), ("user", "x", "user")


def shop(wide=False):
    """12 users, 9 items and no shelves; by arithmetic, so that it is the same for ever."""
    k = np.arange(70)
    ends = np.stack([k * 5 % 12, k * k % 9])
    time, weight = k * 7 % 20, (1 + k % 5).astype(np.float32)
    friends = np.stack([k * k % 11, k * 3 % 11])  # user 11 knows nobody
    edges = {
        BUYS: Relation.of(ends, 12, 9, time=time, weights=weight),
        SELLS: Relation.of(ends[::-1], 9, 12, time=time),
        KNOWS: Relation.of(friends, 12, 12, weights=weight),
        ("item", "on", "shelf"): Relation.of(np.zeros((2, 0), int), 9, 0),
    }
    if wide:
        edges = {
            name: Relation(one.indptr, one.indices.astype(np.int64), one.edge_ids, one.time)
            for name, one in edges.items()
        }
    nodes = {
        "user": NodeTable.of(12, time=np.arange(12)),
        "item": NodeTable.of(9),
        "shelf": NodeTable.of(0),
    }
    return HeteroGraph(nodes, edges)


GRAPH = shop()
USERS = {"user": [np.array([3, 3, 11]), np.array([0])]}
ROWS = {"user": [np.array([4, 9, 2]), np.array([0])]}
TIMES = {"user": [np.array([10, 15, 5]), np.array([-3])]}


def sample(rule, **more):
    return rule.sample_bulk(GRAPH, USERS, seed=1, **more)


@pytest.mark.filterwarnings("ignore:relation .item, on, shelf. has no reverse")
def test_golden_digests():
    # Samples are promised to stay the same for ever; a change here needs a reason in its commit.
    golden = json.loads(GOLDEN.read_text())["hetero neighbor"]
    kinds = {
        "plain": ({}, {}),
        "weighted": ({"weights": True}, {}),
        "trees": ({"disjoint": True}, {"rows": ROWS}),
        "edge time": ({"time": "edge"}, {"rows": ROWS, "times": TIMES}),
        "node time": ({"time": "node"}, {"rows": ROWS, "times": TIMES}),
        "last": ({"time": "edge", "temporal_strategy": "last"}, {"rows": ROWS, "times": TIMES}),
        "weighted time": ({"time": "edge", "weights": True}, {"rows": ROWS, "times": TIMES}),
        "induced": ({"subgraph_type": "induced"}, {}),
        "bidirectional": ({"subgraph_type": "bidirectional"}, {}),
    }
    found = {}
    for name, (rule, given) in kinds.items():
        found[name] = sample(HeteroNeighbor([2, 3], **rule), **given).digest
    assert len(set(found.values())) == len(found)
    assert found == golden


def test_every_type_and_relation_is_there():
    bulk = sample(HeteroNeighbor([2, 2]))
    for one in some(bulk):
        assert tuple(one.nodes) == GRAPH.node_types and tuple(one.edges) == GRAPH.edge_types
        shelf, on = one.nodes["shelf"], one.edges["item", "on", "shelf"]
        assert shelf.num_nodes == (0, 0, 0) and shelf.node.dtype == np.uint32
        assert on.num_edges == (0, 0) and len(on.row) == len(on.col) == len(on.edge) == 0
        for own in (*one.nodes.values(), *one.edges.values()):
            names = ("node",) if hasattr(own, "node") else ("row", "col", "edge")
            assert not any(getattr(own, name).flags.writeable for name in names)
    assert bulk.nbytes > 0 and "rev_buys" in bulk.summary() and bulk.digest in bulk.summary()


def test_a_seed_given_twice():
    plain = sample(HeteroNeighbor([2, 2]))[0].nodes["user"]
    assert plain.node[:2].tolist() == [3, 11] and plain.seed_position.tolist() == [0, 0, 1]
    assert plain.num_seeds == 2 and plain.tree is None
    trees = sample(HeteroNeighbor([2, 2], disjoint=True), rows=ROWS)[0].nodes["user"]
    assert trees.node[:3].tolist() == [3, 3, 11] and trees.seed_position is None
    assert trees.num_seeds == 3 and trees.tree[:3].tolist() == [0, 1, 2]


def test_rows_of_one_entity_at_many_times_are_not_merged():
    rule = HeteroNeighbor([-1], time="edge")
    ids = {"user": [np.full(25, 3)]}
    rows, times = {"user": [np.arange(25)]}, {"user": [np.arange(-3, 22)]}
    one = rule.sample_bulk(GRAPH, ids, rows=rows, times=times, seed=0)[0]
    counts = np.bincount(one.edges[SELLS].col, minlength=25)
    relation = GRAPH.relation(SELLS, "edge")
    own = relation.time[relation.indptr[3] : relation.indptr[4]]
    assert counts.tolist() == [int((own <= t).sum()) for t in range(-3, 22)]
    assert counts[0] == 0 and counts[-1] == len(own) > 3  # before every edge there is the seed only


def test_width_of_ids_changes_nothing():
    wide = shop(wide=True)
    for rule, given in some(
        [
            (HeteroNeighbor([2, 3]), {}),
            (HeteroNeighbor([2, -1], time="edge"), {"rows": ROWS, "times": TIMES}),
        ]
    ):
        narrow = rule.sample_bulk(GRAPH, USERS, seed=1, **given)
        other = rule.sample_bulk(wide, USERS, seed=1, **given)
        assert other[0].nodes["user"].node.dtype == np.int64
        assert narrow.digest == other.digest


def test_a_plain_graph_read_as_typed():
    plain = Graph.from_edge_index([[0, 1, 2, 0, 1], [1, 2, 0, 2, 0]])
    seeds = [np.array([2, 0]), np.array([1])]
    want = Neighbor([1, 2]).sample_bulk(plain, seeds, seed=6)
    typed = HeteroGraph.from_graph(plain)
    got = HeteroNeighbor([1, 2]).sample_bulk(typed, {"node": seeds}, seed=6)
    for one, other in some(zip(got, want, strict=True)):
        assert one.nodes["node"].node.tolist() == other.node.tolist()
        assert one.edges["node", "to", "node"].edge.tolist() == other.edge.tolist()


def test_order_in_which_names_are_given_changes_nothing():
    nodes = dict(reversed(GRAPH.nodes.items()))
    turned = HeteroGraph(nodes, dict(reversed(GRAPH.edges.items())))
    numbers = {name: [i + 1, 2] for i, name in enumerate(GRAPH.edge_types)}
    one = HeteroNeighbor(numbers)
    other = HeteroNeighbor(dict(reversed(numbers.items())))
    assert one == other and identity_of(one) == identity_of(other) and hash(one) == hash(other)
    want = one.sample_bulk(GRAPH, USERS, seed=1)
    assert other.sample_bulk(turned, USERS, seed=1).digest == want.digest


def test_fanouts_by_name():
    given = {name: [2, 0] for name in GRAPH.edge_types} | {SELLS: [-1, 3]}
    want = sample(HeteroNeighbor(given))
    edges = want[0].edges
    assert edges[KNOWS].num_edges[1] == 0 and edges[SELLS].num_edges[0] > 2
    assert edges[BUYS].num_edges == (0, 0)  # no item is known in layer 0, and then it is 0
    written = {"__".join(name): numbers for name, numbers in given.items()}
    assert HeteroNeighbor(written) == HeteroNeighbor(given)
    assert HeteroNeighbor(np.array([2, 3])) == HeteroNeighbor((2, 3)) != HeteroNeighbor([2, 2])


def test_num_neighbors_of_pyg():
    pyg = pytest.importorskip("torch_geometric.sampler")
    given = pyg.NumNeighbors({SELLS: [-1, 3]}, default=[2, 0])
    want = {name: [2, 0] for name in GRAPH.edge_types} | {SELLS: [-1, 3]}
    assert sample(HeteroNeighbor(given)).digest == sample(HeteroNeighbor(want)).digest
    assert HeteroNeighbor(pyg.NumNeighbors([3, 2])) == HeteroNeighbor([3, 2])
    with pytest.raises(InputError, match=r"no entry for relation \(item, on, shelf\)"):
        sample(HeteroNeighbor(pyg.NumNeighbors({SELLS: [-1, 3]})))


def test_weights_by_name():
    own = np.linspace(1, 3, 70)
    by_name = HeteroNeighbor([2, 2], weights={BUYS: True, KNOWS: own})
    edges = {name: GRAPH.edges[name] for name in GRAPH.edge_types}
    know = edges[KNOWS]
    edges[KNOWS] = Relation(
        know.indptr, know.indices, know.edge_ids, weights=own[know.edge_ids].astype(np.float32)
    )
    want = HeteroNeighbor([2, 2], weights=True).sample_bulk(
        HeteroGraph(GRAPH.nodes, edges), USERS, seed=1
    )
    got = sample(by_name)
    assert got.digest == want.digest != sample(HeteroNeighbor([2, 2])).digest
    one = sample(HeteroNeighbor([2, 2], weights={BUYS: True, KNOWS: own * 2}))
    assert one.digest == got.digest  # only ratios count


def test_weights_follow_their_edges_into_the_order_of_time():
    """Given by the caller's order of edges, drawn in the order of time."""
    graph = random_graph(11, 2, 3, 20, 300)
    name = next(
        n for n, one in graph.edges.items() if one.weights is not None and one.time is not None
    )
    stored = graph.edges[name]
    given = np.empty(stored.num_edges, np.float32)
    given[stored.edge_ids] = stored.weights
    rule = {"time": "edge", "weights": {name: given}}
    seeds = {name[2]: [np.zeros(9, np.int64)]}
    more = {"rows": {name[2]: [np.arange(9)]}, "times": {name[2]: [np.arange(-4, 5)]}, "seed": 2}
    got = HeteroNeighbor([3], **rule).sample_bulk(graph, seeds, **more)
    want = HeteroNeighbor([3], time="edge", weights={name: True}).sample_bulk(graph, seeds, **more)
    assert got.digest == want.digest and len(got[0].edges[name].row) > 5


def test_seeds_of_several_types():
    dealt = [[("item", 2, 0, None), ("item", 2, 1, None), ("user", 3, 2, None)]]
    for rule in some([HeteroNeighbor([2, 2]), HeteroNeighbor([2, 2], disjoint=True)]):
        more = {"rows": {"user": [[2]], "item": [[0, 1]]}} if rule.disjoint else {}
        got = rule.sample_bulk(GRAPH, {"user": [[3]], "item": [[2, 2]]}, seed=5, **more)
        assert_same_samples(got, sample_slowly(rule, GRAPH, dealt, seed=5))


def test_nothing_to_sample():
    rule = HeteroNeighbor([2, 2], disjoint=True)
    assert len(rule.sample_bulk(GRAPH, {"user": []}, rows={"user": []}, seed=0)) == 0
    one = rule.sample_bulk(GRAPH, {"user": [[]]}, rows={"user": [[]]}, seed=0)[0]
    assert all(own.num_nodes == (0, 0, 0) and len(own.tree) == 0 for own in one.nodes.values())
    alone = HeteroNeighbor([2, 2]).sample_bulk(GRAPH, {"user": [[11]]}, seed=0)[0]
    assert alone.edges[KNOWS].num_edges[0] == 0
    none = HeteroGraph({"v": NodeTable.of(3)}, {})
    left = HeteroNeighbor([2]).sample_bulk(none, {"v": [[1]]}, seed=0)[0]
    assert left.nodes["v"].node.tolist() == [1] and left.nodes["v"].num_nodes == (1, 1)
    assert HeteroBulk([], 0, 0, 0).summary().startswith("bulk of 0 minibatches")


def test_parallel_edges_and_loops_to_oneself():
    ends = np.array([[0, 0, 0, 1], [0, 0, 0, 0]])
    name = ("v", "r", "v")
    graph = HeteroGraph({"v": NodeTable.of(2)}, {name: Relation.of(ends, 2, 2)})
    for rule in some([HeteroNeighbor([9, 9]), HeteroNeighbor([-1, -1])]):
        one = rule.sample_bulk(graph, {"v": [[0]]}, seed=0)[0]
        assert one.edges[name].row.tolist() == [0, 0, 0, 1]
        assert one.edges[name].num_edges == (4, 0) and one.nodes["v"].num_nodes == (1, 2, 2)


def test_a_sampler_is_a_value():
    rule = HeteroNeighbor({name: [2, 2] for name in GRAPH.edge_types}, time="node", weights=True)
    assert rule.disjoint and rule.num_layers == 2 and rule.expand == "once"
    want = sample(rule, rows=ROWS).digest
    back = pickle.loads(pickle.dumps(rule))
    assert back == rule and hash(back) == hash(rule) and sample(back, rows=ROWS).digest == want
    assert identity_of(back) == identity_of(rule) != identity_of(HeteroNeighbor([2, 2]))
    assert HeteroNeighbor(rule.num_neighbors) == HeteroNeighbor(rule.num_neighbors)
    graph = shop()
    rule.sample_bulk(graph, USERS, rows=ROWS, seed=1)
    assert len(rule._kept) == 1
    del graph
    gc.collect()
    assert len(rule._kept) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HeteroNeighbor([]), "num_neighbors is empty"),
        (lambda: HeteroNeighbor({}), "num_neighbors is empty"),
        (lambda: HeteroNeighbor(3), "num_neighbors is a int, expected a list, a mapping"),
        (lambda: HeteroNeighbor("3"), "num_neighbors is a str"),
        (lambda: HeteroNeighbor([2, -2]), "has -2 for layer 1, expected a number of neighbours"),
        (lambda: HeteroNeighbor([2.0]), "has 2.0 for layer 0"),
        (lambda: HeteroNeighbor([True]), "has True for layer 0"),
        (lambda: HeteroNeighbor({BUYS: [2], SELLS: [2, 3]}), "lists of 1 and 2 numbers"),
        (lambda: HeteroNeighbor({BUYS: []}), "is empty, expected one number per layer"),
        (lambda: HeteroNeighbor({BUYS: 3}), "buys.* is a int"),
        (lambda: HeteroNeighbor({"buys": [3]}), "has 'buys', expected an edge type"),
        (lambda: HeteroNeighbor({BUYS: [3], "user__buys__item": [3]}), "names a relation twice"),
        (lambda: HeteroNeighbor([2], subgraph_type="all"), "subgraph_type is 'all', expected"),
        (lambda: HeteroNeighbor([2], time="time"), "time is 'time', expected 'node' or 'edge'"),
        (lambda: HeteroNeighbor([2], time="edge", temporal_strategy="x"), "strategy is 'x'"),
        (lambda: HeteroNeighbor([2], temporal_strategy="last"), "'last', which needs time"),
        (
            lambda: HeteroNeighbor([2], time="edge", temporal_strategy="last", replace=True),
            "draws nothing, so replace has no effect",
        ),
        (
            lambda: HeteroNeighbor([2], time="edge", temporal_strategy="last", weights=True),
            "draws nothing, so weights has no effect",
        ),
        (lambda: HeteroNeighbor([2], weights=[1.0]), "weights are a list, expected True"),
        (lambda: HeteroNeighbor([2], weights={"buys": True}), "'buys' is not three names"),
    ],
)
def test_samplers_that_cannot_be(make, message):
    with pytest.raises(InputError, match=message):
        make()


TREES, TIMED = HeteroNeighbor([2], disjoint=True), HeteroNeighbor([2], time="edge")
PLAIN = HeteroNeighbor([2])


@pytest.mark.parametrize(
    ("rule", "given", "message"),
    [
        (HeteroNeighbor({BUYS: [2]}), {}, "no entry for relation"),
        (
            HeteroNeighbor({BUYS: [2], ("user", "bus", "item"): [2]}),
            {},
            r"no relation \(user, bus, item\); the nearest is '\(user, buys, item\)'",
        ),
        (HeteroNeighbor([2], weights={("user", "buy", "item"): True}), {}, "the nearest is .*buys"),
        (HeteroNeighbor([2], weights={SELLS: True}), {}, "rev_buys.* which has none"),
        (HeteroNeighbor([2], weights={BUYS: [1.0]}), {}, "hold 1 numbers, but it has 70 edges"),
        (HeteroNeighbor([2], weights={BUYS: np.full(70, -1.0)}), {}, "buys.*-1.0.* at position 0"),
        (HeteroNeighbor([2], weights={BUYS: np.zeros(70)}), {}, "buys.*are 0, so there is nothing"),
        (PLAIN, {"seeds": {"users": [[0]]}}, "no node type 'users'; the nearest is 'user'"),
        (PLAIN, {"seeds": [[0]]}, "seeds must be a mapping"),
        (PLAIN, {"seeds": {}}, "seeds must be a mapping"),
        (
            PLAIN,
            {"seeds": {"user": [[12]]}},
            "seeds hold node 12, but the graph has 12 nodes of ty",
        ),
        (PLAIN, {"seeds": {"user": [[-1]]}}, "seeds hold node -1"),
        (PLAIN, {"seeds": {"user": [[0.5]]}}, "seeds of minibatch 0 are float64"),
        (PLAIN, {"seeds": {"shelf": [[0]]}}, "seeds hold node 0, but the graph has 0 nodes"),
        (PLAIN, {"seeds": {"user": [[0]], "item": []}}, "different numbers of minibatches"),
        (PLAIN, {"rows": ROWS}, "rows key disjoint trees, but"),
        (PLAIN, {"times": TIMES}, "times were given, but the sampler has no time"),
        (TREES, {}, "disjoint trees need rows"),
        (TREES, {"rows": {"user": [[1]]}}, "rows of type 'user' must hold one number for each"),
        (TREES, {"rows": {"item": [[1]]}}, "rows must have the node types of seeds: user"),
        (TREES, {"rows": {"user": [[1, 2, -3], [0]]}}, "hold -3, expected 0 or more"),
        (TREES, {"rows": ROWS, "times": TIMES}, "times were given, but"),
        (TIMED, {"rows": ROWS}, "every seed needs a time; pass times"),
        (TIMED, {"times": TIMES}, "disjoint trees need rows"),
        (TIMED, {"rows": ROWS, "times": {"user": [[1.5, 2, 3], [4]]}}, "times of .* are float64"),
        (
            TIMED,
            {"rows": ROWS, "times": {"user": [np.full(3, "NaT", "M8[s]"), [0]]}},
            "times of minibatch 0 are datetime64",
        ),
        (TIMED, {"rows": ROWS, "times": {"user": [[1, 2], [3]]}}, "one number for each seed"),
    ],
)
def test_what_cannot_be_sampled(rule, given, message):
    with pytest.raises(InputError, match=message):
        rule.sample_bulk(GRAPH, **({"seeds": USERS, "seed": 0} | given))


def test_times_that_are_not_there():
    item = {"seeds": {"item": [[0]]}, "rows": {"item": [[0]]}, "seed": 0}
    with pytest.raises(InputError, match="type 'item' have no time of their own, so their seeds"):
        HeteroNeighbor([2], time="node").sample_bulk(GRAPH, **item)
    bare = HeteroGraph({"v": NodeTable.of(2)}, {("v", "r", "v"): Relation.of([[0], [1]], 2, 2)})
    for level in some(("node", "edge")):
        with pytest.raises(InputError, match="time"):
            HeteroNeighbor([2], time=level).sample_bulk(
                bare, {"v": [[0]]}, rows={"v": [[0]]}, times={"v": [[0]]}, seed=0
            )
    with pytest.raises(InputError, match="no relation of the graph has weights"):
        HeteroNeighbor([2], weights=True).sample_bulk(bare, {"v": [[0]]}, seed=0)
