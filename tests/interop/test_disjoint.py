"""disjoint=True of the drop-in NeighborLoader and of Loader: a tree for every input node."""

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, RandomSampler
from torch_geometric.data import Data
from torch_geometric.loader import CachedLoader, ImbalancedSampler, ZipLoader
from torch_geometric.nn import GraphConv, GraphSAGE
from torch_geometric.utils import k_hop_subgraph, trim_to_layer

from foregather import BatchContents, BudgetError, Graph, InputError
from foregather.interop.pyg import NeighborLoader
from foregather.loader import arranged as loader_module
from foregather.loader.loader import Loader
from foregather.sampling import FastGCN, Labor, Neighbor
from tests.loader.graphs import grouped
from tests.sampling.reference_trees import join_all
from tests.some import some

NODES, EDGES = 60, 400


def example() -> Data:
    """Parallel edges, self-loops, unequal degrees; the last four nodes have no edge."""
    generator = torch.Generator().manual_seed(0)
    edges = ((NODES - 4) * torch.rand(2, EDGES, generator=generator) ** 2).long()
    return Data(
        x=torch.rand(NODES, 4, generator=generator),
        y=torch.randint(0, 3, (NODES,), generator=generator),
        name="whole",
        edge_index=edges,
        edge_attr=torch.arange(EDGES),
        heavy=torch.rand(EDGES, generator=generator) + 0.1,
    )


def loader_of(data, fanouts=(3, 2), nodes=None, **options) -> NeighborLoader:
    defaults = {"batch_size": 8, "seed": 5, "disjoint": True}
    fanouts = None if fanouts is None else list(fanouts)
    return NeighborLoader(data, fanouts, nodes, **grouped({**defaults, **options}))


def trees_of(loader) -> dict[int, list[list]]:
    """Of one epoch, by `input_id`: for each tree its nodes in order, and its edges in order."""
    found: dict[int, list[list]] = {}
    for batch in loader:
        for row, tree in split(batch):
            found.setdefault(row, []).append(tree)
    return found


def split(batch) -> list[tuple[int, list]]:
    of = batch.batch[batch.edge_index[1]]
    return [
        (int(row), [batch.n_id[batch.batch == tree].tolist(), batch.e_id[of == tree].tolist()])
        for tree, row in enumerate(batch.input_id)
    ]


def check(data, batch, seeds) -> None:
    """What PyG's batches promise, and that trees share nothing."""
    counts, hops = batch.num_sampled_nodes, []
    assert batch.batch.dtype == torch.int64 and batch.batch.shape == batch.n_id.shape
    assert batch.batch_size == counts[0] == len(batch.input_id) == len(seeds)
    assert torch.equal(batch.n_id[: len(seeds)], torch.as_tensor(seeds))
    assert batch.batch[: len(seeds)].tolist() == list(range(len(seeds)))
    assert sum(counts) == batch.num_nodes and sum(batch.num_sampled_edges) == batch.num_edges
    for hop, part in enumerate(batch.batch.split(counts)):
        assert (part.diff() >= 0).all()  # hop by hop, and in a hop tree by tree
        hops += [hop] * len(part)
    pairs = set(zip(batch.batch.tolist(), batch.n_id.tolist(), strict=True))
    assert len(pairs) == batch.num_nodes  # in a tree a node is once
    row, col = batch.edge_index
    assert torch.equal(batch.batch[row], batch.batch[col]) and (col.diff() >= 0).all()
    layers = torch.arange(len(counts) - 1).repeat_interleave(torch.tensor(batch.num_sampled_edges))
    assert torch.equal(torch.tensor(hops)[col], layers)  # a node is expanded where it was met
    assert torch.equal(data.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])
    assert torch.equal(batch.x, data.x[batch.n_id]) and torch.equal(batch.y, data.y[batch.n_id])
    assert torch.equal(batch.edge_attr, batch.e_id) and batch.name == "whole"


@pytest.mark.parametrize(
    "options", [{}, {"replace": True}, {"weight_attr": "heavy"}, {"shuffle": True, "bulk": 3}]
)
@pytest.mark.parametrize("fanouts", [(3, 2), (-1,), (2, -1, 4)])
def test_contract_and_reference(options, fanouts):
    """Every batch against the tree of each seed, sampled alone, joined by slow Python."""
    data, nodes = example(), torch.tensor([7, 3, 7, 59, 0, 12, 58, 7, 30, 31, 2])
    loader = loader_of(data, fanouts, nodes, batch_size=4, **options)
    weights = True if "weight_attr" in options else None
    alone = Neighbor(list(fanouts), replace=options.get("replace", False), weights=weights)
    graph = loader.graph
    ids = np.arange(EDGES) if graph.edge_ids is None else graph.edge_ids
    for epoch in range(2):
        seen = []
        for batch in loader:
            rows = batch.input_id
            check(data, batch, nodes[rows])
            wanted = join_all(
                lambda v, row, at={"seed": 5, "epoch": epoch}: alone.sample_bulk(
                    graph, [np.array([v])], first_batch=row, **at
                )[0],
                [nodes[rows].numpy()],
                [rows.numpy()],
                len(fanouts),
            )[0]
            assert batch.n_id.tolist() == wanted.node.tolist()
            assert batch.batch.tolist() == wanted.tree.tolist()
            assert batch.edge_index.tolist() == [wanted.row.tolist(), wanted.col.tolist()]
            assert batch.e_id.tolist() == ids[wanted.edge].tolist()
            assert batch.num_sampled_edges == list(wanted.num_edges)
            seen += rows.tolist()
        assert sorted(seen) == list(range(11)) and len(seen) == 11


def test_whole_neighbourhoods_are_pygs():
    """With fan-out -1 each tree has the nodes and edges of PyG's own k_hop_subgraph."""
    data = example()
    for batch in some(loader_of(data, (-1, -1), batch_size=13)):
        check(data, batch, batch.input_id)
        for row, (nodes, edges) in split(batch):
            subset, _, _, mask = k_hop_subgraph(
                row, 2, data.edge_index, num_nodes=NODES, directed=True
            )
            assert sorted(nodes) == subset.tolist()
            assert sorted(edges) == torch.nonzero(mask).flatten().tolist()


def test_order_is_that_of_pyg_lib():
    """Seeds 2 and 3 of a ring of six, two hops: the numbers that pyg-lib's own test expects."""
    left, ring = torch.arange(6), torch.arange(1, 7) % 6
    edges = torch.stack([torch.cat([left, ring]), torch.cat([ring, left])])
    (batch,) = loader_of(Data(edge_index=edges, num_nodes=6), (2, 2), torch.tensor([2, 3]))
    assert batch.batch.tolist() == [0, 1, 0, 0, 1, 1, 0, 0, 1, 1]
    assert batch.n_id.tolist() == [2, 3, 1, 3, 2, 4, 0, 4, 1, 5]
    assert batch.edge_index[1].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert batch.edge_index[0].tolist() == [2, 3, 4, 5, 6, 0, 0, 7, 8, 1, 1, 9]
    assert batch.num_sampled_nodes == [2, 4, 4] and batch.num_sampled_edges == [4, 8]


def test_fan_outs_are_kept_in_every_tree():
    data = example()
    degree = torch.bincount(data.edge_index[1], minlength=NODES)
    for replace in (False, True):
        for batch in some(loader_of(data, (4, 3), replace=replace)):
            edges = torch.bincount(batch.edge_index[1], minlength=batch.num_nodes)
            expanded = sum(batch.num_sampled_nodes[:-1])
            for at in range(expanded):
                fanout = 4 if at < batch.batch_size else 3
                own = int(degree[batch.n_id[at]])
                assert edges[at] == (min(own, fanout) if not replace else fanout * (own > 0))
            assert not edges[expanded:].any()
            if not replace:
                keys = batch.batch[batch.edge_index[1]] * EDGES + batch.e_id
                assert len(keys.unique()) == len(keys)


# ---- purity ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"replace": True}, {"weight_attr": "heavy"}])
def test_a_tree_depends_on_its_row_and_epoch_alone(options):
    data, nodes = example(), torch.arange(NODES).flip(0)
    want = trees_of(loader_of(data, nodes=nodes, batch_size=NODES, bulk=1, threads=1, **options))
    others = [
        {"batch_size": 1},
        {"batch_size": 7, "shuffle": True},
        {"batch_size": 7, "bulk": 3, "threads": 2, "prefetch": 5},
        {"sampler": RandomSampler(range(NODES))},
        {"batch_sampler": BatchSampler(RandomSampler(range(NODES)), 9, False), "batch_size": 1},
    ]
    for other in others:
        assert trees_of(loader_of(data, nodes=nodes, **options, **other)) == want
    loader = loader_of(data, nodes=nodes, **options)
    called = dict(split(loader([5, 59, 5])) + split(loader(torch.tensor([17]))))
    assert called == {row: want[row][0] for row in (5, 59, 17)}
    loader.set_epoch(1)
    assert trees_of(loader) != want


def test_other_input_nodes_have_the_same_trees_by_mask_and_other_ones_by_position():
    """`input_id` is what a tree is keyed by: node ids for None and masks, else positions."""
    data = example()
    whole = trees_of(loader_of(data))
    mask = torch.arange(NODES) % 3 == 0
    assert trees_of(loader_of(data, nodes=mask)) == {v: whole[v] for v in range(0, NODES, 3)}
    nodes = torch.arange(NODES)
    assert trees_of(loader_of(data, nodes=nodes)) == whole
    assert trees_of(loader_of(data, nodes=nodes.flip(0))) != whole


def test_a_seed_given_twice_has_two_trees():
    data = example()
    nodes = torch.tensor([2, 2, 2, 59, 59])
    (batch,) = loader_of(data, (3, 3), nodes, batch_size=5)
    check(data, batch, nodes)
    trees = [tree for _, tree in split(batch)]
    assert trees[0] != trees[1] != trees[2] != trees[0]  # rows differ, so do draws
    assert trees[3] == trees[4] == [[59], []]
    again = loader_of(data, (3, 3), nodes, batch_size=5, sampler=[1, 1, 0])
    (batch,) = again  # a position given twice is one row
    check(data, batch, nodes[:3])
    assert [tree for _, tree in split(batch)] == [trees[1], trees[1], trees[0]]


def test_resume_is_exact():
    data = example()
    loader = loader_of(data, shuffle=True)
    batches = iter(loader)
    next(batches), next(batches)
    state = loader.state_dict()
    rest = [(batch.n_id.tolist(), batch.e_id.tolist(), batch.batch.tolist()) for batch in batches]
    other = loader_of(data, shuffle=True, seed=0, bulk=3)
    other.load_state_dict(state)
    found = [(batch.n_id.tolist(), batch.e_id.tolist(), batch.batch.tolist()) for batch in other]
    assert found == rest and len(rest) == 6
    plain = loader_of(data, shuffle=True, disjoint=False)
    for one, given in ((plain, state), (loader, plain.state_dict())):
        with pytest.raises(InputError, match="the state was saved with sampler"):
            one.load_state_dict(given)


# ---- edge cases --------------------------------------------------------------------------------


def test_empty_batches_and_lonely_seeds():
    data = example()
    empty = loader_of(data)([])
    assert empty.num_nodes == empty.num_edges == empty.batch_size == 0
    assert empty.num_sampled_nodes == [0, 0, 0] and empty.num_sampled_edges == [0, 0]
    assert empty.batch.shape == (0,) and empty.x.shape == (0, 4)
    dealt = [[], [59, 58], []]
    sizes = [b.batch.tolist() for b in loader_of(data, batch_size=1, batch_sampler=dealt)]
    assert sizes == [[], [0, 1], []]
    alone = Data(x=torch.rand(3, 2), edge_index=torch.empty(2, 0, dtype=torch.long))
    (batch,) = loader_of(alone)
    assert batch.batch.tolist() == [0, 1, 2] and batch.edge_index.shape == (2, 0)
    assert list(loader_of(data, nodes=torch.empty(0, dtype=torch.long))) == []
    assert [b.batch_size for b in loader_of(data, batch_size=25, drop_last=True)] == [25, 25]
    data.batch = torch.zeros(NODES, dtype=torch.long)  # PyG writes over it too
    assert next(iter(loader_of(data, (1,)))).batch[:8].tolist() == list(range(8))


def test_bidirectional():
    data = example()
    drawn = loader_of(data, batch_size=20)
    made = loader_of(data, batch_size=20, subgraph_type="bidirectional")
    for one, batch in some(zip(drawn, made, strict=True)):
        assert torch.equal(one.n_id, batch.n_id) and torch.equal(one.batch, batch.batch)
        sampled = {tuple(pair) for pair in one.edge_index.t().tolist()}
        pairs = [tuple(pair) for pair in batch.edge_index.t().tolist()]
        assert len(pairs) == len(set(pairs)) and "num_sampled_edges" not in batch
        assert set(pairs) == sampled | {(b, a) for a, b in sampled}
        assert torch.equal(batch.edge_attr, batch.e_id)


def test_models_see_trees_as_they_see_the_graph():
    data = example()
    torch.manual_seed(0)
    first, second = GraphConv(4, 8), GraphConv(8, 3)
    wanted = second(first(data.x, data.edge_index).relu(), data.edge_index)
    nodes = torch.tensor([4, 9, 4, 58, 1])
    (batch,) = loader_of(data, (-1, -1), nodes)
    found = second(first(batch.x, batch.edge_index).relu(), batch.edge_index)
    torch.testing.assert_close(found[: batch.batch_size], wanted[nodes])
    layers = (batch.num_sampled_nodes, batch.num_sampled_edges)
    x, edges, _ = trim_to_layer(0, *layers, batch.x, batch.edge_index)
    x = first(x, edges).relu()
    x, edges, _ = trim_to_layer(1, *layers, x, edges)
    torch.testing.assert_close(second(x, edges)[: batch.batch_size], wanted[nodes])
    (ordered,) = loader_of(data, (-1, -1), nodes, edge_index="EdgeIndex")
    ordered.edge_index.validate()  # that targets ascend
    assert torch.equal(ordered.edge_index.as_tensor(), batch.edge_index)
    net = GraphSAGE(4, 8, 2, 3).eval()
    inferred = net.inference(loader_of(data, (-1,), batch_size=16))
    torch.testing.assert_close(inferred, net(data.x, data.edge_index))


def test_a_learnable_x_and_a_changed_output():
    data = example()
    data.x = torch.rand(NODES, 4, requires_grad=True)
    (batch,) = loader_of(data, (-1,), torch.tensor([5, 5]))
    batch.x.sum().backward()
    assert data.x.grad[5, 0] >= 2  # once for each tree

    def only_first_tree(out):
        keep = out.batch[out.col] == 0
        out.row, out.col, out.edge = out.row[keep], out.col[keep], out.edge[keep]
        return out

    data = example()
    for batch in loader_of(data, transform_sampler_output=only_first_tree):
        assert not batch.batch[batch.edge_index].any()
        assert torch.equal(data.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])


def test_pygs_other_loaders():
    data = example()
    zipped = ZipLoader([loader_of(data, nodes=torch.arange(n)) for n in (9, 6)], batch_size=3)
    for pair in zipped:
        for batch in pair:
            check(data, batch, batch.input_id)
    cached = CachedLoader(loader_of(data))
    assert [b.batch.tolist() for b in cached] == [b.batch.tolist() for b in loader_of(data)]
    dealt = loader_of(data, sampler=ImbalancedSampler(data.y))
    assert sum(batch.batch_size for batch in dealt) == NODES


# ---- a Graph, and what is refused ----------------------------------------------------------------


def test_a_graph_in_memory_and_from_a_folder(tmp_path):
    data = example()
    data.edge_attr = data.edge_attr[:, None].float()
    del data.heavy, data.name
    graph = Graph.from_pyg(data)
    want = trees_of(loader_of(graph))
    graph.save(tmp_path / "g")
    folder = Graph.open(tmp_path / "g")
    for loader in (
        loader_of(folder, batch_size=3),
        Loader(folder, [3, 2], batch_size=5, seed=5, disjoint=True, shuffle=True),
        Loader(
            graph, [3, 2], batch_size=5, seed=5, disjoint=True, contents=BatchContents(pyg=False)
        ),
    ):
        assert trees_of(loader) == want
    batch = next(iter(loader)).to("cpu")
    assert "batch=" in repr(batch) and torch.equal(batch.x, data.x[batch.n_id])
    aside = Loader(graph, [3, 2], seed=5, disjoint=True).beside(np.array([7]), batch_size=1)
    assert next(iter(aside)).batch.tolist()[:2] == [0, 0]
    seeds = next(iter(loader_of(graph, nodes=[4, 4], labels="seeds")))
    assert torch.equal(seeds.y, data.y[[4, 4]])
    assert next(iter(loader_of(graph, disjoint=False))).batch is None


def test_a_graph_larger_than_memory_is_used_as_it_is_mapped(tmp_path, monkeypatch):
    graph = Graph.from_pyg(Data(x=example().x, edge_index=example().edge_index))
    graph.save(tmp_path / "g")
    want = trees_of(loader_of(graph))
    monkeypatch.setattr(loader_module, "fits", lambda *parts: False)
    asked = []

    def arrange(maker, *rest):  # by plan, where there is room for it
        asked.append(maker.disjoint)
        raise BudgetError("no room")

    monkeypatch.setattr(loader_module, "arrange", arrange)
    loader_of(Graph.open(tmp_path / "g"), disjoint=False)
    assert trees_of(loader_of(Graph.open(tmp_path / "g"))) == want
    assert asked == [False, True]


def test_samplers_with_weights_and_gcn_sums():
    data = example()
    data.edge_weight = data.heavy
    loader = loader_of(data, sampler=Labor([3, 2]), fanouts=None)
    alone = loader_of(data, sampler=Labor([3, 2]), fanouts=None, batch_size=1)
    found, wanted = {}, {}
    for place, batches in ((found, loader), (wanted, alone)):
        for batch in batches:
            of = batch.batch[batch.edge_index[1]]
            for tree, row in enumerate(batch.input_id.tolist()):
                place[row] = batch.edge_weight[of == tree].tolist()
    assert found == wanted and any(found.values())
    (batch,) = loader_of(data, (-1,), norm="gcn", batch_size=NODES)
    sums = torch.zeros(NODES).index_add(
        0, batch.edge_index[1][batch.edge_index[1] < NODES], batch.edge_weight
    )
    (plain,) = loader_of(data, (-1,), norm="gcn", batch_size=NODES, disjoint=False)
    wanted_sums = torch.zeros(NODES).index_add(0, plain.edge_index[1], plain.edge_weight)
    torch.testing.assert_close(sums, wanted_sums)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subgraph_type": "induced"}, "disjoint=True does not work with subgraph_type='induced'"),
        ({"directed": False}, "does not work with subgraph_type='induced'"),
        ({"expand": "per-layer"}, "disjoint trees need expand='once'"),
        ({"disjoint": "yes"}, "disjoint is 'yes', expected one of False, True"),
        ({"disjoint": None}, "disjoint is None, expected one of False, True"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        loader_of(example(), **options)


def test_samplers_that_make_no_trees_are_refused():
    with pytest.raises(InputError, match="sampled by Neighbor and Labor, not by FastGCN"):
        NeighborLoader(example(), sampler=FastGCN([4]), disjoint=True)
