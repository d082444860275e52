"""Batches of real flights with times do not depend on how they are made."""

import numpy as np
import pytest
import torch

from foregather import HeteroLoader
from foregather.sampling import HeteroNeighbor
from tests.loader.hetero.batches import same_data, trees
from tests.loader.hetero.real_graphs import flights
from tests.some import some

ROWS = 240


@pytest.fixture(scope="module")
def graph():
    return flights()


@pytest.fixture(scope="module")
def asked(graph):
    """Flights of the whole year; some of them twice."""
    rng = np.random.default_rng(3)
    ids = rng.integers(0, graph.nodes["flight"].num_nodes, ROWS)
    ids[ROWS // 2 : ROWS // 2 + 20] = ids[:20]
    return ids


def made(graph, asked, strategy="uniform", **options):
    usual = {"batch_size": 48, "shuffle": True, "seed": 5, "time": "node"}
    return HeteroLoader(
        graph, [6, 6], ("flight", asked), temporal_strategy=strategy, **{**usual, **options}
    )


def by_row(loader):
    """The tree of each row, whatever batch it is in."""
    return {row: tree for batch in some(loader) for row, tree in trees(batch, "flight").items()}


@pytest.mark.parametrize("strategy", ["uniform", "last"])
def test_threads_bulk_and_prefetch_change_nothing(graph, asked, strategy):
    first = list(made(graph, asked, strategy, threads=1, bulk=1, prefetch=0))
    assert len(first) == ROWS // 48
    for options in ({"threads": 2, "bulk": 1}, {"threads": 2, "bulk": 8, "prefetch": 3}):
        others = list(made(graph, asked, strategy, **options))
        assert len(others) == len(first)
        assert all(map(same_data, first, others)), options


def test_samples_have_one_digest(graph, asked):
    """Of the sampler alone; batches of two bulks are those of one."""
    parts = np.array_split(asked, 5)
    rows = np.array_split(np.arange(ROWS), 5)
    sampler = HeteroNeighbor([6, 6], time="node")

    def digests(threads, bulk):
        found = []
        for start in range(0, 5, bulk):
            sampled = sampler.sample_bulk(
                graph,
                {"flight": parts[start : start + bulk]},
                rows={"flight": rows[start : start + bulk]},
                seed=5,
                first_batch=start,
                threads=threads,
            )
            found += [type(sampled)([one], 5, 0, start).digest for one in sampled]
        return found

    want = digests(1, 1)
    assert len(set(want)) == 5
    assert digests(1, 5) == want and digests(2, 5) == want and digests(2, 2) == want


def test_a_tree_does_not_depend_on_its_batch(graph, asked):
    first = by_row(made(graph, asked))
    assert len(first) == ROWS
    assert by_row(made(graph, asked, batch_size=100, shuffle=False)) == first
    assert by_row(made(graph, asked, batch_size=7, threads=2)) == first
    alone = made(graph, asked, batch_size=1, shuffle=False)
    assert {row: first[row] for row in range(5)} == {
        row: tree
        for _, batch in zip(range(5), alone, strict=False)
        for row, tree in trees(batch, "flight").items()
    }
    assert by_row(made(graph, asked, seed=6)) != first


def test_rows_and_answers_stay_together(graph, asked):
    labels = torch.from_numpy(graph.nodes["flight"].labels.astype(np.int64))
    seen = []
    for batch in some(made(graph, asked)):
        own = batch["flight"]
        first = own.n_id[: own.batch_size]
        assert torch.equal(first, torch.from_numpy(asked)[own.input_id])
        assert torch.equal(own.y, labels[own.n_id]) and own.y.dtype == torch.int64
        assert torch.equal(own.batch[: own.batch_size], torch.arange(own.batch_size))
        seen += own.input_id.tolist()
    assert sorted(seen) == list(range(ROWS))
