"""pyg: adapters that plug foregather's samplers, features and topology into PyTorch Geometric.

`NeighborLoader`, `LinkNeighborLoader` and `HGTLoader` replace PyG's by changing only the import.
The rest is for code that must keep PyG's own loaders. PyG asks for one batch at a time without
announcing the next, so nothing can be planned ahead, unless `OnDisk` says which batches come.
"""

from typing import Any

from foregather.errors import MissingDependencyError
from foregather.graph.graph import Graph

try:
    from foregather.interop.links.link_neighbor_loader import LinkNeighborLoader
    from foregather.interop.neighbor_loader import NeighborLoader
    from foregather.interop.sampler import PygSampler
    from foregather.interop.stores.feature_store import PygFeatureStore
    from foregather.interop.stores.graph_store import PygGraphStore
    from foregather.interop.stores.on_disk import OnDisk, OnDiskFeatureStore
    from foregather.interop.typed.hgt_loader import HGTLoader
    from foregather.interop.typed.neighbor_sampler import NeighborSampler
except ImportError as error:
    raise MissingDependencyError(
        "foregather.interop.pyg needs torch_geometric; pip install 'foregather[pyg]'"
    ) from error

__all__ = [
    "HGTLoader",
    "LinkNeighborLoader",
    "NeighborLoader",
    "NeighborSampler",
    "OnDisk",
    "OnDiskFeatureStore",
    "PygFeatureStore",
    "PygGraphStore",
    "PygSampler",
    "from_pyg",
]


def from_pyg(data: Any, **options: Any) -> Graph:
    """A Graph from a PyG Data; see `Graph.from_pyg`."""
    return Graph.from_pyg(data, **options)
