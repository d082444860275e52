"""Known links: targets by source, against sets of pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.errors import InputError
from foregather.graph.links.known import KnownLinks, known_links
from tests.graph.links.linked_graphs import BUYS, edges_of, linked, pairs_of, typed_linked

PAIR = st.tuples(st.integers(0, 5), st.integers(0, 7))


@given(st.lists(PAIR, max_size=30), st.lists(PAIR, max_size=30))
@settings(max_examples=60, deadline=None)
def test_they_are_sets_of_pairs(one, two):
    given_pairs = [np.array(part, np.int64).reshape(-1, 2).T for part in (one, two)]
    known = KnownLinks.of(given_pairs, 6, 8)
    every = sorted({*one, *two})
    rows, targets = known.of_sources(np.arange(6))
    assert list(zip(rows.tolist(), targets.tolist(), strict=True)) == every
    asked = np.array([4, 4, 0])
    rows, targets = known.of_sources(asked)
    expected = [(n, t) for n, s in enumerate(asked.tolist()) for a, t in every if a == s]
    assert list(zip(rows.tolist(), targets.tolist(), strict=True)) == expected
    grid = np.stack(np.meshgrid(np.arange(6), np.arange(8), indexing="ij")).reshape(2, -1)
    held = known.holds(*grid)
    assert held.tolist() == [pair in set(every) for pair in zip(*grid.tolist(), strict=True)]
    turned = known.turned()
    rows, sources = turned.of_sources(np.arange(8))
    assert sorted(zip(sources.tolist(), rows.tolist(), strict=True)) == every


def test_of_a_graph():
    graph = linked()
    every = {*edges_of(graph), *pairs_of(graph.links["valid"]), *pairs_of(graph.links["test"])}
    known = known_links(graph)
    assert int(known.counts.sum()) == len(every)
    only = known_links(graph, names=["val"], edges=False)
    assert int(only.counts.sum()) == 2
    both = typed_linked()
    known = known_links(both, BUYS)
    assert (known.num_sources, known.num_targets) == (12, 7)
    with pytest.raises(InputError, match="no links 'tset'"):
        known_links(graph, names=["tset"])
    with pytest.raises(InputError, match="source 9"):
        KnownLinks.of([[[9], [1]]], 6, 8)
