"""one_batch: the batch of given nodes at once: no thread, no epoch, nothing made ahead.

It equals, bit for bit, the first batch of a loader of these nodes, in order, whatever the storage.
Rows that are not in memory are read from their file, checked, and not kept.
"""

from typing import Any

import numpy as np

from foregather.graph.mapped import is_mapped
from foregather.loader.batch_recipe import BatchRecipe
from foregather.sampling.disk import DiskTopology

__all__ = ["one_batch"]


def one_batch(recipe: BatchRecipe, epoch: int, topology: DiskTopology | None = None) -> Any:
    """Makes batch 0 of an epoch.

    Args:
        recipe: its seeds are the nodes, all in one batch.
        epoch: number of the epoch.
        topology: the neighbour lists on disk; None samples the graph of the recipe.
    """
    dealt = recipe.deal(epoch, 0, 1)
    (sample,) = recipe.sample(dealt, epoch, 0, topology)
    features, rows = recipe.graph.features, None
    if features is not None and is_mapped(features.data):
        from torch import from_numpy

        found = features[sample.node.astype(np.int64)]
        rows = from_numpy(np.ascontiguousarray(found.astype(found.dtype.newbyteorder("="))))
    return recipe.finish(recipe.assembler.batch(sample, *dealt[0], rows))
