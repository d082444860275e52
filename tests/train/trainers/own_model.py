"""A model as a user writes it: attention, BatchNorm, jumping knowledge, one weight used twice."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Mine(nn.Module):
    """Two hops of the same convolution."""

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, dropout: float
    ) -> None:
        from torch_geometric.nn import GATConv

        super().__init__()
        self.first = nn.Linear(in_channels, hidden_channels)
        self.conv = GATConv(hidden_channels, hidden_channels)
        self.norm = nn.BatchNorm1d(hidden_channels)
        self.last = nn.Linear(3 * hidden_channels, out_channels)
        self.dropout = dropout

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        rows = [self.first(x)]
        for _ in range(2):
            x = F.dropout(rows[-1], self.dropout, self.training)
            rows.append(F.relu(self.norm(self.conv(x, edge_index))))
        out: Tensor = self.last(torch.cat(rows, 1))
        return out


class OtherNames(Mine):
    """Names its second argument as it likes."""

    def forward(self, x: Tensor, e: Tensor) -> Tensor:
        return super().forward(x, e)
