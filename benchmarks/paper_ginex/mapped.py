"""mapped: batches as systems on memory maps make them: PyG's sampler, and four ways to its rows.

`PyG+` is PyG's own loader over maps of the edges and the features. With a neighbour cache, the
lists with the best scores are locked in memory: they are the first of a file whose nodes are
renumbered by score, so that the sampler itself stays as it is. Feature caches are in front of the
map: rows chosen once by how many lists name them (PaGraph's rule), or the last ones used.
"""

import ctypes
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from beside.mapped_worker import mapped_rows
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader

from foregather import _core
from foregather.gather.feature_file import FeatureFile

__all__ = [
    "LIBRARY",
    "Locked",
    "Made",
    "by_graphbolt",
    "by_lru",
    "by_map",
    "by_static",
    "mapped_rows",
    "sample",
]

LIBRARY = "FOREGATHER_GRAPHBOLT_DISK"  # compiled from graphbolt/src/cnumpy.cc of DGL
THREADS = 64  # that fault pages of feature rows in
NONE = 2**32 - 1
Gather = Callable[[torch.Tensor], torch.Tensor]


@dataclass
class Made:
    """A batch: ids are those of the graph's own files; `x` is None where rows come later."""

    n_id: torch.Tensor
    edge_index: torch.Tensor
    nodes: list[int]
    edges: list[int]
    seeds: int
    x: torch.Tensor | None = None


class Locked:
    """The first bytes of a mapped array, held in memory until they are let go."""

    def __init__(self, array: torch.Tensor, size: int) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._at, self.size = array.data_ptr(), min(size, array.numel() * array.element_size())
        if self._libc.mlock(ctypes.c_void_p(self._at), ctypes.c_size_t(self.size)):
            raise OSError(ctypes.get_errno(), "the neighbour cache cannot be locked in memory")

    def free(self) -> None:
        """Ginex's switch: the memory is the feature cache's now."""
        start = -(-self._at // 4096) * 4096
        size = ctypes.c_size_t(max(0, self.size - 8192))
        self._libc.munlock(ctypes.c_void_p(start), size)
        self._libc.madvise(ctypes.c_void_p(start), size, 4)  # MADV_DONTNEED


def sample(
    folder: Path, seeds: list[Any], fanout: list[int], *, workers: int = 0, lists: int = 0,
    x: torch.Tensor | None = None,
) -> Iterator[Made]:  # fmt: skip
    """Batches of PyG's NeighborLoader; `lists` bytes of neighbour lists are held in memory."""
    edges = mapped_rows(folder / ("edges_by_score.npy" if lists else "edges.npy"), "random")
    original = torch.from_numpy(np.load(folder / "original.npy")) if lists else None
    count = len(np.load(folder / "original.npy", mmap_mode="r"))
    held = Locked(edges[0], lists) if lists else None
    given = torch.from_numpy(np.concatenate(seeds))
    if original is not None:
        place = torch.empty_like(original)
        place[original] = torch.arange(count)
        given = place[given]
        del place
    loader = NeighborLoader(
        Data(edge_index=edges, num_nodes=count, x=x),
        fanout,
        input_nodes=given,
        batch_size=len(seeds[0]),
        is_sorted=True,
        num_workers=workers,
    )
    try:
        for batch in loader:
            n_id = batch.n_id if original is None else original[batch.n_id]
            sizes = (list(batch.num_sampled_nodes), list(batch.num_sampled_edges))
            rows = batch.x if x is not None else None
            yield Made(n_id, batch.edge_index, *sizes, batch.batch_size, rows)
    finally:
        if held is not None:
            held.free()


def by_map(x: torch.Tensor, threads: int = THREADS) -> Gather:
    """Torch's own gather, so many page faults at a time."""

    def gather(ids: torch.Tensor) -> torch.Tensor:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        made = x.index_select(0, ids)
        torch.set_num_threads(before)
        return made

    return gather


def by_static(x: torch.Tensor, hot: Any) -> Gather:
    """Rows that were chosen once are in memory; others come from the map."""
    read = by_map(x)
    ids = torch.from_numpy(np.ascontiguousarray(hot, np.int64))
    held = read(ids)
    slot = torch.full((len(x),), -1, dtype=torch.int32)
    slot[ids] = torch.arange(len(ids), dtype=torch.int32)

    def gather(wanted: torch.Tensor) -> torch.Tensor:
        out = torch.empty(len(wanted), x.shape[1])
        at = slot[wanted]
        hit = at >= 0
        out[hit] = held[at[hit].long()]
        out[~hit] = read(wanted[~hit])
        return out

    return gather


def by_lru(x: torch.Tensor, geometry: _core.Geometry, slots: int) -> Gather:
    """The rows used last are in memory; others come from the map."""
    return behind("lru", by_map(x), geometry, slots, x.shape[1])


def by_graphbolt(file: FeatureFile, slots: int) -> Gather:
    """GraphBolt's reader of rows on disk, behind SIEVE, the policy of its cache.

    Raises:
        SystemExit: no library has it.
    """
    path = os.environ.get(LIBRARY)
    if not path:
        raise SystemExit(f"set {LIBRARY} to a library with graphbolt::ondisk_npy_array")
    torch.ops.load_library(path)
    shape = [file.num_rows, file.width]
    held = torch.ops.graphbolt.ondisk_npy_array(str(file.path), torch.float32, shape, None)

    def read(ids: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = held.index_select(ids).wait()
        return made

    some = torch.arange(0, file.num_rows, max(1, file.num_rows // 100))
    known = mapped_rows(file.path, "random").index_select(0, some)
    assert torch.equal(read(some), known), "GraphBolt's reader gives other rows"
    return behind("sieve", read, file.geometry(), slots, file.width)


def behind(name: str, read: Gather, geometry: _core.Geometry, slots: int, width: int) -> Gather:
    """An online cache before a reader; its contents are planned batch by batch."""
    planner = _core.OnlinePlanner(
        geometry, slots, name, np.empty(0, np.uint32), single=True, bounds=False
    )
    held = torch.zeros(slots, width)

    def gather(wanted: torch.Tensor) -> torch.Tensor:
        plan = planner.plan([wanted.numpy().astype(np.uint32)])
        out = torch.empty(len(wanted), width)
        out[longs(plan.hit_position)] = held[longs(plan.hit_slot)]
        rows = read(longs(plan.copy_row))
        out[longs(plan.copy_position)] = rows
        kept = np.flatnonzero(plan.copy_slot != NONE)
        held[longs(plan.copy_slot[kept])] = rows[torch.from_numpy(kept)]
        return out

    return gather


def longs(values: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values).astype(np.int64))
