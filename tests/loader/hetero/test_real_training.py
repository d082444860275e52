"""PyG's typed models train on batches of real typed and timed graphs."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import HeteroConv, SAGEConv, to_hetero

from foregather import HeteroLoader
from tests.loader.hetero.batches import check_batch
from tests.loader.hetero.real_graphs import citation_graph, flights
from tests.some import some


class Sage(torch.nn.Module):
    """Two layers, for to_hetero."""

    def __init__(self, classes):
        super().__init__()
        self.first, self.second = SAGEConv((-1, -1), 16), SAGEConv((-1, -1), classes)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


class Typed(torch.nn.Module):
    """Two layers, a convolution for each relation."""

    def __init__(self, edge_types, classes):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            HeteroConv({name: SAGEConv((-1, -1), width) for name in edge_types}, aggr="sum")
            for width in (16, classes)
        )

    def forward(self, x, edges):
        x = {name: rows.relu() for name, rows in self.layers[0](x, edges).items()}
        return self.layers[1](x, edges)


def losses(model, loader, node_type, epochs):
    """The mean loss of each epoch."""
    found = []
    with torch.no_grad():  # sizes are found at the first batch
        first = next(iter(loader))
        model(first.x_dict, first.edge_index_dict)
    loader.set_epoch(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        own = []
        for batch in some(loader):
            optimizer.zero_grad()
            rows = batch[node_type].batch_size
            out = model(batch.x_dict, batch.edge_index_dict)[node_type][:rows]
            loss = cross_entropy(out, batch[node_type].y[:rows])
            loss.backward()
            optimizer.step()
            own.append(float(loss.detach()))
        found.append(sum(own) / len(own))
    return found


@pytest.mark.parametrize("name", ["acm", "dblp"])
def test_citations(name):
    graph, target = citation_graph(name)
    torch.manual_seed(0)
    classes = int(graph.nodes[target].labels.max()) + 1
    loader = HeteroLoader(graph, [6, 6], (target, "train"), 20, shuffle=True, seed=1)
    metadata = (list(graph.node_types), list(graph.edge_types))
    if name == "acm":
        model = Typed(graph.edge_types, classes)
    else:
        model = to_hetero(Sage(classes), metadata, aggr="sum")
    found = losses(model, loader, target, 8)
    assert found[-1] < 0.5 * found[0], found
    check_batch(next(iter(loader)), graph)


def test_flights_with_times():
    graph = flights()
    torch.manual_seed(0)
    train = graph.nodes["flight"].split("train")
    asked = np.concatenate([train[-200:], train[-200:]])  # each twice: now, and a month before
    now = graph.nodes["flight"].time[asked]
    times = now - np.repeat([0, 30 * 86400], 200)
    loader = HeteroLoader(
        graph,
        [4, 4],
        ("flight", asked),
        100,
        input_time=times,
        time="node",
        shuffle=True,
        seed=1,
    )
    for batch in some(loader):
        check_batch(batch, graph)
        for name in ("flight", "weather"):
            own = batch[name]
            new = slice(own.get("batch_size", 0), None)
            assert (own.time[new] <= batch["flight"].seed_time[own.batch[new]]).all()
    found = losses(Typed(graph.edge_types, 2), loader, "flight", 10)
    assert found[-1] < 0.8 * found[0], found
