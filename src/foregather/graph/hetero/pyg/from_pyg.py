"""from_pyg: the tables and relations of a PyG `HeteroData`, or of a `Data` as one type.

PyG itself is not needed: any object with the same attributes will do. Numbers are taken as they
are, without a copy where possible. What a typed graph cannot hold is named in one warning.
"""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from foregather.errors import InputError
from foregather.graph.arrays import to_array
from foregather.graph.hetero.names import (
    PLAIN_RELATION,
    PLAIN_TYPE,
    EdgeType,
    about,
    check_edge_type,
    find_node_type,
    show_edge_type,
)
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.relation import Relation
from foregather.graph.links.from_pyg import LINK_KEYS, OTHER_KEYS, links_from_pyg
from foregather.graph.links.links import Links

__all__ = ["parts_from_pyg"]

_SPLITS = {
    f"{name}_{form}": name for name in ("train", "val", "valid", "test") for form in ("mask", "idx")
}
_EDGE_KEYS = ("edge_attr", "edge_weight", "time")

Lists = dict[EdgeType, dict[str, Links]]
Parts = tuple[dict[str, NodeTable], dict[EdgeType, Relation], Lists]


def parts_from_pyg(data: Any, threads: int, links: str | None = None) -> Parts:
    """The tables, relations and links of the data; see `HeteroGraph.from_pyg`."""
    left: list[str] = []
    if hasattr(type(data), "node_types"):
        found = _from_hetero(data, threads, left, links)
    elif hasattr(data, "edge_index") or hasattr(data, "num_nodes"):
        found = _from_plain(data, threads, left, links)
    else:
        raise InputError(
            f"the data is a {type(data).__name__}, expected a HeteroData or a Data of PyG"
        )
    if left:
        more = f" and {len(left) - 8} more" if len(left) > 8 else ""
        warnings.warn(
            f"a typed graph cannot hold {', '.join(left[:8])}{more}; look them up by n_id or e_id "
            "of a batch",
            stacklevel=3,
        )
    return found


def _from_hetero(data: Any, threads: int, left: list[str], links: str | None) -> Parts:
    nodes, lists = {}, Lists()
    for name in data.node_types:
        with about(f"node type {name!r}"):
            nodes[name] = _table(dict(data[name].items()), _num_nodes(data[name]), name, left)
    edges: dict[EdgeType, Relation] = {}
    for edge_type in data.edge_types:
        shown = show_edge_type(check_edge_type(edge_type))
        with about(f"relation {shown}"):
            for end in (edge_type[0], edge_type[2]):
                find_node_type(end, nodes)
            ends = (nodes[edge_type[0]].num_nodes, nodes[edge_type[2]].num_nodes)
            own = dict(data[edge_type].items())
            if links is not None and (found := links_from_pyg(own, *ends)) is not None:
                lists[edge_type] = {links: found}
            edges[edge_type] = _relation(own, *ends, shown, left, threads)
    store = getattr(data, "_global_store", None)
    left += [str(key) for key in ([] if store is None else store.keys())]
    return nodes, edges, lists


def _from_plain(data: Any, threads: int, left: list[str], links: str | None) -> Parts:
    """The one type and relation of a `Data`, whose attributes of nodes and edges are together."""
    keys = list(data.keys()) if hasattr(data, "keys") else [*vars(data)]
    edge_keys = {"edge_index", "adj_t", "adj", "edge_attr", "edge_weight", *LINK_KEYS, *OTHER_KEYS}
    with warnings.catch_warnings():  # PyG warns when it has to guess
        warnings.simplefilter("ignore")
        if hasattr(data, "is_edge_attr"):
            edge_keys |= {key for key in keys if data.is_edge_attr(key)}
    own = {key: getattr(data, key) for key in keys}
    nodes = _table(
        {key: value for key, value in own.items() if key not in edge_keys},
        _num_nodes(data),
        "",
        left,
    )
    edges = _relation(
        {key: value for key, value in own.items() if key in edge_keys},
        nodes.num_nodes,
        nodes.num_nodes,
        "",
        left,
        threads,
    )
    found = None if links is None else links_from_pyg(own, *[nodes.num_nodes] * 2)
    lists = {} if found is None or links is None else {PLAIN_RELATION: {links: found}}
    return {PLAIN_TYPE: nodes}, {PLAIN_RELATION: edges}, lists


def _num_nodes(store: Any) -> int:
    with warnings.catch_warnings():  # PyG warns when it has to guess
        warnings.simplefilter("ignore")
        count = getattr(store, "num_nodes", None)
    if count is None:
        raise InputError("it is not known how many nodes there are; set num_nodes")
    return int(count)


def _table(store: Mapping[str, Any], count: int, of: str, left: list[str]) -> NodeTable:
    features, splits = {}, {}
    for key, value in store.items():
        if key in ("num_nodes", "y", "time") or value is None:
            continue
        if key in _SPLITS:
            name = _SPLITS[key]
            if name in splits:
                raise InputError(
                    f"{name}_mask and {name}_idx both define the split {name}; leave one of them "
                    "out"
                )
            splits[name] = _split(key, value)
        elif _has_rows(value, count):
            features[key] = value
        elif key == "x":
            raise InputError(
                f"x has shape {list(getattr(value, 'shape', []))}, expected {count} rows, one per "
                "node"
            )
        else:
            left.append(f"{of}.{key}" if of else key)
    return NodeTable.of(
        count, features, labels=store.get("y"), time=store.get("time"), splits=splits
    )


def _has_rows(value: Any, count: int) -> bool:
    """Whether this is an array or tensor of `count` rows."""
    shape = getattr(value, "shape", None)
    return hasattr(value, "dtype") and shape is not None and len(shape) > 0 and shape[0] == count


def _split(key: str, value: Any) -> Any:
    array = to_array(value, key)
    if array.ndim != 1:
        raise InputError(
            f"{key} has shape {list(array.shape)}, expected one split; choose one, for example "
            f"{key}[:, 0]"
        )
    return array


def _relation(
    store: Mapping[str, Any],
    num_sources: int,
    num_targets: int,
    of: str,
    left: list[str],
    threads: int,
) -> Relation:
    if store.get("edge_index") is None:
        there = next((key for key in ("adj_t", "adj") if store.get(key) is not None), None)
        if there is not None:
            raise InputError(
                f"its edges are in {there}, expected edge_index [2, edges]; convert them, for "
                "example with torch_geometric.utils.to_edge_index"
            )
        raise InputError("it has no edge_index; set one of shape [2, edges]")
    left += _others(store, of)
    return Relation.of(
        store["edge_index"],
        num_sources,
        num_targets,
        time=store.get("time"),
        weights=store.get("edge_weight"),
        features=store.get("edge_attr"),
        threads=threads,
    )


def _others(store: Mapping[str, Any], of: str) -> Iterable[str]:
    for key, value in store.items():
        known = ("edge_index", *_EDGE_KEYS, *LINK_KEYS, *OTHER_KEYS)
        if key not in known and value is not None:
            yield f"{of}.{key}" if of else key
