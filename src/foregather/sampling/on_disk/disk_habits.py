"""disk_habits: usual numbers of a topology on disk: blocks, reads in flight, bytes of trees."""

from foregather.graph.on_disk.npy import ALIGN
from foregather.observe.calibration import Calibration
from foregather.sampling.bulk import Bulk

__all__ = ["default_block", "measured_depth", "tree_bytes"]

MOST_BLOCKS = 1 << 22  # tables take 5 bytes per block, and a plan scans all of them
DEPTH = 64
TREE_BYTES = 1024  # of a tree beside its arrays (csrc/sampling/on_disk/disk_sample.hpp)


def default_block(size: int) -> int:
    """Bytes of a block of a file of this size."""
    block = ALIGN
    while size > block * MOST_BLOCKS and block < 1 << 20:
        block *= 2
    return block


def measured_depth(measured: Calibration | None, block: int) -> int:
    """Reads in flight: as the disk's calibration says for blocks of this size, or the usual."""
    if measured is None:
        return DEPTH
    return min(measured.rates, key=lambda rate: abs(rate.block_bytes - block)).depth


def tree_bytes(made: Bulk) -> int:
    """Bytes held besides while minibatches of trees are sampled: a copy, and of each tree."""
    trees = sum(sample.num_seeds for sample in made if sample.tree is not None)
    return (made.nbytes * 5 // 4 + trees * TREE_BYTES) if trees else 0
