"""graph: topology, features, labels and splits of a graph, in memory or in a folder."""

from foregather.graph.features import Features
from foregather.graph.graph import Graph

__all__ = ["Graph", "Features"]
