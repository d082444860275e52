"""A custom sampler: in-neighbours chosen by an attention that is learned during training.

Half of this graph's edges are noise. `ByAttention` overrides two verbs: `norm` weighs every edge by
the model's own attention, `sample` picks 3 in-neighbours of each node by those weights. The same
attention, divided by the probability of the pick, weighs the messages, so that training it teaches
the sampler where to look. Expected output, in 8 seconds:

    uniform picks: test accuracy 77 %
    picks by attention: test accuracy 81 %
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from foregather import Features, Graph
from foregather.graph.synthetic import synthetic_arrays
from foregather.sampling import MatrixSampler, Picks, Rows, Sample

NODES, WIDTH, CLASSES = 3000, 32, 8


class Attention(nn.Module):
    """Guesses a class from a node's own features; likely equal classes attract each other."""

    def __init__(self, strength: float) -> None:
        super().__init__()
        self.guess, self.strength = nn.Linear(WIDTH, CLASSES), strength

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        same = (self.guess(source).softmax(1) * self.guess(target).softmax(1)).sum(1)
        return (self.strength * same).exp()


@dataclass(frozen=True)
class ByAttention(MatrixSampler):
    """Picks in-neighbours with probability proportional to their attention."""

    attention: Attention
    layer_sizes: tuple[int, ...] = (3, 3)

    def norm(self, p: Rows) -> Tensor:
        x = torch.from_numpy(p.graph.features.data)
        return self.attention(x[p.tensor("columns")], x[p.tensor("targets")])

    def sample(self, p: Rows) -> Picks:
        return p.sample_rows(self.layer_sizes[p.layer], self.norm(p), debias=True)


class Model(nn.Module):
    """Two layers; messages are weighted by attention / probability of the pick, summing to 1."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention
        self.layers = nn.ModuleList([nn.Linear(2 * WIDTH, 64), nn.Linear(2 * 64, CLASSES)])

    def forward(self, sample: Sample, x: Tensor) -> Tensor:
        row, col, node = (torch.tensor(a).long() for a in (sample.row, sample.col, sample.node))
        weight = torch.tensor(sample.weight) * self.attention(x[node[row]], x[node[col]])
        h, end = x[node], len(row)
        for step, layer in ((0, 1), (1, 0)):  # the outermost layer first
            edges, targets = slice(end - sample.num_edges[layer], end), sample.num_nodes[layer]
            total = torch.zeros(targets).index_add(0, col[edges], weight[edges]).clamp(min=1e-9)
            messages = h[row[edges]] * (weight[edges] / total[col[edges]]).unsqueeze(1)
            mean = torch.zeros(targets, h.shape[1]).index_add(0, col[edges], messages)
            h = self.layers[step](torch.cat([h[:targets], mean], 1))
            h, end = h.relu() if layer else h, edges.start
        return h


def run(graph: Graph, attention: Attention) -> float:
    """Trains for 15 epochs; returns the test accuracy."""
    sampler, model = ByAttention(attention), Model(attention)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    x, y = torch.from_numpy(graph.features.data), torch.tensor(graph.labels, dtype=torch.int64)
    for epoch in range(15):
        order = np.random.default_rng(epoch).permutation(graph.split("train"))
        for batch, seeds in enumerate(np.array_split(order, 4)):
            sample = sampler.sample_bulk(graph, [seeds], seed=0, epoch=epoch, first_batch=batch)[0]
            loss = cross_entropy(model(sample, x), y[seeds])
            optimizer.zero_grad()
            (loss + cross_entropy(attention.guess(x[seeds]), y[seeds])).backward()
            optimizer.step()
    sample = sampler.sample_bulk(graph, [graph.split("test")], seed=1)[0]
    return float((model(sample, x).argmax(1) == y[graph.split("test")]).float().mean())


if __name__ == "__main__":
    torch.set_num_threads(1)  # small matrices; same results everywhere
    recipe = {"features": WIDTH, "classes": CLASSES, "signal": 1.5, "skew": 1, "label_noise": 0.0}
    indptr, indices, x, _, y, splits = synthetic_arrays(NODES, **recipe)
    graph = Graph(NODES, len(indices), indptr, indices, Features(x), labels=y, splits=splits)
    for name, strength in (("uniform picks", 0.0), ("picks by attention", 6.0)):
        torch.manual_seed(0)
        print(f"{name}: test accuracy {100 * run(graph, Attention(strength)):.0f} %")
