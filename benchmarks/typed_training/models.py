"""models: R-GCN, HeteroConv of SAGE and HGT from PyG's layers; a model reads a batch of any side.

Rows of every node type are brought to one width by a linear layer, or are learnt by `n_id` where
the type has no features; then two convolutions, and a linear layer for the rows that were asked
about. Batches must have `n_id`, which is checked by the sides.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import FastRGCNConv, HeteroConv, HGTConv, RGCNConv, SAGEConv

from .task import Task

__all__ = ["MODELS", "make_model"]

_DROPOUT = 0.3
_HEADS = 4
_HOUR = 3600.0


class Rows(nn.Module):
    """First rows of all nodes, with ages where the task has some."""

    def __init__(self, task: Task, hidden: int) -> None:
        super().__init__()
        self.target, self.ages = task.target, dict(task.ages)
        self.own = nn.ModuleDict()
        for name, table in task.graph.nodes.items():
            if "x" in table.features:
                width = table.features["x"].shape[1] + (name in self.ages)
                self.own[name] = nn.Linear(width, hidden)
            else:
                self.own[name] = nn.Embedding(table.num_nodes, hidden)
                nn.init.normal_(self.own[name].weight, std=task.learnt)

    def forward(self, batch: Any) -> dict[str, Tensor]:
        """By node type."""
        found = {}
        for name, layer in self.own.items():
            store = batch[name]
            if isinstance(layer, nn.Embedding):
                found[name] = layer(store.n_id)
                continue
            x = store.x
            if name in self.ages:
                age = batch[self.target].seed_time[store.batch] - store[self.ages[name]]
                x = torch.cat([x, torch.log1p(age[:, None] / _HOUR) / 5], 1)
            found[name] = layer(x)
        return found


class Net(nn.Module):
    """Two convolutions; what each of them is, subclasses say."""

    def __init__(self, task: Task, hidden: int) -> None:
        super().__init__()
        self.target = task.target
        self.types, self.relations = list(task.graph.node_types), list(task.graph.edge_types)
        self.rows = Rows(task, hidden)
        self.convs = nn.ModuleList(self.conv(hidden) for _ in range(2))
        self.head = nn.Linear(hidden, task.classes)

    def conv(self, hidden: int) -> nn.Module:
        """One layer."""
        raise NotImplementedError

    def forward(self, batch: Any) -> Tensor:
        """Class scores of the nodes of the target type."""
        x = {name: rows.relu() for name, rows in self.rows(batch).items()}
        edges = {name: batch[name].edge_index for name in self.relations}
        for conv in self.convs:
            new = {name: rows.relu() for name, rows in conv(x, edges).items()}
            x = {**x, **new}  # types that no edge leads to keep their rows
            x = {
                name: functional.dropout(rows, _DROPOUT, self.training) for name, rows in x.items()
            }
        return self.head(x[self.target])


class Sage(Net):
    """A SAGEConv for every relation, summed."""

    def conv(self, hidden: int) -> nn.Module:
        """One layer."""
        own = {name: SAGEConv((hidden, hidden), hidden) for name in self.relations}
        return HeteroConv(own, aggr="sum")


class Hgt(Net):
    """HGTConv."""

    def conv(self, hidden: int) -> nn.Module:
        """One layer."""
        return HGTConv(hidden, hidden, (self.types, self.relations), _HEADS)


class Stacked(nn.Module):
    """An RGCNConv over the nodes of all types, one after the other."""

    def __init__(self, relations: list[Any], hidden: int) -> None:
        super().__init__()
        self.relations = relations
        self.conv = RGCNConv(hidden, hidden, len(relations))

    def forward(self, x: dict[str, Tensor], edges: dict[Any, Tensor]) -> dict[str, Tensor]:
        """New rows of every type."""
        counts = [len(rows) for rows in x.values()]
        starts = dict(zip(x, [0, *torch.tensor(counts).cumsum(0).tolist()], strict=False))
        moved, kinds = [], []
        for number, name in enumerate(self.relations):
            first = torch.tensor([[starts[name[0]]], [starts[name[2]]]])
            moved.append(edges[name] + first)
            kinds.append(torch.full((edges[name].shape[1],), number))
        out = self.conv(torch.cat([*x.values()]), torch.cat(moved, 1), torch.cat(kinds))
        return dict(zip(x, out.split(counts), strict=True))


class Rgcn(Net):
    """R-GCN without bases."""

    def conv(self, hidden: int) -> nn.Module:
        """One layer."""
        return Stacked(self.relations, hidden)


class OneHotRgcn(nn.Module):
    """The R-GCN of its paper for entities: a one-hot input, so a row of weights for each entity."""

    def __init__(self, task: Task, hidden: int) -> None:
        super().__init__()
        self.target, self.relations = task.target, list(task.graph.edge_types)
        count, kinds = task.graph.nodes[task.target].num_nodes, len(self.relations)
        self.first = FastRGCNConv(count, hidden, kinds)
        self.second = FastRGCNConv(hidden, task.classes, kinds)

    def forward(self, batch: Any) -> Tensor:
        """Class scores of all entities of the batch."""
        pairs = [batch[name].edge_index for name in self.relations]
        edges = torch.cat(pairs, 1)
        kinds = torch.repeat_interleave(torch.tensor([one.shape[1] for one in pairs]))
        x = self.first(batch[self.target].n_id, edges, kinds).relu()
        return self.second(x, edges, kinds)


MODELS = {"R-GCN": Rgcn, "SAGE": Sage, "HGT": Hgt}


def make_model(task: Task, kind: str, seed: int) -> nn.Module:
    """A model with the first weights of a seed."""
    torch.manual_seed(seed)
    made = OneHotRgcn if kind == "R-GCN" and task.name == "aifb" else MODELS[kind]
    return made(task, task.width(kind))
