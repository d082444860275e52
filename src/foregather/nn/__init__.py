"""nn: models as lists of layers, in plain torch; PyG's models work as well."""

from foregather.nn.accelerated import Accelerated, accelerate
from foregather.nn.conv import Conv
from foregather.nn.deep import gcnii_layers, resgcn_layers
from foregather.nn.gcn import gcn_layers, sage_layers
from foregather.nn.layer import Dense, GraphLayer
from foregather.nn.sage import MLP, SAGE, SAGEConv

__all__ = [
    "GraphLayer",
    "Dense",
    "Conv",
    "gcn_layers",
    "sage_layers",
    "gcnii_layers",
    "resgcn_layers",
    "MLP",
    "SAGE",
    "SAGEConv",
    "accelerate",
    "Accelerated",
]
