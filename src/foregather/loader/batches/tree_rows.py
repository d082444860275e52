"""tree_rows: the nodes whose rows a batch asks for, each once.

Disjoint trees share nodes, and a row crosses a disk or a wire once: plans are made for the distinct
nodes of a batch, whose rows are then repeated for the trees that have them.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["distinct_nodes"]


def distinct_nodes(sample: Any) -> npt.NDArray[Any]:
    """The nodes of a sample, each once: in ascending order if it is of trees, else as they are.

    Ids of nodes are returned as they were given.
    """
    nodes: npt.NDArray[Any] = getattr(sample, "node", sample)
    return nodes if getattr(sample, "tree", None) is None else np.unique(nodes)
