"""The drop-in NeighborLoader for HeteroData and times, against PyG's own rules."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric import loader as pyg_loader
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader.utils import filter_hetero_data
from torch_geometric.nn import SAGEConv, to_hetero
from torch_geometric.sampler import NumNeighbors
from torch_geometric.utils import trim_to_layer

from foregather import InputError
from foregather.interop.pyg import NeighborLoader
from foregather.interop.typed.typed_loader import TypedNeighborLoader
from foregather.sampling import HeteroNeighbor
from tests.loader.hetero.batches import same_data, shop, trees
from tests.some import some

CITES = ("paper", "cites", "paper")
WRITES = ("author", "writes", "paper")
WRITTEN = ("paper", "rev_writes", "author")


def example(seed=0, papers=40, authors=15, edges=160):
    rng = torch.Generator().manual_seed(seed)

    def ids(most):
        return torch.randint(0, most, (edges,), generator=rng)

    data = HeteroData(title="example")
    data["paper"].x = torch.randn(papers, 6, generator=rng)
    data["paper"].y = torch.randint(0, 3, (papers,), generator=rng)
    data["paper"].time = torch.randint(0, 5, (papers,), generator=rng) * 10  # many are equal
    data["paper"].train_mask = torch.arange(papers) % 2 == 0
    data["paper"].words = np.arange(papers * 2).reshape(papers, 2)
    data["paper"].note = "whole"
    data["author"].num_nodes = authors
    data["author"].x = torch.randn(authors, 3, generator=rng).double()
    data["venue"].num_nodes = 4
    data[CITES].edge_index = torch.stack([ids(papers), ids(papers)])
    data[CITES].edge_attr = torch.randn(edges, 2, generator=rng)
    data[CITES].weight = torch.rand(edges, generator=rng)
    data[WRITES].edge_index = torch.stack([ids(authors), ids(papers)])
    data[WRITES].since = torch.randint(0, 5, (edges,), generator=rng) * 10
    data[WRITTEN].edge_index = data[WRITES].edge_index.flip(0)
    data[WRITTEN].since = data[WRITES].since.clone()
    data["venue", "hosts", "paper"].edge_index = torch.empty(2, 0, dtype=torch.int64)
    return data


DATA = example()
TIMES = torch.arange(20) % 6 * 10  # of input rows


def ours(data=DATA, num_neighbors=(3, 2), **options):
    usual = {"input_nodes": ("paper", DATA["paper"].train_mask), "batch_size": 6, "seed": 1}
    return NeighborLoader(data, list(num_neighbors), **{**usual, **options})


def check_filter(batch, data):
    """PyG's own filter, given our nodes and edges, makes the same batch."""
    node = {name: batch[name].n_id for name in data.node_types}
    row = {name: batch[name].edge_index[0] for name in data.edge_types}
    col = {name: batch[name].edge_index[1] for name in data.edge_types}
    edge = {name: batch[name].get("e_id", None) for name in data.edge_types}
    whole = filter_hetero_data(data, node, row, col, edge)
    assert whole.keys() and batch.node_types == data.node_types
    assert batch.edge_types == data.edge_types
    for store, theirs in some(zip(batch.stores, whole.stores, strict=True)):
        for key, value in theirs.items():
            if isinstance(value, Tensor):
                assert store[key].dtype == value.dtype and torch.equal(store[key], value), key
            else:
                assert store[key] == value, key
    for name in some(data.edge_types):
        if batch[name].get("e_id", None) is not None:
            ends = torch.stack([batch[name[0]].n_id[row[name]], batch[name[2]].n_id[col[name]]])
            assert torch.equal(ends, data[name].edge_index[:, batch[name].e_id])


OPTIONS = {
    "plain": {},
    "dict": {"num_neighbors": None},
    "disjoint": {"disjoint": True},
    "node time": {"time_attr": "time"},
    "node time, given": {"time_attr": "time", "input_time": TIMES},
    "edge time": {"time_attr": "since", "input_time": TIMES},
    "last": {
        "time_attr": "since",
        "input_time": TIMES,
        "temporal_strategy": "last",
    },
    "weighted": {"weight_attr": "weight"},
    "weighted and timed": {"weight_attr": "weight", "time_attr": "time"},
    "bidirectional": {"subgraph_type": "bidirectional"},
    "induced": {"directed": False},
}


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.filterwarnings("ignore:relation .* has no reverse:UserWarning")
def test_batches_are_what_pygs_own_filter_makes(kind):
    options = dict(OPTIONS[kind])
    if kind == "dict":
        loader = NeighborLoader(
            DATA,
            NumNeighbors({CITES: [3, 2]}, default=[2, 2]),
            ("paper", DATA["paper"].train_mask),
            batch_size=6,
        )
    else:
        loader = ours(**options)
    assert isinstance(loader, NeighborLoader) and isinstance(loader, pyg_loader.NeighborLoader)
    rows = []
    for batch in some(loader):
        check_filter(batch, DATA)
        paper = batch["paper"]
        assert paper.batch_size == paper.input_id.numel()
        assert torch.equal(paper.n_id[: paper.batch_size], paper.input_id)  # of a mask: the nodes
        assert ("batch" in paper) == loader.node_sampler.disjoint
        rows += paper.input_id.tolist()
        if options.get("input_time") is not None:
            place = DATA["paper"].train_mask.nonzero().view(-1).tolist()
            given = [options["input_time"][place.index(row)] for row in paper.input_id.tolist()]
            assert paper.seed_time.tolist() == [int(one) for one in given]
    assert sorted(rows) == DATA["paper"].train_mask.nonzero().view(-1).tolist()


def reached(data, seed, layers, limit=None):
    """Nodes and edges of a search from one paper that follows nothing later than `limit`."""
    nodes = {name: set() for name in data.node_types}
    edges = {name: set() for name in data.edge_types}
    nodes["paper"].add(seed)
    last = {name: set(found) for name, found in nodes.items()}
    for _ in range(layers):
        new = {name: set() for name in nodes}
        for name in data.edge_types:
            for at, (source, target) in enumerate(data[name].edge_index.t().tolist()):
                if target not in last[name[2]]:
                    continue
                own = data[name[0]].get("time", None)
                if limit is not None and own is not None and int(own[source]) > limit:
                    continue
                edges[name].add(at)
                if source not in nodes[name[0]]:
                    new[name[0]].add(source)
        for name in nodes:
            nodes[name] |= new[name]
        last = new
    return nodes, edges


@pytest.mark.parametrize("seed", range(3))
def test_all_neighbours_are_those_of_a_search(seed):
    data = example(seed)
    for batch in some(ours(data, num_neighbors=[-1, -1], batch_size=1)):
        nodes, edges = reached(data, int(batch["paper"].input_id), 2)
        for name in some(data.node_types):
            assert set(batch[name].n_id.tolist()) == nodes[name]
        for name in some(data.edge_types):
            assert sorted(batch[name].e_id.tolist()) == sorted(edges[name])
    for batch in some(ours(data, num_neighbors=[-1, -1], time_attr="time", input_time=TIMES)):
        for tree, (row, (own, taken)) in enumerate(some(trees(batch, "paper").items())):
            nodes, edges = reached(data, row, 2, int(batch["paper"].seed_time[tree]))
            assert {name: set(found) for name, found in own.items()} == nodes
            assert {name: set(found) for name, found in taken.items()} == edges


def test_a_seed_given_twice_has_two_rows_with_the_same_neighbours():
    loader = ours(input_nodes=("paper", torch.tensor([4, 7, 4])), batch_size=3)
    (batch,) = loader
    check_filter(batch, DATA)
    paper = batch["paper"]
    assert paper.n_id[:3].tolist() == [4, 7, 4] and paper.batch_size == 3
    assert paper.num_sampled_nodes[0] == 3
    for name in some([CITES, WRITES]):
        into = [batch[name].e_id[batch[name].edge_index[1] == at].tolist() for at in (0, 2)]
        assert into[0] == into[1]
        assert sum(batch[name].num_sampled_edges) == batch[name].e_id.numel()
        assert (batch[name].edge_index[1].diff() >= 0).all()
    assert torch.cat([batch[n].edge_index[1] for n in (CITES, WRITES)]).numel() > 0


@pytest.mark.parametrize("repeat", [False, True])
def test_trimming_by_layer_changes_no_score(repeat):
    torch.manual_seed(0)
    data = copy.copy(DATA)
    data["author"].x = data["author"].x.float()
    del data["venue", "hosts", "paper"], data["venue"]
    layers = torch.nn.ModuleList(
        [to_hetero(One(first), data.metadata(), aggr="sum") for first in (True, False)]
    )
    seeds = torch.tensor([1, 5, 1, 9]) if repeat else torch.arange(8)
    for batch in some(ours(data, input_nodes=("paper", seeds), batch_size=4)):
        scores = []
        for trim in (False, True):
            x, edges = batch.x_dict, batch.edge_index_dict
            for number, layer in enumerate(layers):
                if trim:
                    x, edges, _ = trim_to_layer(
                        number,
                        batch.num_sampled_nodes_dict,
                        batch.num_sampled_edges_dict,
                        x,
                        edges,
                    )
                x = layer(x, edges)
            scores.append(x["paper"][: batch["paper"].batch_size])
        assert torch.allclose(*scores, atol=1e-6) and scores[0].abs().sum() > 0


class One(torch.nn.Module):
    """A convolution."""

    def __init__(self, first):
        super().__init__()
        self.conv = SAGEConv((-1, -1) if first else (4, 4), 4)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index).relu()


def test_resuming_drawing_and_calling():
    loader = ours(shuffle=True, time_attr="time")
    whole = [list(loader), list(loader)]
    going = ours(shuffle=True, time_attr="time")
    list(going)
    for number, _ in enumerate(going):
        if number == 1:
            break
    again = ours(shuffle=True, time_attr="time", seed=9)
    again.load_state_dict(going.state_dict())
    rest = list(again)
    assert len(rest) == 2 and all(map(same_data, rest, whole[1][2:]))
    drawn = ours(sampler=[5, 1, 3], batch_size=2)
    assert [b["paper"].input_id.tolist() for b in drawn] == [[10, 2], [6]] and len(drawn) == 2
    with pytest.raises(InputError, match="cannot be saved"):
        drawn.state_dict()
    called = ours(time_attr="time")([3, 3])
    check_filter(called, DATA)
    assert called["paper"].n_id[:2].tolist() == [6, 6]
    with ours().enable_multithreading(2):
        pass


def test_learnable_features_and_transforms():
    data = copy.copy(DATA)
    data["paper"].x = torch.nn.Parameter(DATA["paper"].x.clone())
    seen = []

    def change(out):
        seen.append(out.metadata[0])
        return out

    loader = ours(
        data,
        transform=lambda batch: batch["paper"].x.sum(),
        transform_sampler_output=change,
        num_workers=2,
        persistent_workers=True,
    )
    sum(loader).backward()

    def bare(out):
        out.edge, out.batch = None, None
        del out.node["venue"], out.row["venue", "hosts", "paper"]
        return out

    for batch in some(ours(data, transform_sampler_output=bare)):
        assert "e_id" not in batch[CITES] and "edge_attr" not in batch[CITES]
        assert batch["venue"].num_nodes == 0 == batch["venue", "hosts", "paper"].num_edges
    assert data["paper"].x.grad.sum() > 0 and len(seen) == len(loader)


def test_a_typed_graph_of_ours_and_a_subclass():
    graph = shop()
    loader = NeighborLoader(graph, [2], ("user", "train"), batch_size=30, seed=0)
    (batch,) = loader
    assert type(loader) is TypedNeighborLoader and batch["user"].batch_size == 30

    class Mine(NeighborLoader):
        pass

    with pytest.raises(InputError, match="make it from TypedNeighborLoader"):
        Mine(DATA, [2], "paper")
    assert not isinstance(loader, Mine)
    assert not isinstance(NeighborLoader(Data(num_nodes=3), [2]), TypedNeighborLoader)


def timed_data(nodes=30, edges=120, level="node"):
    rng = torch.Generator().manual_seed(2)
    count = nodes if level == "node" else edges
    return Data(
        x=torch.randn(nodes, 3, generator=rng),
        edge_index=torch.randint(0, nodes, (2, edges), generator=rng),
        edge_attr=torch.randn(edges, 2, generator=rng),
        time=torch.randint(0, 20, (count,), generator=rng),
    )


@pytest.mark.parametrize("kind", ["directional", "bidirectional", "induced"])
@pytest.mark.parametrize("level", ["node", "edge"])
def test_data_with_times(level, kind):
    data = timed_data(level=level)
    given = {} if level == "node" else {"input_time": torch.arange(30)}
    loader = NeighborLoader(
        data, [4, 4], time_attr="time", batch_size=8, subgraph_type=kind, seed=0, **given
    )
    edges = 0
    for batch in some(loader):
        assert type(batch) is Data
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        ends = batch.n_id[batch.edge_index]
        own = data.edge_index[:, batch.e_id]
        turned = (ends.flip(0) == own).all(0)
        assert ((ends == own).all(0) | (turned & (kind == "bidirectional"))).all()
        limit = batch.seed_time[batch.batch]
        tree = limit[batch.edge_index[1]]
        if level == "node":
            new = slice(batch.batch_size, None)
            assert (batch.time[new] <= limit[new]).all()
        else:
            assert (data.time[batch.e_id] <= tree).all()
        assert ("num_sampled_nodes" in batch) == (kind == "directional")
        edges += batch.num_edges
    assert edges > 0


def without(**stores):
    data = copy.copy(DATA)
    for name, (key, value) in stores.items():
        data[name][key] = value
    return data


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_nodes": "papr"}, "no node type 'papr'; the nearest is 'paper'"),
        ({"input_nodes": ("paper", [40])}, "node type 'paper': .* 40"),
        ({"input_nodes": None}, "input_nodes is None, but the graph has 3 node types"),
        ({"input_time": torch.arange(20)}, "input_time was given, but no time_attr"),
        ({"time_attr": "when"}, "no node type and no relation has such an attribute"),
        ({"time_attr": "since"}, "every input row needs a time; pass input_time"),
        ({"time_attr": "time", "input_time": torch.arange(3)}, r"shape \[3\], expected \[20\]"),
        ({"time_attr": "time", "input_time": torch.rand(20)}, "input_time holds float32"),
        ({"weight_attr": "heavy"}, "no relation has such an attribute"),
        ({"neighbor_sampler": object()}, "neighbor_sampler"),
        ({"collate_fn": print}, "collate_fn"),
        ({"memory": "1GB"}, "memory is an argument of Loader"),
        ({"subgraph_type": "wide"}, "subgraph_type is 'wide'"),
        ({"data": without(paper=("tags", ["a"] * 40))}, "node type 'paper': tags is a list"),
        ({"data": without(author=("time", torch.rand(15))), "time_attr": "time"}, "float32"),
        (
            {"sampler": HeteroNeighbor([2], time="node"), "num_neighbors": None},
            "the sampler has time='node', but time_attr=None gives the times of nothing",
        ),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    options = {"data": DATA, "num_neighbors": [2], "batch_size": 4, **options}
    options.setdefault("input_nodes", ("paper", DATA["paper"].train_mask))
    with pytest.raises(InputError, match=message):
        NeighborLoader(**options)


def test_data_that_does_not_say_enough_is_refused():
    data = copy.copy(DATA)
    data["reader"].name = "no count"
    with pytest.raises(InputError, match=r"set data\['reader'\].num_nodes"):
        ours(data)
    both = copy.copy(DATA)
    both[CITES].time = torch.arange(160)
    with pytest.raises(InputError, match="which nodes and edges have"):
        ours(both, time_attr="time")
    missing = copy.copy(DATA)
    missing["paper", "in", "nowhere"].edge_index = torch.zeros(2, 1, dtype=torch.int64)
    with pytest.raises(InputError, match="nodes of type 'nowhere', which the data does not have"):
        ours(missing)
    bare = copy.copy(DATA)
    bare["paper", "about", "paper"].weight = torch.rand(3)
    with pytest.raises(InputError, match="about.* has no edge_index"):
        ours(bare)
    with pytest.raises(InputError, match="input_nodes is 'train', expected node ids"):
        NeighborLoader(timed_data(), [2], "train", time_attr="time")
