"""nn: models as lists of layers, in plain torch; PyG's models work as well."""

from foregather.nn.sage import MLP, SAGE, SAGEConv

__all__ = ["MLP", "SAGE", "SAGEConv"]
