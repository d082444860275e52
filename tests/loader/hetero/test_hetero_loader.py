"""Batches of typed graphs hold what the graph holds, and depend on nothing but their arguments."""

import copy
import gc
import pickle
import threading

import numpy as np
import pytest
import torch

from foregather import InputError
from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.loader.hetero.hetero_loader import HeteroLoader
from foregather.loader.prefetch import THREAD_NAME
from foregather.sampling import HeteroNeighbor
from tests.loader.hetero.batches import BOUGHT, BUYS, LIKES, check_batch, same_data, shop, trees
from tests.some import some

GRAPH = shop()
TIMES = np.random.default_rng(1).integers(0, 120, 60)
TRAIN = {"input_nodes": ("user", "train"), "batch_size": 7, "shuffle": True, "seed": 3}
KINDS = {
    "plain": {},
    "replace": {"replace": True},
    "disjoint": {"disjoint": True},
    "node time": {"time": "node"},
    "edge time": {"time": "edge", "input_time": TIMES[:30]},
    "last": {"time": "edge", "temporal_strategy": "last", "input_time": TIMES[:30]},
    "weighted": {"weight_attr": "edge_weight"},
    "weighted and timed": {"weight_attr": "edge_weight", "time": "node", "input_time": TIMES[:30]},
    "bidirectional": {"subgraph_type": "bidirectional"},
    "induced": {"subgraph_type": "induced", "disjoint": True},
}


def loader(graph=GRAPH, num_neighbors=(4, 3), **options):
    if options.get("sampler") is None:
        options["num_neighbors"] = num_neighbors
    return HeteroLoader(graph, **{**TRAIN, **options})


def same(ones, others):
    ones, others = list(ones), list(others)
    return len(ones) == len(others) > 0 and all(map(same_data, ones, others))


@pytest.mark.parametrize("kind", KINDS)
def test_batches_hold_what_the_graph_holds(kind):
    made = loader(**KINDS[kind])
    seen = []
    for batch in some(made):
        check_batch(batch, GRAPH, kind != "bidirectional")
        user = batch["user"]
        rows = user.input_id
        train = torch.from_numpy(np.array(GRAPH.nodes["user"].splits["train"]))
        assert torch.equal(user.seed_id, train[rows])
        assert torch.equal(user.n_id[: user.batch_size], user.seed_id)
        assert user.y.dtype == torch.int64
        assert ("batch" in user) == made.sampler.disjoint
        assert ("num_sampled_nodes" in user) == (made.sampler.subgraph_type == "directional")
        seen += rows.tolist()
    assert sorted(seen) == list(range(30)) and len(made) == 5


@pytest.mark.parametrize("kind", KINDS)
def test_threads_bulk_and_prefetch_change_nothing(kind):
    first = list(loader(**KINDS[kind], threads=1, bulk=1, prefetch=1))
    assert same(first, loader(**KINDS[kind], threads=2, bulk=3, prefetch=4))
    assert not same(first, loader(**KINDS[kind], threads=1, **{"seed": 4}))


@pytest.mark.parametrize("kind", ["disjoint", "node time", "edge time", "weighted and timed"])
def test_a_tree_does_not_depend_on_its_batch(kind):
    found = {}
    for options in ({"batch_size": 7}, {"batch_size": 30, "shuffle": False}, {"batch_size": 1}):
        made = [trees(batch, "user") for batch in loader(**{**KINDS[kind], **options})]
        found[str(options)] = {row: tree for one in made for row, tree in one.items()}
    first, *others = found.values()
    assert len(first) == 30 and all(other == first for other in others)


def test_no_tree_sees_anything_later():
    for kind, key in (("node", "user"), ("edge", BOUGHT)):
        times = np.arange(-1, 29) * 5
        some_edges, equal = 0, 0
        for batch in some(loader(time=kind, input_time=times, num_neighbors=[-1, -1])):
            limit = batch["user"].seed_time
            assert torch.equal(limit, torch.from_numpy(times)[batch["user"].input_id])
            if kind == "node":
                new = slice(batch["user"].batch_size, None)  # seeds are what was asked about
                own = batch["user"].time[new], limit[batch["user"].batch[new]]
                assert (own[0] <= own[1]).all()
                equal += int((own[0] == own[1]).sum())
            else:
                for name in (BUYS, BOUGHT):
                    own = batch[name]
                    tree = batch[name[2]].batch[own.edge_index[1]]
                    assert (own.time <= limit[tree]).all()
                    equal += int((own.time == limit[tree]).sum())
            some_edges += batch[BOUGHT].num_edges
        assert some_edges > 0 and equal > 0, key  # what is of that very time may be seen


def test_a_node_asked_about_twice_has_two_rows_with_their_own_times():
    asked = np.array([5, 5, 9, 5])
    times = np.array([10, 95, 50, 10])
    labels = torch.tensor([0.0, 1.0, 2.0, 3.0])

    def attach(batch):
        batch["user"].target = labels[batch["user"].input_id]
        return batch

    made = loader(
        input_nodes=("user", asked),
        input_time=times,
        time="edge",
        batch_size=4,
        shuffle=False,
        transform=attach,
        num_neighbors=[-1],
    )
    (batch,) = made
    assert batch["user"].batch_size == 4
    assert batch["user"].n_id[:4].tolist() == asked.tolist()
    assert batch["user"].seed_time.tolist() == times.tolist()
    assert batch["user"].target.tolist() == [0, 1, 2, 3]
    seen = trees(batch, "user")
    early, late, again = (len(seen[row][1][BOUGHT]) for row in (0, 1, 3))
    assert early == again < late


def test_a_seed_given_twice_without_trees_is_there_once():
    (batch,) = loader(input_nodes=("user", [5, 9, 5]), batch_size=3, shuffle=False)
    user = batch["user"]
    assert user.batch_size == 2 and user.n_id[:2].tolist() == [5, 9]
    assert user.seed_position.tolist() == [0, 1, 0] and user.seed_id.tolist() == [5, 9, 5]


def test_input_rows_in_every_form():
    users = GRAPH.nodes["user"].num_nodes
    mask = np.zeros(users, bool)
    mask[[4, 8, 2]] = True
    for given, nodes, rows in (
        ("user", range(users), range(users)),
        (("user", None), range(users), range(users)),
        (("user", mask), [2, 4, 8], [2, 4, 8]),
        (("user", torch.from_numpy(mask)), [2, 4, 8], [2, 4, 8]),
        (("user", [7, 1]), [7, 1], [0, 1]),
        (["user", torch.tensor([7, 1])], [7, 1], [0, 1]),
        (("user", "test"), [3, 1], [0, 1]),
    ):
        (batch,) = loader(input_nodes=given, batch_size=99, shuffle=False)
        assert batch["user"].seed_id.tolist() == list(nodes)
        assert batch["user"].input_id.tolist() == list(rows)
    assert len(loader(input_nodes="nothing")) == 0 and list(loader(input_nodes="nothing")) == []


def test_times_of_a_mask_are_those_of_the_nodes_it_selects():
    mask = np.zeros(60, bool)
    mask[[4, 8]] = True
    made = loader(input_nodes=("user", mask), input_time=[70, 80], time="edge", shuffle=False)
    (batch,) = made
    assert batch["user"].seed_time.tolist() == [70, 80]
    with pytest.raises(InputError, match=r"input_time has shape \[60\], expected \[2\]"):
        loader(input_nodes=("user", mask), input_time=TIMES, time="edge")


def test_a_graph_of_one_type_needs_no_type():
    table = NodeTable.of(9, splits={"train": [1, 2]})
    pairs = np.stack([(np.arange(9) + 1) % 9, np.arange(9)])  # in the order of targets
    graph = HeteroGraph({"node": table}, {("node", "to", "node"): Relation.of(pairs, 9, 9)})
    for given, nodes in ((None, range(9)), ("train", [1, 2]), ([3], [3]), ("node", range(9))):
        (batch,) = HeteroLoader(graph, [2], given, 9)
        assert batch["node"].seed_id.tolist() == list(nodes)
        check_batch(batch, graph)


def test_edge_times_are_their_own_where_nodes_limit_trees():
    for batch in some(loader(time="node")):
        check_batch(batch, GRAPH)  # compares batch[BUYS].time with the times that were given


# ---- loops ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "edge time", "weighted and timed", "induced"])
def test_resume_is_exact_from_every_batch(kind):
    whole = loader(**KINDS[kind])
    epochs = [list(whole), list(whole), list(whole)]
    for stop in range(6):
        going = loader(**KINDS[kind])
        list(going)
        for number, _ in enumerate(going, 1):
            if number >= stop:
                break
        if stop == 0:
            going.set_epoch(1)
        state = pickle.loads(pickle.dumps(going.state_dict()))
        again = loader(**{**KINDS[kind], "seed": 77})
        again.load_state_dict(state)
        assert same(again, epochs[1][stop:] or epochs[2])  # at its end the next epoch follows


def test_a_state_of_something_else_is_refused():
    state = loader(**KINDS["edge time"]).state_dict()
    for other, word in (
        ({"batch_size": 8}, "batch_size"),
        ({"input_nodes": ("user", list(range(30)))}, "input_nodes"),
        ({"input_time": TIMES[30:]}, "input_time"),
        ({"graph": shop(9)}, "graph"),
        ({"num_neighbors": [4, 2]}, "sampler"),
        ({"time": "node"}, "sampler"),
    ):
        with pytest.raises(InputError, match=f"saved with {word}"):
            loader(**{**KINDS["edge time"], **other}).load_state_dict(state)


def test_loops_do_not_see_each_other():
    made, alone = loader(), loader()
    first, second = list(alone), list(alone)
    pairs = list(zip(made, made, strict=True))
    assert same([one for one, _ in pairs], first)  # both loops began before the first batch
    assert same([other for _, other in pairs], first)
    made.set_epoch(1)
    for number, batch in enumerate(made):
        assert same_data(batch, second[number])
        if number == 1:
            inner = made.beside(("user", "test"), 2)
            assert [one["user"].seed_id.tolist() for one in inner] == [[3, 1]]
    made.set_epoch(0)
    for _ in made:
        break
    assert same(made, second)  # after a break the next epoch follows


def test_threads_end_with_their_loops():
    def prefetchers():
        return [one for one in threading.enumerate() if one.name == THREAD_NAME]

    made = loader(bulk=1, prefetch=1)
    before = len(prefetchers())
    for _ in made:
        assert len(prefetchers()) == before + 1
        break
    gc.collect()
    assert len(prefetchers()) == before
    loop = iter(made)
    next(loop)
    del made, loop
    gc.collect()
    assert len(prefetchers()) == before


def test_a_loader_is_not_copied_pickled_or_indexed():
    made = loader()
    for wrong in (pickle.dumps, copy.deepcopy, lambda one: one[0]):
        with pytest.raises(InputError):
            wrong(made)
    assert made.graph is made.data is GRAPH and made.node_type == "user"
    assert "in memory" in made.explain()


def test_a_sampler_of_ones_own_and_the_device():
    rule = HeteroNeighbor({BUYS: [4, 3], BOUGHT: [4, 3], LIKES: [4, 3]})
    assert same(loader(sampler=rule, device="cpu"), loader())


# ---- bad input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graph": 3}, "graph is a int, expected a HeteroGraph"),
        ({"input_nodes": "usr"}, "no node type 'usr'; the nearest is 'user'"),
        ({"input_nodes": ("usr", [1])}, "input_nodes: there is no node type 'usr'"),
        ({"input_nodes": None}, "input_nodes is None, but the graph has 3 node types"),
        ({"input_nodes": [1, 2]}, "input_nodes is a list, but the graph has 3 node types"),
        ({"input_nodes": ("user", [60])}, "node type 'user': .* 60"),
        ({"input_nodes": ("user", [-1])}, "node type 'user': .* -1"),
        ({"input_nodes": ("user", [0.5])}, "node type 'user': "),
        ({"input_nodes": ("user", np.ones(9, bool))}, r"mask of shape \[9\], expected \[60\]"),
        ({"input_nodes": ("user", "trian")}, "there is no split 'trian'"),
        ({"input_time": TIMES[:30]}, "nothing says whose times"),
        ({"input_time": TIMES, "time": "edge"}, r"input_time has shape \[60\], expected \[30\]"),
        ({"input_time": TIMES[:30] / 2, "time": "edge"}, "input_time holds float64"),
        (
            {"input_time": np.full(30, np.datetime64("NaT"), "M8[s]"), "time": "edge"},
            "input_time holds NaT",
        ),
        ({"time": "edge"}, "time is 'edge', so every input row needs a time; pass input_time"),
        (
            {"time": "node", "input_nodes": "item"},
            "'item' has no times, so every input row needs a time; pass input_time",
        ),
        ({"time": "both"}, "time is 'both'"),
        ({"time_attr": "when"}, "time_attr is 'when', but the times of a HeteroGraph are called"),
        ({"time_attr": "time"}, "nodes and edges have times; say with time="),
        ({"temporal_strategy": "last"}, "needs time="),
        ({"weight_attr": "w"}, "weight_attr is 'w'; use 'edge_weight'"),
        ({"num_neighbors": {BUYS: [2]}}, "no entry for relation"),
        ({"num_neighbors": {("user", "buy", "item"): [2]}}, r"nearest is '\(user, buys, item\)'"),
        ({"num_neighbors": None}, "neither num_neighbors nor sampler"),
        ({"sampler": object()}, "does not sample typed graphs"),
        ({"sampler": HeteroNeighbor([2]), "replace": True}, "replace is an option of the sampler"),
        ({"memory": "1GB"}, "memory is an argument of Loader"),
        ({"num_workers": 2}, "num_workers=2 of PyG is not supported"),
        ({"replace": 3}, "replace is 3"),
        ({"batch_size": 0}, "batch_size"),
        ({"bulk": 0}, "bulk"),
        ({"prefetch": -1}, "prefetch"),
        ({"threads": -1}, "threads"),
        ({"transform": 3}, "transform is 3"),
        ({"device": "abacus"}, "device is 'abacus'"),
    ],
)
def test_bad_input_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        loader(**options)


def test_what_nobody_knows_is_named():
    with pytest.raises(TypeError, match="batch_size"):
        loader(batchsize=3)


def test_a_feature_with_the_name_of_something_else_is_refused():
    nodes = {"a": NodeTable.of(3, {"n_id": np.arange(3)})}
    with pytest.raises(InputError, match="a feature of node type 'a' is called 'n_id'"):
        HeteroLoader(HeteroGraph(nodes, {}), [2], "a")
