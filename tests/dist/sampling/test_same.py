"""Minibatches are the same, bit for bit: serial, replicated, partitioned, paper; p, c and k."""

import json
from functools import cache

import numpy as np
import pytest

from foregather.sampling.bulk import Bulk
from tests.dist import cases
from tests.dist.world import World
from tests.some import some

#: Eight ranks on two cores take more than all others together; CI tries them too.
SIZES = [1, 2, 4, pytest.param(8, marks=pytest.mark.slow)]


@cache
def serial(name, bulk, rule):
    graph, batches = cases.graph(name), list(range(bulk))
    made = cases.SAMPLERS[rule].sample_bulk(
        graph, cases.seeds(graph, batches), seed=cases.SEED, epoch=cases.EPOCH
    )
    return {str(sample.batch): Bulk([sample], 0, 0, 0).digest for sample in made}


@pytest.mark.parametrize("size", SIZES)
def test_minibatches_are_those_of_one_rank(results, size):
    for case, parts in some(results(size).items()):
        name, _, _, bulk, rule = case
        found = {batch: digest for part in parts for batch, digest in part["digests"].items()}
        assert found == serial(name, bulk, rule), case


def test_the_cases_are_not_trivial():
    graph = cases.graph("plain")
    for rule in cases.SAMPLERS:
        name = "weighted" if rule in cases.BY_WEIGHT else "plain"
        assert len(set(serial(name, 8, rule).values())) > 5, rule
    assert (np.diff(graph.indptr) == 0).any() and np.diff(graph.indptr).max() > 100
    assert {case[:3] for case in cases.matrix(8)} >= {
        ("plain", c, mode) for c in (1, 2) for mode in ("owner", "paper", "replicated")
    }


@pytest.mark.parametrize("size", SIZES)
def test_what_crosses(results, size):
    for case, parts in some(results(size).items()):
        links = [link for part in parts for link in part["ledger"]]
        assert all(source != destination for source, destination, *_ in links), case
        if size == 1 or case[2] == "replicated":
            assert not links, case
        elif case[0] == "plain" and case[1] < size:
            assert links, case


def test_bulks_in_the_background_do_not_meet_other_collectives(launcher, tmp_path):
    with World(launcher, 2, "overlap", tmp_path) as world:
        assert world.wait(600) == [0, 0], world.output(0) + world.output(1)
    parts = [json.loads((tmp_path / f"overlap{rank}.json").read_text()) for rank in (0, 1)]
    assert [part["total"] for part in parts] == [60.0, 60.0]
    assert {part["links"] for part in parts} == {6}  # two ranks: lengths, request, reply
    for place, bulk in enumerate((3, 8, 1, 8)):
        found = {batch: d for part in parts for batch, d in part["found"][place].items()}
        assert found == serial("plain", bulk, "once")
