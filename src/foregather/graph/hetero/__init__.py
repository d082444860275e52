"""hetero: graphs with node types and relations, with times where they are known.

A plain `Graph` is the case of one type and one relation; this room reads it as such and leaves its
own bytes alone.
"""

from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.relation import Relation
from foregather.graph.hetero.text_ids import TextIds

__all__ = ["EdgeType", "HeteroGraph", "NodeTable", "Relation", "TextIds"]
