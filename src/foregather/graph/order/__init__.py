"""order: where feature rows lie in their file, so that rows sampled together lie together.

An order moves rows and renumbers nothing: node ids, the topology, samples and results stay as they
are, and `places` says which row of the file is whose.
"""

from foregather.graph.order.find import ORDERS, Order, find_order
from foregather.graph.order.rewrite import reorder

__all__ = ["ORDERS", "Order", "find_order", "reorder"]
