"""Models as users write them, unmodified PyG, which runs name by module:Class."""

import signal
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import HeteroConv, Linear, SAGEConv

__all__ = ["Lazy", "Narrow", "Nowhere", "Own", "Signalling", "TakesData", "Unsized"]


class Lazy(nn.Module):
    """Two layers, a convolution for each relation; sizes come from the first batch."""

    def __init__(self, edge_types: Any, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first = HeteroConv({name: SAGEConv((-1, -1), hidden_channels) for name in edge_types})
        self.second = HeteroConv({name: SAGEConv((-1, -1), out_channels) for name in edge_types})

    def forward(self, x_dict: Any, edge_index_dict: Any) -> Any:
        x = {name: rows.relu() for name, rows in self.first(x_dict, edge_index_dict).items()}
        return self.second(x, edge_index_dict)


class TakesData(nn.Module):
    """Takes the batch, and looks at more than x."""

    def __init__(self, out_channels: int) -> None:
        super().__init__()
        self.linear = Linear(-1, out_channels)

    def forward(self, data: Any) -> Tensor:
        store = data["user"]
        rows = torch.cat([store.x.nan_to_num(), store.city[:, None].float()], dim=1)
        out: Tensor = self.linear(rows)
        return out


class Own(nn.Module):
    """Takes what it names."""

    def __init__(self, in_channels: Any, out_channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_channels["item"], out_channels)
        self.seen: set[str] = set()

    def forward(
        self, x: Any, edges: Any, num_sampled_nodes_dict: Any, n_id_dict: Any = None
    ) -> Tensor:
        self.seen |= set(num_sampled_nodes_dict) | set(n_id_dict)
        pairs = edges["item", "rev_bought", "user"]
        total = len(n_id_dict["user"])
        rows = torch.zeros(total, x["item"].shape[1]).index_add_(0, pairs[1], x["item"][pairs[0]])
        out: Tensor = self.linear(rows)
        return out


class Narrow(nn.Module):
    """Too few columns."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x_dict: Any, edge_index_dict: Any) -> Any:
        return {"user": self.linear(x_dict["user"].nan_to_num())}


class Nowhere(Narrow):
    """Gives rows of another type."""

    def forward(self, x_dict: Any, edge_index_dict: Any) -> Any:
        return {"item": x_dict["item"]}


class Unsized(Narrow):
    """Has a layer that is never called, so its size is never known."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.other = nn.Linear(4, 3), nn.LazyLinear(3)


class Signalling(Lazy):
    """Sends its process a signal while it computes its 6th batch."""

    def __init__(
        self, edge_types: Any, hidden_channels: int, out_channels: int, number: int
    ) -> None:
        with_x = [name for name in edge_types if "shop" not in name]
        super().__init__(with_x, hidden_channels, out_channels)
        self.number, self.calls = number, 0

    def forward(self, x_dict: Any, edge_index_dict: Any) -> Any:
        self.calls += self.training
        if self.number and self.training and self.calls == 6:
            signal.raise_signal(self.number)
        return super().forward(
            {name: x.nan_to_num() for name, x in x_dict.items()}, edge_index_dict
        )
