"""Picks at the edges of a draw: ties, the last bit of a number, the end of a search for keys."""

import itertools
import math

import numpy as np
import pytest

from foregather import Graph, _core
from tests.helpers_sampling import derive, exponential, rows_of


def pick_columns(ids, weights, key, size):
    """What one minibatch picks of weighted columns, and tau."""
    picks, tau = np.empty(size, np.int64), np.empty(1)
    ptr, keys = np.array([0, len(ids)]), np.array([key], np.uint64)
    ids = np.asarray(ids, np.uint32)
    _core.sample_columns(ptr, ids, np.asarray(weights), keys, size, np.array([0, size]), picks, tau)
    return sorted(ids[picks].tolist()), float(tau[0])


def test_column_picks_where_the_search_ends_just_behind_a_heavy_one():
    """A first look takes keys up to a limit set by the total: a very heavy column aims it."""
    plain, heavy = [1.0] * 300, [16.0] * 20
    tried = 0
    for batch in range(30):
        key = derive(77, batch)
        waits = [exponential(derive(derive(key, v), 0)) for v in range(321)]
        keys = [e / w for e, w in zip(waits, plain + heavy, strict=False)]
        order = sorted(range(320), key=lambda v: keys[v])
        for light, dense in itertools.pairwise(order[3:12]):
            if light >= 300 or dense < 300:
                continue
            size = order.index(dense)  # the heaviest and all before `light`, whose key is tau
            most = 4 * (size + 8) / (keys[dense] * (1 + 1e-9)) - sum(plain + heavy)
            found = [*keys, waits[320] / most]
            best = sorted(range(321), key=lambda v: found[v])
            picked, tau = pick_columns(range(321), [*plain, *heavy, most], key, size)
            assert picked == sorted(best[:size])
            assert tau == pytest.approx(found[best[size]], rel=1e-14)
            tried += 1
    assert tried > 20


def test_columns_of_equal_keys_are_picked_by_id_wherever_they_stand():
    tiny = np.full(40, 5e-324)  # every key is infinite
    for ids in (np.arange(40), np.arange(40)[::-1], np.random.default_rng(0).permutation(40)):
        assert pick_columns(ids, tiny, 5, 7) == (list(range(7)), math.inf)


def test_picks_with_replacement_use_all_53_bits():
    """A row of two, cut at the very number that is drawn: the second begins there."""
    graph = Graph.from_edge_index(np.array([[0, 1], [2, 2]]), 3)
    p = rows_of(graph, [[2]] * 40)
    at = [derive(derive(int(key), 2), 0) >> 11 for key in p.keys]
    assert len({number % 2 for number in at}) == 2
    for above in (0, 1):
        cut = (np.array(at) + above) * 2.0**-53
        weights = np.stack([cut, 1 - cut], 1).ravel()
        entry = p.sample_rows(1, weights, replace=True).entry
        assert p.columns[entry].tolist() == [1 - above] * 40
