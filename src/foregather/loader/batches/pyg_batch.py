"""pyg_batch: converts a Batch to PyG's `Data`, so that PyG's examples run unchanged.

PyG is imported here and only inside functions; the rest of the room does not need it.
"""

from dataclasses import fields
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from foregather.errors import MissingDependencyError
from foregather.loader.batches.batch import Batch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["has_pyg", "plain_tensor", "sorted_edge_index", "to_pyg"]

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
    kind: Any = type(batch)
    names = _names(kind)
    held = {name: value for name in names if (value := getattr(batch, name)) is not None}
    held["num_nodes"] = batch.num_nodes
    if batch.layers is not None:
        held["layers"] = batch.layers
    kind, direct = _data_class()
    data = kind()
    if direct:
        data._store._mapping.update(held)
    else:
        _set_each(data, held)
    return data


@cache
def _names(kind: Any) -> tuple[str, ...]:
    """What is copied of a batch of this class."""
    return ("edge_index", *(one.name for one in fields(kind) if one.name not in _APART))


def _set_each(data: Any, held: dict[str, Any]) -> None:
    for name, value in held.items():
        data[name] = value


@cache
def _data_class() -> tuple[Any, bool]:
    """PyG's Data, and whether its store is a mapping that takes all fields at once.

    Setting them one by one costs more than sampling a small batch, so the store is tried once.
    """
    need_pyg("to_pyg")
    from torch_geometric.data import Data

    held, plain, tried = {"n_id": "?", "num_nodes": 1, "edge_index": "?"}, Data(), Data()
    _set_each(plain, held)
    mapping = getattr(tried._store, "_mapping", None)
    if type(mapping) is not dict:
        return Data, False
    mapping.update(held)
    same = [*tried._store.items()] == [*plain._store.items()] == [*held.items()]
    return Data, same and vars(tried._store).keys() == vars(plain._store).keys()


def sorted_edge_index(edge_index: "Tensor", num_nodes: int) -> "Tensor":
    """Makes a PyG EdgeIndex, which knows that targets ascend."""
    need_pyg('edge_index="EdgeIndex"')
    from torch_geometric import EdgeIndex

    made: Tensor = EdgeIndex(edge_index, sparse_size=(num_nodes, num_nodes), sort_order="col")
    return made


def plain_tensor(edge_index: "Tensor") -> "Tensor":
    """The same memory as a Tensor of no subclass; PyG's EdgeIndex wraps one."""
    import torch

    inner: Tensor = edge_index.as_tensor() if hasattr(edge_index, "as_tensor") else edge_index
    return inner.detach().as_subclass(torch.Tensor)
