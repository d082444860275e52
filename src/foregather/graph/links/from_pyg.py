"""from_pyg: the links of a PyG `Data` or of a relation of a `HeteroData`, as PyG names them.

`edge_label` of zeros and ones is that of PyG's RandomLinkSplit: ones are links, zeros are pairs
that are none. Other labels are kept as labels.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from foregather.errors import InputError
from foregather.graph.arrays import to_array
from foregather.graph.links.links import Links

__all__ = ["LINK_KEYS", "OTHER_KEYS", "links_from_pyg"]

LINK_KEYS = ("edge_label_index", "edge_label", "edge_label_time")
#: What RandomLinkSplit calls links and negatives where it keeps them apart.
OTHER_KEYS = (
    "pos_edge_label_index",
    "pos_edge_label",
    "neg_edge_label_index",
    "neg_edge_label",
)


def links_from_pyg(store: Mapping[str, Any], num_sources: int, num_targets: int) -> Links | None:
    """The links of a store; None where it has none.

    Raises:
        InputError: labels or times without links, shapes that do not fit, ids that are no nodes, or
            no link at all.
    """
    found = {name: store.get(name) for name in (*LINK_KEYS, *OTHER_KEYS)}
    apart = found["pos_edge_label_index"], found["neg_edge_label_index"]
    if found["edge_label_index"] is None:
        if apart[0] is not None:
            index, negatives = apart
            return Links.of(index, num_sources, num_targets, negatives=negatives)
        odd = next((name for name, value in found.items() if value is not None), None)
        if odd is not None:
            raise InputError(
                f"the data has {odd}, but no edge_label_index that says of which links; set it, or "
                f"leave {odd} out"
            )
        return None
    index = to_array(found["edge_label_index"], "edge_label_index")
    columns: dict[str, Any] = {}
    for name, key in (("labels", "edge_label"), ("time", "edge_label_time")):
        if found[key] is not None:
            columns[name] = to_array(found[key], key)
            if index.ndim == 2 and columns[name].shape[:1] != index.shape[1:]:
                raise InputError(
                    f"{key} has {columns[name].shape[0] if columns[name].ndim else 0} rows, "
                    f"expected one for each of the {index.shape[1]} links of edge_label_index"
                )
    labels = columns.get("labels")
    if labels is not None and labels.ndim == 1 and bool(np.isin(labels, (0, 1)).all()):
        del columns["labels"]
        there = labels.astype(np.bool_)
        if not there.any():
            raise InputError(
                "edge_label is 0 for every pair of edge_label_index, so none of them is a link; "
                "pass the data whose links are to be kept"
            )
        if not there.all():
            columns = {name: values[there] for name, values in columns.items()}
            columns["negatives"] = index[:, ~there]
            index = index[:, there]
    return Links.of(index, num_sources, num_targets, **columns)
