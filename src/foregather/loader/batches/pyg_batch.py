"""pyg_batch: converts a Batch to PyG's `Data`, so that PyG's examples run unchanged.

PyG is imported here and only inside functions; the rest of the room does not need it.
"""

from dataclasses import fields
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from foregather.errors import MissingDependencyError
from foregather.loader.batches.batch import Batch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["has_pyg", "sorted_edge_index", "to_pyg"]

#: Not copied to a Data: handled separately below, or not part of PyG's contract.
_APART = ("edge_index", "layers", "number")


def has_pyg() -> bool:
    """Whether PyG can be imported; does not import it."""
    return find_spec("torch_geometric") is not None


def need_pyg(what: str) -> None:
    """Raises MissingDependencyError, naming the extra, if PyG is not installed."""
    if not has_pyg():
        raise MissingDependencyError(
            f"{what} needs torch_geometric, which is not installed; pip install 'foregather[pyg]'"
        )


def to_pyg(batch: Batch) -> Any:
    """Makes a Data with the fields of the batch under the same names.

    Fields that are None are left out, as in PyG; `num_nodes` is always set. With
    `expand="per-layer"` there is `layers` and no `edge_index`.
    """
    need_pyg("to_pyg")
    from torch_geometric.data import Data

    data = Data(edge_index=batch.edge_index)
    for name in (f.name for f in fields(batch)):
        value = getattr(batch, name)
        if value is not None and name not in _APART:
            data[name] = value
    data.num_nodes = batch.num_nodes
    data.batch = batch.batch  # also if it is None: models access it
    if batch.layers is not None:
        data.layers = batch.layers
    return data


def sorted_edge_index(edge_index: "Tensor", num_nodes: int) -> "Tensor":
    """Makes a PyG EdgeIndex, which knows that targets ascend and so aggregates faster."""
    need_pyg('edge_index="EdgeIndex"')
    from torch_geometric import EdgeIndex

    made: Tensor = EdgeIndex(edge_index, sparse_size=(num_nodes, num_nodes), sort_order="col")
    return made
