"""build: the fields of a Graph in memory from edges in any order (an edge_index, or a PyG Data).

The result is one definite graph: rows by target, sources ascending, equal edges in input order,
whatever the number of threads. Edges are processed in this order: reverse edges are added, then
self-loops, then edges are sorted and duplicates removed, keeping the first.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.arrays import id_dtype, to_array
from foregather.graph.features import Features
from foregather.graph.labels import normalize_labels, normalize_split
from foregather.graph.links.from_pyg import LINK_KEYS, OTHER_KEYS, links_from_pyg

__all__ = ["edge_array", "fields_from_edges", "fields_from_pyg", "finite_weights"]

Array = npt.NDArray[Any]

_SPLIT_NAMES = ("train", "val", "valid", "test")


def fields_from_edges(
    edge_index: Any,
    num_nodes: int | None,
    columns: Mapping[str, Any],
    splits: Mapping[str, Any],
    *,
    undirected: bool,
    self_loops: bool,
    dedup: bool,
    threads: int,
) -> dict[str, Any]:
    """The fields of `Graph.from_edge_index`. `columns` are x, y, edge_weight, edge_attr."""
    given = {name: to_array(value, name) for name, value in columns.items() if value is not None}
    pairs = edge_array(edge_index)
    count = pairs.shape[1]
    nodes = _count_nodes(pairs, num_nodes, given)
    source, target = _narrow(pairs, nodes)
    ways = 2 if undirected else 1
    if undirected:
        # An edge and its reverse are adjacent, as in the converter, so that both keep the same one
        # of two equal edges.
        pair = np.stack([source, target], axis=1)
        source = pair.reshape(-1)
        target = np.ascontiguousarray(pair[:, ::-1]).reshape(-1)
    drawn = source.size
    if self_loops:
        loops = _missing_loops(source, target, nodes)
        source, target = np.concatenate([source, loops]), np.concatenate([target, loops])
    indptr, indices, order = _sort(source, target, nodes, dedup or undirected, threads)
    # order names positions among edges, their reverses and added loops; edge_ids the caller's
    edge_ids = np.where(order < drawn, order // ways, -1)
    features = None if "x" not in given else Features(_matrix(given["x"]))
    facts: dict[str, Any] = {
        "duplicates": "removed" if dedup or undirected else "kept",
        "self_loops": "added" if self_loops else "kept",
        "undirected": True if undirected else None,
        "provenance": {"source": "edge_index"},
    }
    if features is not None:
        facts["features"] = {"width": features.width, "dtype": features.dtype.name}
    labels = None
    if "y" in given:
        labels, facts["labels"] = normalize_labels(given["y"], nodes)
    return {
        "num_nodes": nodes,
        "num_edges": int(indices.size),
        "indptr": indptr,
        "indices": indices,
        "features": features,
        "edge_weight": _edge_weight(given.get("edge_weight"), count, edge_ids),
        "edge_features": _edge_features(given.get("edge_attr"), count, edge_ids),
        "labels": labels,
        "splits": {
            name: normalize_split(name, to_array(ids, f"split {name}"), nodes)
            for name, ids in splits.items()
        },
        "edge_ids": edge_ids,
        "meta": facts,
    }


def edge_array(edge_index: Any) -> Array:
    """An edge_index as an array of whole numbers, [2, edges].

    Raises:
        InputError: it has another shape, or holds something else.
    """
    pairs = to_array(edge_index, "edge_index")
    if pairs.size == 0 and pairs.shape[:1] in ((0,), (2,)):
        return np.empty((2, 0), np.int64)  # an empty tensor is float by default
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise InputError(
            f"edge_index has shape {list(pairs.shape)}, expected [2, edges]: "
            "row 0 the sources, row 1 the targets"
        )
    if pairs.dtype.kind not in "iu":
        raise InputError(
            f"edge_index holds {pairs.dtype}, expected whole numbers; NaN and fractions are not "
            "node ids, so convert the ids to int64 first"
        )
    return pairs


def _count_nodes(pairs: Array, num_nodes: int | None, given: Mapping[str, Array]) -> int:
    if num_nodes is not None:
        if isinstance(num_nodes, bool) or int(num_nodes) != num_nodes or num_nodes < 0:
            raise InputError(f"num_nodes is {num_nodes!r}, expected a count")
        return int(num_nodes)
    for name in ("x", "y"):
        if name in given and given[name].ndim:
            return int(given[name].shape[0])
    return 1 + int(pairs.max()) if pairs.size else 0


def _narrow(pairs: Array, nodes: int) -> tuple[Array, Array]:
    """Casts the two rows to the stored dtype, after checking that they cannot wrap around."""
    dtype = id_dtype(nodes)
    rows = [np.ascontiguousarray(row) for row in pairs]
    if rows[0].dtype != np.uint32:
        rows = [np.ascontiguousarray(row, dtype=np.int64) for row in rows]
    found = [(_core.check_ids(row, nodes), end) for end, row in enumerate(rows)]
    bad = min((item for item in found if item[0] >= 0), default=None)
    if bad is not None:
        edge, end = bad
        raise InputError(
            f"edge {edge} has {('source', 'target')[end]} {int(pairs[end, edge])}, but the "
            f"graph has {nodes} nodes (ids are 0 to N-1)"
        )
    return rows[0].astype(dtype, copy=False), rows[1].astype(dtype, copy=False)


def _missing_loops(source: Array, target: Array, nodes: int) -> Array:
    missing = np.ones(nodes, np.bool_)
    loops = source[source == target]
    missing[loops[loops < nodes]] = False  # ids out of range are named when the rows are built
    return np.flatnonzero(missing).astype(source.dtype)


def _sort(
    source: Array, target: Array, nodes: int, dedup: bool, threads: int
) -> tuple[npt.NDArray[np.int64], Array, npt.NDArray[np.int64]]:
    indptr = np.empty(nodes + 1, np.int64)
    indices = np.empty(source.size, source.dtype)
    order = np.empty(source.size, np.int64)
    _core.build_csc(source, target, nodes, indptr, indices, order, threads)
    if dedup:
        keep = np.empty(source.size, np.uint8)
        if _core.dedup_rows(indptr, indices, keep):
            kept = _core.compact_rows(indptr, indices, keep, indptr)
            indices, order = indices[:kept].copy(), order[keep.view(np.bool_)]
    return indptr, indices, order


def _matrix(values: Array) -> Array:
    return np.ascontiguousarray(values.reshape(-1, 1) if values.ndim == 1 else values)


def _edge_weight(
    weight: Array | None, count: int, edge_ids: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32] | None:
    if weight is None:
        return None
    # position -1, an added loop, is the 1
    return np.append(finite_weights(weight, count), np.float32(1))[edge_ids]


def finite_weights(weight: Array, count: int) -> npt.NDArray[np.float32]:
    """Edge weights as float32 [count].

    Raises:
        InputError: another number of them, or one that is not finite; names its position.
    """
    if weight.shape not in ((count,), (count, 1)):
        raise InputError(f"edge_weight has shape {list(weight.shape)}, expected [{count}]")
    with np.errstate(over="ignore"):  # found below, with its place
        flat = weight.reshape(-1).astype(np.float32)
    if not np.isfinite(flat).all():
        position = int(np.flatnonzero(~np.isfinite(flat))[0])
        raise InputError(
            f"edge_weight holds {weight.reshape(-1)[position]} at position {position}, expected "
            "finite numbers (of float32)"
        )
    return flat


def _edge_features(
    attr: Array | None, count: int, edge_ids: npt.NDArray[np.int64]
) -> Features | None:
    if attr is None:
        return None
    rows = _matrix(attr)
    if rows.shape[0] != count:
        raise InputError(f"edge_attr has {rows.shape[0]} rows, expected one for each of {count}")
    zero = np.zeros((1, *rows.shape[1:]), rows.dtype)
    if count == 0 or edge_ids.min(initial=0) < 0:
        rows = np.concatenate([rows, zero])
    return Features(rows[edge_ids])


def fields_from_pyg(data: Any, **options: Any) -> dict[str, Any]:
    """The fields of `Graph.from_pyg`."""
    if hasattr(type(data), "node_types") or hasattr(type(data), "edge_types"):
        raise InputError(
            "the data is heterogeneous (several node or edge types), expected one type of each; "
            "use HeteroGraph.from_pyg, or pass data.to_homogeneous()"
        )
    if getattr(data, "edge_index", None) is None:
        for name in ("adj_t", "adj"):
            if getattr(data, name, None) is not None:
                raise InputError(
                    f"the data has its edges in {name}, expected edge_index [2, edges]; convert "
                    "them, for example with torch_geometric.utils.to_edge_index"
                )
        raise InputError("the data has no edge_index; a Data with edge_index [2, edges] is needed")
    columns = {name: getattr(data, name, None) for name in ("x", "y", "edge_weight", "edge_attr")}
    with warnings.catch_warnings():  # PyG warns when it has to guess the number
        warnings.simplefilter("ignore")
        num_nodes = getattr(data, "num_nodes", None)
    _name_left_out(data)
    chosen = {"undirected": False, "self_loops": False, "dedup": False, "threads": 0, **options}
    name = chosen.pop("links", "train")
    made = fields_from_edges(data.edge_index, num_nodes, columns, _pyg_splits(data), **chosen)
    store = {key: getattr(data, key, None) for key in (*LINK_KEYS, *OTHER_KEYS)}
    links = None if name is None else links_from_pyg(store, *[made["num_nodes"]] * 2)
    return made if links is None else made | {"links": {name: links}}


def _name_left_out(data: Any) -> None:
    """Warns about attributes with one row per node or edge that a Graph cannot hold."""
    known = {"edge_index", "x", "y", "edge_weight", "edge_attr", "num_nodes", "adj", "adj_t"}
    known |= {*LINK_KEYS, *OTHER_KEYS}
    known |= {f"{name}_{suffix}" for name in _SPLIT_NAMES for suffix in ("mask", "idx")}
    is_node, is_edge = (getattr(data, name, None) for name in ("is_node_attr", "is_edge_attr"))
    if is_node is None or is_edge is None:  # not PyG's Data
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = sorted(data.keys())  # of a set
        names = [key for key in given if key not in known and (is_node(key) or is_edge(key))]
    if names:
        warnings.warn(
            f"a Graph cannot hold {', '.join(names)}; look them up by n_id or e_id of a batch, or "
            "loop with foregather.interop.pyg.NeighborLoader, whose batches have them",
            stacklevel=4,
        )


def _pyg_splits(data: Any) -> dict[str, Any]:
    splits: dict[str, Any] = {}
    for name in _SPLIT_NAMES:
        for suffix in ("mask", "idx"):
            value = getattr(data, f"{name}_{suffix}", None)
            if value is None:
                continue
            value = to_array(value, f"{name}_{suffix}")
            if value.ndim != 1:
                raise InputError(
                    f"{name}_{suffix} has shape {list(value.shape)}, expected one split; "
                    f"choose one, for example data.{name}_{suffix}[:, 0]"
                )
            if name in splits:
                raise InputError(
                    f"the data has {name}_mask and {name}_idx, which both define the split {name}; "
                    "leave one of them out"
                )
            splits[name] = value
    return splits
