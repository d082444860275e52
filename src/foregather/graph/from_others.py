"""from_others: graphs in memory from what other packages hold: SciPy, networkx, pairs of names.

Names of nodes are kept as the ids of the source, so that `original_ids` and `nodes_of` work.
"""

import os
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError

__all__ = ["from_matrix", "from_named", "from_networkx", "number_names"]

Array = npt.NDArray[Any]
_BUDGET = 1 << 62  # it is read into memory anyway


def from_matrix(matrix: Any) -> dict[str, Any]:
    """Edges, weights and node count of a sparse matrix, or of a .npz of `scipy.sparse.save_npz`.

    Raises:
        InputError: it is not a square sparse matrix.
    """
    if isinstance(matrix, (str, os.PathLike)):
        from foregather.graph.convert.reading.npz import ZipArrays
        from foregather.graph.convert.reading.scipy_arrays import is_scipy, read_scipy

        with ZipArrays(Path(matrix)) as arrays:
            if not is_scipy(arrays.names()):
                raise InputError(
                    f"{Path(matrix).name} is not a file of scipy.sparse.save_npz; use convert for "
                    "other arrays"
                )
            found = read_scipy(arrays)
            pairs = list(found.pair_chunks("edge_index", 1 << 22))
            weighted = "edge_weight" in found.names()
            weights = list(found.chunks("edge_weight", 1 << 22)) if weighted else []
            count = int(found.whole("num_nodes", _BUDGET))
        index = [np.concatenate([pair[k] for pair in pairs] or [np.zeros(0)]) for k in (0, 1)]
        weight = np.concatenate(weights) if weights else np.ones(1)
        return _fields(np.asarray(index, np.int64), weight, count)
    if not all(hasattr(matrix, name) for name in ("tocoo", "shape")):
        raise InputError(
            f"a {type(matrix).__name__} is given, expected a sparse matrix of SciPy or the path "
            "of one saved by save_npz"
        )
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"the matrix has shape {matrix.shape}, expected as many rows as columns")
    coo = matrix.tocoo()
    return _fields(np.stack([coo.row, coo.col]).astype(np.int64), coo.data, int(matrix.shape[0]))


def _fields(index: Array, weight: Array, count: int) -> dict[str, Any]:
    """Weights that are all 1 say nothing and are left out."""
    if np.iscomplexobj(weight):
        raise InputError(
            f"the matrix has entries of type {weight.dtype}, expected real ones; take its real part"
        )
    plain = weight.dtype.kind == "b" or bool((weight == 1).all())
    kept = None if plain else weight.astype(np.float32)
    return {"edge_index": index, "num_nodes": count, "edge_weight": kept}


def number_names(names: Iterable[Hashable]) -> tuple[dict[Hashable, int], dict[str, Array]]:
    """Numbers of names by first appearance, and the arrays that keep the names.

    Raises:
        InputError: names are neither all text nor all whole numbers.
    """
    numbers: dict[Hashable, int] = {}
    for name in names:
        numbers.setdefault(name, len(numbers))
    kinds = {
        str if isinstance(name, str) else int if _is_whole(name) else type(name) for name in numbers
    }
    if not kinds:
        return numbers, {}
    if kinds == {int}:
        return numbers, {"mapping": np.fromiter(numbers, np.int64, len(numbers))}
    if kinds == {str}:
        text = [str(name).encode() for name in numbers]
        offsets = np.zeros(len(text) + 1, np.int64)
        np.cumsum([len(one) for one in text], out=offsets[1:])
        data = np.frombuffer(b"".join(text), np.uint8).copy()
        return numbers, {"mapping_bytes": data, "mapping_offsets": offsets}
    shown = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise InputError(
        f"the nodes are named by {shown}, expected text or whole numbers, the same for all"
    )


def _is_whole(name: Hashable) -> bool:
    return isinstance(name, (int, np.integer)) and not isinstance(name, bool)


def from_named(edges: Iterable[Any]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Edges between names, each (source, target) or (source, target, weight).

    Raises:
        InputError: an edge has another length, or names are of several kinds.
    """
    rows = [tuple(edge) for edge in edges]
    lengths = {len(row) for row in rows}
    if not lengths <= {2} and not lengths <= {3}:
        raise InputError(
            f"edges of {', '.join(map(str, sorted(lengths)))} entries are given, expected source "
            "and target, and a weight for all or for none"
        )
    numbers, kept = number_names(name for row in rows for name in row[:2])
    index = np.array([[numbers[row[0]], numbers[row[1]]] for row in rows], np.int64).reshape(-1, 2)
    weight = np.array([row[2] for row in rows], np.float32) if lengths == {3} else None
    found = {"edge_index": index.T, "num_nodes": len(numbers), "edge_weight": weight}
    return found, kept


def from_networkx(graph: Any, weight: str | None) -> tuple[dict[str, Any], dict[str, Array]]:
    """Nodes and edges of a networkx graph; an undirected edge is stored in both directions.

    Raises:
        InputError: it is not a graph of networkx, or an edge has no such weight.
    """
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
        raise InputError(f"a {type(graph).__name__} is given, expected a graph of networkx")
    numbers, kept = number_names(graph.nodes)
    source, target, values = [], [], []
    for left, right, facts in graph.edges(data=True):
        source.append(numbers[left])
        target.append(numbers[right])
        if weight is not None:
            values.append(_weight(facts, weight, left, right))
    if not graph.is_directed():
        both = [k for k in range(len(source)) if source[k] != target[k]]
        source, target = (
            source + [target[k] for k in both],
            target + [source[k] for k in both],
        )
        values += [values[k] for k in both] if weight is not None else []
    index = np.array([source, target], np.int64).reshape(2, -1)
    kept_weight = None if weight is None else np.array(values, np.float32)
    return {"edge_index": index, "num_nodes": len(numbers), "edge_weight": kept_weight}, kept


def _weight(facts: Mapping[str, Any], name: str, left: Any, right: Any) -> float:
    if name not in facts:
        raise InputError(
            f"the edge from {left!r:.60} to {right!r:.60} has no {name!r:.60}; leave weight "
            "out, or give it to every edge"
        )
    return float(facts[name])
