"""Batches of links are the same wherever the graph is, and within the budget."""

import numpy as np
import pytest

from foregather import BudgetError, Graph, InputError, LinkLoader, Negatives
from foregather.sampling import Labor, Neighbor
from tests.loader.graphs import small_graph
from tests.loader.links.slow import same_links

RULE = Negatives(amount=1.5, exclude="positives")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("links") / "graph"
    small_graph(900, 9000).save(path)
    return Graph.open(path)


def loader(graph, **options):
    how = {"batch_size": 40, "shuffle": True, "seed": 2, "negatives": RULE, "bulk": 2}
    return LinkLoader(graph, [4, 3], options.pop("links", "train"), **(how | options))


@pytest.mark.parametrize("out", [False, True])
@pytest.mark.parametrize("links", ["given", "all"])
@pytest.mark.parametrize("storage", ["features", "topology", "disk", "memory"])
def test_batches_do_not_depend_on_storage(folder, storage, links, out):
    pairs = np.random.default_rng(3).integers(0, 900, (2, 300)) if links == "given" else None
    count = 8 if links == "given" else 20
    first = iter(loader(folder, links=pairs, exclude_seed_edges=out))
    wanted = [next(first) for _ in range(count)]
    made = loader(folder, links=pairs, memory="60MB", storage=storage, exclude_seed_edges=out)
    found = iter(made)
    assert all(same_links(batch, next(found)) for batch in wanted)
    if storage != "memory":
        assert made.layout is not None and made.counters()
    made.close()


@pytest.mark.parametrize("storage", ["features", "topology", "disk", "memory", "auto"])
@pytest.mark.parametrize("out", [False, True])
def test_disjoint_trees_do_not_depend_on_storage(folder, storage, out):
    pairs = np.random.default_rng(3).integers(0, 900, (2, 200))
    options = {"links": pairs, "exclude_seed_edges": out, "disjoint": True}
    wanted = list(loader(folder, **options))
    made = loader(folder, memory="60MB", storage=storage, **options)
    found = list(made)
    assert len(found) == len(wanted) > 2
    assert all(same_links(one, other) for one, other in zip(wanted, found, strict=True))
    ids = wanted[0].n_id
    assert len(ids.unique()) < len(ids)  # trees share nodes
    if storage in ("topology", "disk"):
        assert made.counters()["topology"]["bytes"] > 0
    if storage in ("features", "disk"):
        distinct = sum(len(batch.n_id.unique()) for batch in wanted)
        assert made.planned()[0].rows == distinct  # each row once a batch
        plan = made.plan(epoch=0)
        assert plan.reads is not None and plan.reads.rows == distinct
    made.close()


@pytest.mark.parametrize("storage", ["features", "topology", "disk"])
def test_the_least_budget_of_disjoint_trees_is_enough(folder, storage):
    pairs = np.random.default_rng(3).integers(0, 900, (2, 200))
    options = {"links": pairs, "disjoint": True, "storage": storage, "negatives": None}
    with pytest.raises(BudgetError) as refused:
        loader(folder, memory="200KB", **options)
    links = loader(folder, links=pairs, negatives=None)._task.nbytes
    made = loader(folder, memory=refused.value.least + links, **options)
    wanted = loader(folder, **{**options, "storage": "auto"})
    assert all(same_links(one, other) for one, other in zip(wanted, made, strict=True))
    made.close()


def test_disjoint_trees_of_labor_from_disk(folder):
    pairs = np.random.default_rng(3).integers(0, 900, (2, 100))
    how = {"batch_size": 20, "seed": 2, "disjoint": True, "sampler": Labor([3, 2]), "bulk": 2}
    wanted = list(LinkLoader(folder, None, pairs, negatives=RULE, **how))
    made = LinkLoader(folder, None, pairs, negatives=RULE, memory="60MB", storage="disk", **how)
    assert all(same_links(one, other) for one, other in zip(wanted, made, strict=True))
    made.close()


def test_trees_by_weight_leave_out_nothing_on_disk(folder):
    rule = Neighbor([3], weights=np.ones(folder.num_edges, np.float32))
    how = {"disjoint": True, "sampler": rule, "memory": "60MB", "storage": "topology"}
    with pytest.raises(InputError, match="draws from tables of whole rows.*storage='features'"):
        LinkLoader(folder, None, np.zeros((2, 10), np.int64), 5, **how)


def test_links_and_negatives_are_part_of_the_budget(folder):
    pairs = np.zeros((2, 200_000), np.int64)
    with pytest.raises(BudgetError, match="the links and what negatives are drawn from take 3"):
        loader(folder, links=pairs, memory="3MB", negatives=None)


def test_named_links_of_a_folder(tmp_path):
    graph = small_graph()
    pairs = np.array([[1, 2, 3], [4, 5, 6]])
    graph.with_links("train", pairs, labels=[2, 3, 4], time=[7, 8, 9]).save(tmp_path / "graph")
    made = LinkLoader(Graph.open(tmp_path / "graph"), [3], "train", 3, exclude_seed_edges=False)
    (batch,) = made
    assert batch.n_id[batch.edge_label_index].tolist() == pairs.tolist()
    assert batch.edge_label.tolist() == [2, 3, 4] and batch.edge_label_time.tolist() == [7, 8, 9]
    with pytest.raises(InputError, match="has no links 'test'"):
        LinkLoader(graph, [3], "test", 3)
