"""Batches without leaf rows: their sums equal those of whole batches, bit for bit; wrong uses."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from foregather import BatchContents, BudgetError, Features, Graph, InputError, Loader
from foregather.graph.features import column_scale, quantize
from foregather.interop.pyg import NeighborLoader
from foregather.sampling import Full, Labor, Neighbor, RandomWalk
from foregather.train.metrics import forward
from tests.loader.graphs import small_graph
from tests.some import some

KINDS = ("sum", "weighted")
MEMORY = "31MB"  # mostly staging
FORMS = ("float32", "float16", "float64", "int8", "strided", "swapped")


def with_rows(graph: Graph, form: str) -> Graph:
    """The same graph with its features stored in another way."""
    rows = np.random.default_rng(4).standard_normal((graph.num_nodes, 6)).astype(np.float32)
    if form == "int8":
        scale = column_scale(np.abs(rows).max(axis=0))
        made = Features(quantize(rows, scale), scale)
    elif form == "strided":
        made = Features(np.repeat(rows, 2, axis=1)[:, ::2])
    elif form == "swapped":
        made = Features(rows.astype(">f4"))
    else:
        made = Features(rows.astype(form))
    return replace(graph, features=made)


def in_order(batch, weighted):
    """Sums over the edges of a whole batch, one edge after the other, in float32."""
    targets = sum(batch.num_sampled_nodes[:-1])
    rows = batch.x.numpy()
    exact = np.float64 if rows.dtype == np.float64 else np.float32
    sums = np.zeros((targets, rows.shape[1]), exact)
    for e, (source, target) in enumerate(batch.edge_index.T.tolist()):
        row = rows[source].astype(exact)
        sums[target] += row * batch.edge_weight[e].numpy() if weighted else row
    return torch.from_numpy(sums)


def check(batch, whole, kind):
    """A batch has all that the whole one has but rows of leaves, and the right sums."""
    targets = sum(whole.num_sampled_nodes[:-1])
    assert batch.num_nodes == whole.num_nodes == len(batch.n_id)
    assert batch.x.dtype == whole.x.dtype and torch.equal(batch.x, whole.x[:targets])
    sums = in_order(whole, kind == "weighted")
    assert batch.neighbor_sum.dtype == sums.dtype
    assert torch.equal(batch.neighbor_sum, sums)
    assert whole.neighbor_sum is whole.leaves is None and batch.leaves == kind
    for one in some(fields(whole)):
        a, b = getattr(batch, one.name), getattr(whole, one.name)
        if one.name in ("x", "neighbor_sum", "leaves"):
            continue
        assert torch.equal(a, b) if isinstance(b, torch.Tensor) else a == b, one.name


def loader_of(graph, leaves, fanouts=(4, 3), *, nodes="train", norm=None, **options):
    sampler = fanouts if isinstance(fanouts, (Neighbor, Labor, Full)) else Neighbor(list(fanouts))
    contents = BatchContents(pyg=False, norm=norm, leaves=leaves)
    options = {"batch_size": 8, "seed": 3, **options}
    return Loader(graph, None, nodes, sampler=sampler, contents=contents, **options)


def pair(graph, kind, fanouts=(4, 3), **options):
    """Loaders of whole batches and of those without leaf rows."""
    return tuple(loader_of(graph, leaves, fanouts, **options) for leaves in ("rows", kind))


def check_all(whole, summed, kind):
    count = 0
    for a, b in zip(whole, summed, strict=True):
        check(b, a, kind)
        count += 1
    assert count


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_those_of_whole_batches(form, kind):
    graph = with_rows(small_graph(), form)
    check_all(*pair(graph, kind, norm="gcn"), kind)


@pytest.mark.parametrize("fanouts", [(5,), (-1,), (-1, -1), (2, -1, 1), (50, 50, 50, 50)])
def test_any_fanouts(fanouts):
    """Also with whole neighbourhoods, and with layers that meet no new node."""
    whole, summed = pair(small_graph(), "sum", fanouts)
    check_all(whole, summed, "sum")


def test_a_graph_without_edges():
    graph = Graph.from_edge_index(np.empty((2, 0), np.int64), 7, x=np.ones((7, 3), np.float32))
    check_all(*pair(graph, "sum", nodes=None), "sum")


@pytest.mark.parametrize(
    "sampler",
    [Labor([4, 3]), Labor([4, 3], debias=None), Full(2), Neighbor([4, 3], replace=True)],
)
def test_other_samplers(sampler):
    check_all(*pair(small_graph(), "sum", sampler), "sum")


def test_weights_of_the_graph_and_of_a_sampler():
    weights = np.random.default_rng(1).random(900).astype(np.float32)
    graph = small_graph(edge_weight=weights)
    check_all(*pair(graph, "weighted"), "weighted")
    check_all(*pair(graph, "weighted", Labor([4, 3])), "weighted")
    check_all(*pair(graph, "weighted", Neighbor([3, 3], weights=True)), "weighted")
    check_all(*pair(small_graph(), "weighted", Labor([4, 3])), "weighted")


@pytest.mark.parametrize("disjoint", [False, True])
def test_repeated_and_isolated_seeds(disjoint):
    nodes = [5, 5, 119, 118, 7, 5, 119, 60, 61]
    whole, summed = pair(small_graph(), "sum", nodes=nodes, disjoint=disjoint, batch_size=5)
    check_all(whole, summed, "sum")


def test_neither_threads_nor_bulk_nor_prefetch_change_a_bit():
    graph, kind = small_graph(), "weighted"
    wanted = [b.neighbor_sum for b in loader_of(graph, kind, norm="gcn", threads=1)]
    for options in some([{"threads": 3}, {"bulk": 1}, {"bulk": 50, "prefetch": 5}]):
        found = [b.neighbor_sum for b in loader_of(graph, kind, norm="gcn", **options)]
        assert len(found) == len(wanted)
        assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_half_rows_do_not_overflow_in_a_sum():
    graph = small_graph()
    rows = np.full((graph.num_nodes, 6), 6e4, np.float16)
    graph = replace(graph, features=Features(rows))
    summed = loader_of(graph, "sum", (-1,))
    largest = max(float(batch.neighbor_sum.max()) for batch in summed)
    assert np.isfinite(largest) and largest > 2 * 6e4


def test_resuming_gives_the_remaining_batches():
    whole, summed = pair(small_graph(), "sum", shuffle=True)
    loop = iter(summed)
    next(loop), next(loop)
    state = summed.state_dict()
    loop.close()
    fresh = loader_of(small_graph(), "sum", shuffle=True)
    fresh.load_state_dict(state)
    check_all(list(whole)[2:], fresh, "sum")


def test_a_batch_of_pyg_has_all_fields():
    graph = small_graph()
    loader = Loader(graph, [4, 3], "train", 8, contents=BatchContents(leaves="sum", pyg=True))
    plain = loader_of(graph, "sum", seed=0)
    for data, batch in zip(loader, plain, strict=True):
        assert data.num_nodes == len(data.n_id) == batch.num_nodes
        assert torch.equal(data.neighbor_sum, batch.neighbor_sum)
        assert torch.equal(data.x, batch.x) and len(data.x) < data.num_nodes


# ---- from disk -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A graph whose feature rows are most of it, in three dtypes."""
    made = tmp_path_factory.mktemp("leaves")
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 3000, (2, 20_000))
    rows = rng.standard_normal((3000, 64)).astype(np.float32)
    scale = column_scale(np.abs(rows).max(axis=0))
    forms = {
        "float32": rows,
        "float16": rows.astype(np.float16),
        "int8": Features(quantize(rows, scale), scale),
    }
    for name, features in forms.items():
        graph = Graph.from_edge_index(
            pairs, 3000, x=rows, y=np.arange(3000) % 3, splits={"train": np.arange(400)}
        )
        kept = features if isinstance(features, Features) else Features(features)
        replace(graph, features=kept).save(made / name)
    return made


def least(graph, contents, **options):
    """The smallest budget, which the error states."""
    with pytest.raises(BudgetError) as caught:
        Loader(graph, [5, 4], "train", 40, contents=contents, memory=1, **options)
    return caught.value.least


@pytest.mark.parametrize("form", ["float32", "float16", "int8"])
@pytest.mark.parametrize("storage", ["features", "topology", "disk"])
@pytest.mark.parametrize("kind", KINDS)
def test_from_disk_they_are_those_of_memory(folder, form, storage, kind):
    graph = Graph.open(folder / form)
    options = {"batch_size": 40, "seed": 3, "norm": "gcn"}
    whole = loader_of(graph, "rows", (5, 4), **options)
    contents = BatchContents(pyg=False, norm="gcn", leaves=kind)
    memory = least(graph, contents, storage=storage) + 200_000  # a cache of some rows
    summed = loader_of(graph, kind, (5, 4), memory=memory, storage=storage, **options)
    assert summed.layout is not None
    for _ in range(2):  # the second with rows in the cache
        check_all(whole, summed, kind)
    summed.close()


@pytest.mark.parametrize("storage", ["features", "disk"])
def test_plans_and_bytes_read_are_those_of_whole_batches(folder, storage):
    graph = Graph.open(folder / "float32")
    options = {"storage": storage, "memory": MEMORY, "batch_size": 40, "bulk": 2}
    for loader in some(pair(graph, "sum", (5, 4), **options)):
        planned = loader.plan()
        for _ in loader:
            pass
        read = loader.counters()["features"]
        summary, cost = loader.planned()
        assert read["bytes"] == cost.bytes == planned.predicted.bytes
        assert read["requests"] == cost.requests
        assert summary.blocks == planned.reads.blocks
        loader.close()


def test_budgets_count_one_scratch_and_smaller_batches(folder):
    graph = Graph.open(folder / "float32")
    contents = [BatchContents(pyg=False, leaves=leaves) for leaves in ("rows", "sum")]
    options = {"storage": "features", "bulk": 1, "prefetch": 4}
    needs = [least(graph, one, **options) for one in contents]
    assert needs[1] < needs[0]
    layouts = [
        Loader(graph, [5, 4], "train", 40, contents=one, memory=need, **options).layout
        for one, need in zip(contents, needs, strict=True)
    ]
    rows, sums = (layout.shares for layout in layouts)
    assert rows["leaf rows"] == 0 and sums["leaf rows"] == layouts[1].rows * 64 * 4
    assert sums["batches"] < rows["batches"]
    for layout in some(layouts):
        assert sum(layout.shares.values()) <= layout.memory


def test_a_batch_that_outgrows_the_scratch_is_refused(folder, monkeypatch):
    graph = Graph.open(folder / "float32")
    loader = loader_of(graph, "sum", (5, 4), memory=MEMORY, storage="features", batch_size=40)
    small = replace(loader.layout, rows=8, shares=loader.layout.shares | {"leaf rows": 8 * 256})
    monkeypatch.setattr(loader._source, "_decided", (small, None))
    with pytest.raises(BudgetError, match="before they are added up or repeated, but one has"):
        list(loader)


def test_resuming_from_disk(folder):
    graph = Graph.open(folder / "float32")
    options = {"memory": MEMORY, "storage": "features", "batch_size": 40, "shuffle": True}
    whole = list(loader_of(graph, "rows", (5, 4), batch_size=40, shuffle=True))
    summed = loader_of(graph, "sum", (5, 4), **options)
    loop = iter(summed)
    next(loop), next(loop), next(loop)
    state = summed.state_dict()
    loop.close()
    fresh = loader_of(graph, "sum", (5, 4), **options)
    fresh.load_state_dict(state)
    check_all(whole[3:], fresh, "sum")


# ---- wrong uses ----------------------------------------------------------------------------------


def refused(text, graph=None, sampler=None, **contents):
    with pytest.raises(InputError, match=text) as caught:
        Loader(
            small_graph() if graph is None else graph,
            sampler=sampler or Neighbor([3, 2]),
            contents=BatchContents(**{"leaves": "sum", **contents}),
        )
    assert "\n" not in str(caught.value)


def test_what_cannot_be_summed_is_refused():
    refused("expected one of 'rows', 'sum', 'weighted'", leaves="mean")
    refused("expands per layer", sampler=Neighbor([3, 2], expand="per-layer"))
    refused("RandomWalk does not sample layer by layer", sampler=RandomWalk(2))
    refused("no edge_weight", leaves="weighted")
    graph = small_graph()
    refused("no features", replace(graph, features=None))
    whole = Features(np.ones((graph.num_nodes, 3), np.int64))
    refused("features are int64", replace(graph, features=whole))


def test_it_is_a_field_and_never_was_an_argument():
    with pytest.raises(InputError, match=r"contents=foregather.BatchContents\(leaves=...\)"):
        Loader(small_graph(), [3], leaves="sum")


def test_a_labor_without_weights_is_refused_when_it_samples():
    loader = loader_of(small_graph(), "weighted", Labor([3, 2], debias=None))
    with pytest.raises(InputError, match="no edge_weight"):
        list(loader)


def scale_rows(batch):
    batch.x.mul_(2)
    return batch


def other_rows(batch):
    return replace(batch, x=batch.x * 2)


def other_edges(batch):
    return replace(batch, edge_index=batch.edge_index.flip(0))


@pytest.mark.parametrize("transform", [scale_rows, other_rows, other_edges])
def test_a_transform_that_changes_what_was_summed_is_refused(transform):
    loader = loader_of(small_graph(), "sum", transform=transform)
    with pytest.raises(InputError, match="transform changed .* leaves='rows'"):
        list(loader)


def test_transforms_that_change_nothing_summed_work():
    for transform in some(
        [
            lambda batch: replace(batch, x=batch.x.double(), y=None),
            lambda batch: replace(batch, edge_index=None),
            lambda batch: (batch.x, batch.neighbor_sum),
            lambda batch: replace(batch, neighbor_sum=None, x=None),
        ]
    ):
        assert list(loader_of(small_graph(), "sum", transform=transform))


def test_a_loader_of_a_data_refuses_and_names_the_way():
    from torch_geometric.data import Data

    data = Data(x=torch.rand(9, 2), edge_index=torch.randint(0, 9, (2, 30)))
    contents = BatchContents(leaves="sum")
    with pytest.raises(InputError, match="Graph.from_pyg"):
        NeighborLoader(data, [2, 2], contents=contents)
    loader = NeighborLoader(Graph.from_pyg(data), [2, 2], batch_size=3, contents=contents)
    assert all(batch.neighbor_sum is not None for batch in some(loader))


def test_a_plain_model_never_sees_too_few_rows():
    from torch_geometric.nn import GraphSAGE

    model = GraphSAGE(6, 8, 2, 3)
    batch = next(iter(loader_of(small_graph(), "sum")))
    with pytest.raises(InputError, match="GraphSAGE takes the rows of all nodes"):
        forward(model, batch)
    with pytest.raises(IndexError):  # PyG says so itself
        model(batch.x, batch.edge_index)
