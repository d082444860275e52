"""sampling: the matrix framework and its samplers, which choose the nodes of a batch.

The names below are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foregather.sampling.bulk import Bulk, Sample
    from foregather.sampling.disk import DiskTopology
    from foregather.sampling.full import Full
    from foregather.sampling.hetero.hetero_bulk import HeteroBulk, HeteroSample
    from foregather.sampling.hetero.hetero_labor import HeteroLabor
    from foregather.sampling.hetero.hetero_layerwise import HeteroFastGCN, HeteroLadies
    from foregather.sampling.hetero.hetero_neighbor import HeteroNeighbor
    from foregather.sampling.hetero.hgt import Hgt
    from foregather.sampling.labor import Labor
    from foregather.sampling.layerwise import FastGCN, Ladies
    from foregather.sampling.links.excluded import Excluded
    from foregather.sampling.links.negative_sampler import NegativeSampler
    from foregather.sampling.links.negatives import Negatives
    from foregather.sampling.matrix import MatrixSampler
    from foregather.sampling.neighbor import Neighbor
    from foregather.sampling.rows import Columns, Picks, Rows
    from foregather.sampling.sampler import Sampler
    from foregather.sampling.subgraphs.cluster import Cluster
    from foregather.sampling.subgraphs.saint import Saint
    from foregather.sampling.subgraphs.subgraph import induced_subgraphs
    from foregather.sampling.subgraphs.walk import RandomWalk, random_walks

__all__ = [
    "Sampler",
    "Sample",
    "Bulk",
    "MatrixSampler",
    "Rows",
    "Columns",
    "Picks",
    "Neighbor",
    "Labor",
    "Ladies",
    "FastGCN",
    "Full",
    "DiskTopology",
    "RandomWalk",
    "Saint",
    "Cluster",
    "HeteroNeighbor",
    "HeteroLabor",
    "HeteroLadies",
    "HeteroFastGCN",
    "Hgt",
    "HeteroSample",
    "HeteroBulk",
    "Negatives",
    "NegativeSampler",
    "Excluded",
    "induced_subgraphs",
    "random_walks",
]

_HOME = {
    "Sampler": "sampler",
    "Sample": "bulk",
    "Bulk": "bulk",
    "MatrixSampler": "matrix",
    "Rows": "rows",
    "Columns": "rows",
    "Picks": "rows",
    "Neighbor": "neighbor",
    "Labor": "labor",
    "Ladies": "layerwise",
    "FastGCN": "layerwise",
    "Full": "full",
    "DiskTopology": "disk",
    "RandomWalk": "subgraphs.walk",
    "Saint": "subgraphs.saint",
    "Cluster": "subgraphs.cluster",
    "HeteroNeighbor": "hetero.hetero_neighbor",
    "HeteroLabor": "hetero.hetero_labor",
    "HeteroLadies": "hetero.hetero_layerwise",
    "HeteroFastGCN": "hetero.hetero_layerwise",
    "Hgt": "hetero.hgt",
    "HeteroSample": "hetero.hetero_bulk",
    "HeteroBulk": "hetero.hetero_bulk",
    "Negatives": "links.negatives",
    "NegativeSampler": "links.negative_sampler",
    "Excluded": "links.excluded",
    "induced_subgraphs": "subgraphs.subgraph",
    "random_walks": "subgraphs.walk",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'foregather.sampling' has no attribute {name!r}")
    value = getattr(import_module(f"foregather.sampling.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
