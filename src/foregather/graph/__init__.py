"""graph: topology, features, labels and splits of a graph, in memory or in a folder."""

from foregather.graph.features import Features
from foregather.graph.graph import Graph
from foregather.graph.hetero import EdgeType, HeteroGraph, NodeTable, Relation

__all__ = ["EdgeType", "Features", "Graph", "HeteroGraph", "NodeTable", "Relation"]
