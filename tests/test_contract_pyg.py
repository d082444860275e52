"""A training script in the style of PyG's ogbn example, with one import swapped.

PyG's own NeighborLoader needs pyg-lib or torch-sparse, which no package index has as a wheel for
every torch; where neither is installed, only our half of the comparison can run, and the contract
is what PyG documents: seeds first, attributes by n_id and e_id, layers contiguous.
"""

import itertools
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import trim_to_layer

from foregather import Graph, InputError
from tests.some import some

PYG_CAN_SAMPLE = any(find_spec(name) for name in ("pyg_lib", "torch_sparse"))
SCRIPT = """
from {module} import NeighborLoader

def run(data, split_idx, model, epochs):
    common = dict(num_workers=0, persistent_workers=False)
    train_loader = NeighborLoader(
        data, input_nodes=split_idx["train"], num_neighbors=[15, 10, 5], batch_size=64,
        shuffle=True, **common,
    )
    test_loader = NeighborLoader(
        data, input_nodes=split_idx["test"], num_neighbors=[15, 10, 5], batch_size=100, **common
    )
    subgraph_loader = NeighborLoader(
        data, input_nodes=None, num_neighbors=[-1], batch_size=128, shuffle=False, **common
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        model.train()
        total = 0
        for batch in train_loader:
            batch = batch.to("cpu")
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            y = batch.y[: batch.batch_size].squeeze().to(torch.long)
            functional.cross_entropy(out, y).backward()
            optimizer.step()
            total += batch.batch_size
        assert total == len(split_idx["train"])
    model.eval()
    with torch.no_grad():
        right = 0
        for batch in test_loader:
            size = batch.num_sampled_nodes[0]
            out = model(batch.x, batch.edge_index)[:size]
            right += int((out.argmax(-1) == batch.y[:size].squeeze()).sum())
        whole = model.inference(data.x, subgraph_loader)
    exact = (whole.argmax(-1) == data.y.squeeze())[split_idx["test"]].float().mean()
    return right / len(split_idx["test"]), float(exact), train_loader
"""


class Sage(torch.nn.Module):
    def __init__(self, *widths: int) -> None:
        super().__init__()
        pairs = itertools.pairwise(widths)
        self.convs = torch.nn.ModuleList(SAGEConv(a, b) for a, b in pairs)

    def forward(self, x, edge_index):
        for number, conv in enumerate(self.convs):
            x = conv(x.relu() if number else x, edge_index)
        return x

    def inference(self, x, loader):
        """Layer by layer over all nodes, each with all its neighbours."""
        for number, conv in enumerate(self.convs):
            parts = []
            for batch in some(loader):
                rows = conv(x[batch.n_id], batch.edge_index)[: batch.batch_size]
                parts.append(rows if number == len(self.convs) - 1 else rows.relu())
            x = torch.cat(parts)
        return x


def example(nodes: int = 600) -> tuple[Data, dict]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, nodes)
    pairs = rng.integers(0, nodes, (2, 30 * nodes))
    pairs = pairs[:, (y[pairs[0]] == y[pairs[1]]) | (rng.random(30 * nodes) < 0.1)]
    x = rng.normal(size=(nodes, 8)).astype("f4")
    x[:, :3] += 0.7 * np.eye(3, dtype="f4")[y]
    data = Data(
        x=torch.from_numpy(x),
        y=torch.from_numpy(y).unsqueeze(1),  # OGB's shape
        edge_index=torch.from_numpy(pairs),
        edge_attr=torch.arange(pairs.shape[1]).double(),
        train_mask=torch.arange(nodes) % 2 == 0,
        name="example",
    )
    order = torch.from_numpy(rng.permutation(nodes))
    return data, {"train": order[:400], "test": order[400:]}


def run(module: str):
    torch.manual_seed(0)
    data, split = example()
    scope = {"torch": torch, "functional": functional}
    exec(SCRIPT.format(module=module), scope)
    return data, split, scope["run"](data, split, Sage(8, 16, 16, 3), 4)


def check_batches(data, split, loader):
    """What PyG documents of a batch."""
    seen = []
    for batch in some(loader):
        n_id, e_id = batch.n_id, batch.e_id
        documented = {"x", "y", "edge_index", "edge_attr", "train_mask", "name", "n_id", "e_id"}
        documented |= {"input_id", "batch_size", "num_sampled_nodes", "num_sampled_edges"}
        assert type(batch) is Data and documented <= set(batch.to_dict())
        assert torch.equal(data.edge_index[:, e_id], n_id[batch.edge_index])
        for name in ("x", "y", "train_mask"):
            assert torch.equal(batch[name], data[name][n_id]), name
            assert batch[name].dtype == data[name].dtype
        assert torch.equal(batch.edge_attr, data.edge_attr[e_id]) and batch.name == "example"
        assert torch.equal(split["train"][batch.input_id], n_id[: batch.batch_size])
        assert isinstance(batch.batch_size, int) and isinstance(batch.num_sampled_nodes, list)
        assert batch.num_sampled_nodes[0] == batch.batch_size
        assert sum(batch.num_sampled_nodes) == batch.num_nodes == len(n_id)
        assert sum(batch.num_sampled_edges) == len(e_id)
        assert batch.batch is None and n_id.dtype == e_id.dtype == torch.int64
        x, edges, counts = batch.x, batch.edge_index, batch.num_sampled_edges
        for layer in range(3):
            x, edges, _ = trim_to_layer(layer, batch.num_sampled_nodes, counts, x, edges)
        assert len(x) == sum(batch.num_sampled_nodes[:2]) and edges.max() < len(x)
        seen.append(n_id[: batch.batch_size])
    assert torch.equal(torch.cat(seen).sort()[0], split["train"].sort()[0])


def test_the_script_runs_and_learns():
    data, split, (sampled, exact, loader) = run("foregather.interop.pyg")
    assert sampled > 0.85 and exact > 0.85 and len(loader) == 7 and loader.data is data
    check_batches(data, split, loader)


@pytest.mark.skipif(not PYG_CAN_SAMPLE, reason="neither pyg-lib nor torch-sparse is installed")
def test_pygs_own_loader_keeps_the_same_contract():
    data, split, (sampled, exact, loader) = run("torch_geometric.loader")
    assert sampled > 0.85 and exact > 0.85 and len(loader) == 7
    check_batches(data, split, loader)


def ours(data, **options):
    from foregather.interop.pyg import NeighborLoader

    return NeighborLoader(data, **{"num_neighbors": [3, 2], "batch_size": 50, **options})


def test_seeds_come_from_torch_unless_given():
    data, _ = example(100)
    first = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        first.append(next(iter(ours(data, shuffle=True))).n_id)
    assert torch.equal(first[0], first[1]) and not torch.equal(first[0], first[2])
    assert ours(data, seed=5).seed == 5


def test_disjoint_batches_keep_the_contract():
    data, split = example(200)
    loader = ours(data, input_nodes=split["train"][:80], disjoint=True, seed=1)
    for batch in some(loader):
        assert torch.equal(data.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])
        for name in ("x", "y", "train_mask"):
            assert torch.equal(batch[name], data[name][batch.n_id]), name
        assert torch.equal(split["train"][batch.input_id], batch.n_id[: batch.batch_size])
        assert batch.batch.dtype == torch.int64 and len(batch.batch) == batch.num_nodes
        assert batch.batch[: batch.batch_size].tolist() == list(range(batch.batch_size))
        source, target = batch.batch[batch.edge_index]
        assert torch.equal(source, target)


def test_arguments_of_workers_and_a_graph():
    data, _ = example(100)
    workers = {"num_workers": 4, "persistent_workers": True, "prefetch_factor": 2}
    loader = ours(data, seed=0, pin_memory=True, **workers, transform=lambda batch: batch.name)
    assert list(loader) == ["example"] * 2
    graph = Graph.from_pyg(data)
    assert all(torch.equal(b.x, data.x[b.n_id]) for b in ours(graph, seed=0))
    double = Data(x=data.x.double(), edge_index=data.edge_index)
    assert all(torch.equal(b.x, double.x[b.n_id]) for b in ours(double, seed=0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_neighbors": {"a": [1]}}, "num_neighbors is a dict"),
        ({"data": HeteroData()}, "the data has no node types"),
        ({"data": Data()}, "how many nodes"),
        ({"generator": torch.Generator()}, "generator=.* use seed="),
        ({"disjoint": True, "subgraph_type": "induced"}, "disjoint=True"),
        ({"subgraph_type": "wide"}, "subgraph_type is 'wide', expected one of directional"),
        ({"weight_attr": "w"}, "weight_attr is 'w', but the data has no such attribute"),
        ({"time_attr": "t"}, "time_attr is 't', but no node type and no relation has"),
        ({"input_time": [1]}, "input_time was given, but no time_attr"),
        ({"collate_fn": print}, "collate_fn"),
        ({"num_neighbors": [0]}, "num_neighbors has 0"),
    ],
)
def test_what_would_change_results_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        ours(**{"data": example(20)[0], **options})
