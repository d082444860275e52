"""pyg_batch: a Batch as a real `torch_geometric.data.Data`, so that PyG's examples run unchanged.

PyG is imported here and only inside functions; the rest of the room does without it.
"""

from dataclasses import fields
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from foregather.errors import MissingDependencyError
from foregather.loader.batches.batch import Batch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["has_pyg", "sorted_edge_index", "to_pyg"]

#: Left out of a Data: set apart below, or not part of PyG's contract.
_APART = ("edge_index", "layers", "number")


def has_pyg() -> bool:
    """Whether PyG can be imported; does not import it."""
    return find_spec("torch_geometric") is not None


def need_pyg(what: str) -> None:
    """Raises MissingDependencyError, naming the extra, where PyG is not installed."""
    if not has_pyg():
        raise MissingDependencyError(
            f"{what} needs torch_geometric, which is not installed; pip install 'foregather[pyg]'"
        )


def to_pyg(batch: Batch) -> Any:
    """A Data with the fields of the batch under the same names.

    Fields that are None stay away from the Data, as PyG does; `num_nodes` is always right. With
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
    data.batch = batch.batch  # also where it is None: models ask for it
    if batch.layers is not None:
        data.layers = batch.layers
    return data


def sorted_edge_index(edge_index: "Tensor", num_nodes: int) -> "Tensor":
    """PyG's EdgeIndex, which knows that the targets ascend and aggregates faster for it."""
    need_pyg('edge_index="EdgeIndex"')
    from torch_geometric import EdgeIndex

    made: Tensor = EdgeIndex(edge_index, sparse_size=(num_nodes, num_nodes), sort_order="col")
    return made
