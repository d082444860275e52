"""Negatives: equal to the reference, pure, never a known link, never from the future."""

import pickle
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import Graph
from foregather.errors import InputError
from foregather.graph.hetero import Relation
from foregather.sampling.links.negative_sampler import NegativeSampler
from foregather.sampling.links.negatives import Negatives
from tests.sampling.links.reference_negatives import ReferenceNegatives
from tests.some import some


def case(data: st.DataObject) -> tuple[NegativeSampler, ReferenceNegatives, dict[str, Any]]:
    """A sampler, its reference and what is known of its links."""
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    num_src, num_dst = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12))
    mode = data.draw(st.sampled_from(["binary", "triplet"]))
    amount = data.draw(st.sampled_from([1, 2, 5] if mode == "triplet" else [1, 3, 0.4, 2.5]))
    links = rng.integers(0, [[num_src], [num_dst]], (2, data.draw(st.integers(0, 60))))
    exclude = data.draw(st.sampled_from([None, "positives"]))

    def weights(count: int) -> Any:
        values = rng.choice([0.0, 0.5, 1.0, 3.0, 1e-9, 1e6], count)
        values[rng.integers(count)] = 2.0
        return values if data.draw(st.booleans()) else None

    def times(count: int) -> Any:
        return rng.integers(-5, 5, count) if data.draw(st.booleans()) else None

    src_weight = weights(num_src) if mode == "binary" else None
    negatives = Negatives(mode, amount, src_weight, weights(num_dst), exclude)
    ends = {"src_time": times(num_src), "dst_time": times(num_dst)}
    known = {"positives": links} if exclude else {}
    # No source can be drawn where all are linked to all.
    sampler = NegativeSampler(negatives, num_src, num_dst, **known, **ends)
    listed = {name: None if t is None else t.tolist() for name, t in ends.items()}
    pairs = set(zip(*links.tolist(), strict=True))
    reference = ReferenceNegatives(negatives, num_src, num_dst, pairs, **listed)
    if mode == "triplet":
        listed["src_time"] = None
    return sampler, reference, {"links": pairs, "num_src": num_src, **listed}


@given(data=st.data())
@settings(max_examples=250, deadline=None)
def test_draws_are_those_of_the_reference(data):
    try:
        sampler, reference, facts = case(data)
    except InputError as error:
        assert "linked to all" in str(error)
        return
    count = data.draw(st.integers(1, 9))
    rng = np.random.default_rng(count)
    rows, src = rng.integers(0, 2**62, count), rng.integers(0, facts["num_src"], count)
    times = rng.integers(-6, 6, count)
    seed, epoch = data.draw(st.integers(0, 2**64 - 1)), data.draw(st.integers(0, 3))
    number = sampler.negatives.count(count)
    assert number == int(np.ceil(count * sampler.negatives.amount))
    keys = (seed, epoch, number)
    want = reference.draw(rows.tolist(), src.tolist(), times.tolist(), *keys)
    missing = [q for q, pair in enumerate(want) if None in pair]
    call: dict[str, Any] = {"seed": seed, "epoch": epoch, "src": src, "times": times}
    if sampler.negatives.mode == "triplet":  # sources are given: nothing is left to chance
        assert sampler.first_without(src, times) == (missing[0] % count if missing else None)
    elif sampler.first_without(src, times) is not None:
        assert missing or number < count
    if missing:
        with pytest.raises(InputError, match=f"input row {rows[missing[0] % count]} has no neg"):
            sampler.draw(rows, **call)
        return
    for threads in (1, 2):
        got = sampler.draw(rows, threads=threads, **call)
        assert list(zip(*map(np.ndarray.tolist, got), strict=True)) == want
    for q, (u, v) in enumerate(want):
        limit = times[q % count]
        assert sampler.negatives.exclude is None or (u, v) not in facts["links"]
        assert facts["src_time"] is None or facts["src_time"][u] <= limit
        assert facts["dst_time"] is None or facts["dst_time"][v] <= limit


def large(**options: Any) -> tuple[NegativeSampler, Any]:
    rng = np.random.default_rng(3)
    links = (5000 * rng.random((2, 60_000)) ** 2).astype(np.int64)
    known = {"positives": links} if options.get("exclude") else {}
    times = options.pop("times", None)
    return NegativeSampler(Negatives(**options), 5000, 5000, **known, dst_time=times), links


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("exclude", [None, "positives"])
def test_a_negative_depends_on_its_row_and_number_alone(weighted, timed, exclude):
    rng = np.random.default_rng(5)
    sampler, links = large(
        mode="triplet",
        amount=3,
        exclude=exclude,
        dst_weight=rng.random(5000) ** 4 if weighted else None,
        times=rng.integers(0, 1000, 5000) if timed else None,
    )
    rows, src = rng.permutation(20_000)[:6000], links[0, :6000]
    times = 500 + rng.integers(0, 500, 6000)
    keys = {"seed": 7, "epoch": 2}
    _, whole = sampler.draw(rows, src=src, times=times, threads=1, **keys)
    by_row = whole.reshape(3, 6000).T
    assert len(np.unique(by_row)) > 100
    shuffle = rng.permutation(6000)
    _, again = sampler.draw(
        rows[shuffle], src=src[shuffle], times=times[shuffle], threads=4, **keys
    )
    assert np.array_equal(again.reshape(3, 6000).T, by_row[shuffle])
    ptr = np.array([0, 100, 100, 4000, 6000])
    _, parts = sampler.draw_bulk(rows, ptr, src=src, times=times, threads=2, **keys)
    for first, last in pairwise(ptr.tolist()):
        own = parts[3 * first : 3 * last].reshape(3, last - first).T
        assert np.array_equal(own, by_row[first:last])
    for other in ({"seed": 8, "epoch": 2}, {"seed": 7, "epoch": 3}):
        _, changed = sampler.draw(rows, src=src, times=times, **other)
        assert (changed != whole).mean() > 0.5
    if exclude:
        pairs = set(zip(*links.tolist(), strict=True))
        drawn = zip(np.tile(src, 3).tolist(), whole.tolist(), strict=True)
        assert not pairs.intersection(drawn)


def test_fractions_go_to_the_first_places():
    sampler = NegativeSampler(Negatives("binary", 1.5), 50, 60)
    rows = np.array([40, 7, 9])
    src, dst = sampler.draw(rows, seed=1)
    assert len(src) == len(dst) == 5  # ceil(4.5)
    more_src, more_dst = sampler.draw(rows, seed=1, number=6)
    assert np.array_equal(more_src[:5], src)
    assert np.array_equal(more_dst[:5], dst)
    one = sampler.draw(rows[1:2], seed=1, number=2)
    assert one[0].tolist() == [src[1], src[4]]
    assert sampler.draw(np.empty(0, np.int64), seed=1)[0].shape == (0,)
    assert src.max() < 50
    assert dst.dtype == np.int64


def test_positives_may_be_a_graph_a_relation_or_pairs():
    rng = np.random.default_rng(0)
    links = rng.integers(0, 30, (2, 400))
    negatives = Negatives("triplet", 20, exclude="positives")
    graph = Graph.from_edge_index(links, 30)
    relation = Relation.of(links, 30, 30)
    forms = [links, links.tolist(), graph, relation, (graph.indptr, graph.indices)]
    drawn = [
        NegativeSampler(negatives, 30, 30, positives=form, same_type=True).draw(
            np.arange(30), src=np.arange(30), seed=3
        )[1]
        for form in forms
    ]
    for one in some(drawn[1:]):
        assert np.array_equal(one, drawn[0])


def test_a_sampler_can_be_pickled():
    sampler, _ = large(mode="binary", exclude="positives")
    want = sampler.draw(np.arange(9), seed=2)
    again = pickle.loads(pickle.dumps(sampler))
    assert np.array_equal(again.draw(np.arange(9), seed=2), want)


def test_values_are_taken_as_pyg_gives_them():
    kind = SimpleNamespace(value="triplet")
    theirs = SimpleNamespace(mode=kind, amount=2.0, src_weight=None, dst_weight=np.ones(3))
    made = Negatives.make(theirs)
    assert made == Negatives("triplet", 2, dst_weight=[1, 1, 1])
    assert hash(made) == hash(Negatives("triplet", 2, dst_weight=np.ones(3, np.float32)))
    assert made != Negatives("triplet", 2, dst_weight=[1, 1, 2])
    assert made != 3
    assert Negatives.make(None) is None
    assert Negatives.make(made) is made
    assert Negatives.make("binary") == Negatives()
    assert Negatives.make({"mode": "binary", "amount": 0.5}).amount == 0.5
    assert "3 numbers" in repr(made)
    assert "exclude='positives'" in repr(Negatives(exclude="positives"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("trio", "mode is 'trio', expected 'binary' or 'triplet'"),
        ({"amount": 0}, "amount is 0, expected a number above 0"),
        ({"amount": float("nan")}, "amount is nan"),
        ({"amount": True}, "amount is True"),
        ({"mode": "triplet", "amount": 1.5}, "expected a whole number in triplet mode"),
        ({"exclude": "all"}, "exclude is 'all', expected 'positives' or None"),
        ({"mode": "triplet", "src_weight": [1.0]}, "src_weight has no effect in triplet mode"),
        ({"dst_weight": [1.0, np.nan]}, "dst_weight is nan for node 1"),
        ({"src_weight": [1.0, -2.0]}, "src_weight is -2.0 for node 1"),
        ({"src_weight": [0, 0]}, "src_weight is 0 for every node"),
        ({"dst_weight": [[1.0]]}, "expected one number per node"),
        ({"ratio": 2}, "negatives have no 'ratio', expected mode, amount"),
        (3, "negatives are int, expected 'binary', 'triplet', Negatives"),
    ],
)
def test_values_that_are_not_valid(given, words):
    with pytest.raises(InputError, match=words):
        Negatives.make(given)


def test_samplers_that_cannot_be():
    known = Negatives(exclude="positives")
    with pytest.raises(InputError, match="dst_weight holds 2 numbers, but there are 3 destination"):
        NegativeSampler(Negatives(dst_weight=[1, 2]), 3, 3)
    with pytest.raises(InputError, match="src_time has shape"):
        NegativeSampler(Negatives(), 3, 3, src_time=[1, 2])
    with pytest.raises(InputError, match="exclude is 'positives', which needs them"):
        NegativeSampler(known, 3, 3)
    with pytest.raises(InputError, match="positives were given, but exclude is None"):
        NegativeSampler(Negatives(), 3, 3, positives=[[0], [1]])
    with pytest.raises(InputError, match="one type, but it has 3 nodes as sources and 4"):
        NegativeSampler(Negatives(), 3, 4, same_type=True)
    with pytest.raises(InputError, match="source 5"):
        NegativeSampler(known, 3, 4, positives=[[5], [1]])
    with pytest.raises(InputError, match="expected a row for each of 4 destinations"):
        NegativeSampler(known, 3, 4, positives=Graph.from_edge_index([[0], [1]], 3))
    with pytest.raises(InputError, match="every source is linked to all destinations"):
        NegativeSampler(known, 1, 2, positives=[[0, 0], [0, 1]])


def test_draws_that_cannot_be():
    full = [[0, 0, 1], [0, 1, 0]]
    sampler = NegativeSampler(Negatives("triplet", exclude="positives"), 2, 2, positives=full)
    with pytest.raises(
        InputError, match="input row 5 has no negative: source 0 is linked to every"
    ):
        sampler.draw([4, 5], src=[1, 0], seed=1)
    with pytest.raises(InputError, match="triplets keep the sources"):
        sampler.draw([4, 5], seed=1)
    with pytest.raises(InputError, match="src holds node 2, but there are 2 source nodes"):
        sampler.draw([4], src=[2], seed=1)
    with pytest.raises(InputError, match="src holds 1 numbers, expected 2"):
        sampler.draw([4, 5], src=[1], seed=1)
    with pytest.raises(InputError, match="rows hold -1"):
        sampler.draw([-1], src=[1], seed=1)
    with pytest.raises(InputError, match="rows is float64"):
        sampler.draw([0.5], src=[1], seed=1)
    timed = NegativeSampler(Negatives(), 2, 2, dst_time=[3, 4])
    with pytest.raises(InputError, match="input row 9 has no negative: there is no destination"):
        timed.draw([9], times=[2], seed=1)
    with pytest.raises(InputError, match="nodes have times, so every positive needs one"):
        timed.draw([9], seed=1)
    late = NegativeSampler(Negatives(), 2, 2, src_time=[3, 4])
    with pytest.raises(InputError, match="there is no source node at its time, 2"):
        late.draw([9], times=[2], seed=1)
    with pytest.raises(InputError, match="a batch without positives"):
        NegativeSampler(Negatives(), 2, 2).draw([], seed=1, number=3)


def test_pairs_too_early_for_any_node_are_found_before_a_draw():
    sampler = NegativeSampler(Negatives(), 3, 2, src_time=[4, 5, 6], dst_time=[1, 7])
    sources = np.array([0, 0, 0])
    assert sampler.first_without(sources, np.array([4, 6, 9])) is None
    assert sampler.first_without(sources, np.array([9, 3, 0])) == 1  # no source yet
    assert NegativeSampler(Negatives(), 3, 2).first_without(sources, None) is None


def test_a_source_that_is_linked_to_all_is_not_drawn():
    links = [[0, 0, 0, 1], [0, 1, 2, 2]]
    sampler = NegativeSampler(Negatives("binary", 40, exclude="positives"), 3, 3, positives=links)
    src, dst = sampler.draw(np.arange(20), seed=1)
    assert set(src.tolist()) == {1, 2}
    assert not {(1, 2)} & set(zip(src.tolist(), dst.tolist(), strict=True))
