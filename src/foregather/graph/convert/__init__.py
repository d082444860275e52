"""convert: converts existing data to a graph folder, in bounded memory."""

from foregather.graph.convert.nodes.node_options import NodeFile, SplitRule
from foregather.graph.convert.read_options import ReadOptions
from foregather.graph.convert.run import convert

__all__ = ["NodeFile", "ReadOptions", "SplitRule", "convert"]
