"""disk: samples from a topology that stays on disk, with the same bits as from memory.

Which edges a uniform `Neighbor` picks depends on keys and degrees alone. So a `DiskTopology` keeps
a compact index of degrees in memory, draws the positions of all picks of a layer for all
minibatches of a bulk, and then reads the blocks that hold them in one ordered pass, each compared
with its checksum. Other samplers look at whole lists, which are read by plan too (`on_disk`). It is
an executor: it has state (a cache, open files), `close()`, and works in `with`.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError, InputError, StorageError
from foregather.files import open_regular
from foregather.graph.graph import Graph
from foregather.graph.integrity.blocks import array_sums
from foregather.graph.mapped import fetch
from foregather.graph.on_disk.meta import read_meta
from foregather.graph.on_disk.npy import ALIGN, file_bytes, read_file_header
from foregather.observe.buffer import aligned_buffer
from foregather.observe.calibration import load_calibration
from foregather.sampling.bulk import Bulk, to_samples
from foregather.sampling.fused import check_trees
from foregather.sampling.hot import best_rows, count_named
from foregather.sampling.joined_trees import TreeSeeds
from foregather.sampling.links.excluded import Entries, Excluded
from foregather.sampling.neighbor import Neighbor
from foregather.sampling.on_disk.disk_habits import default_block, measured_depth
from foregather.sampling.on_disk.list_topology import ListTopology, why_not_lists
from foregather.sampling.sampler import Sampler
from foregather.sampling.seeds import flatten
from foregather.units import parse_size

__all__ = ["DiskTopology", "reads_by_position", "reads_from_disk"]

Array = npt.NDArray[Any]
Kernel = _core.DiskKernel32 | _core.DiskKernel64

LADDER = ("io_uring", "pread", "buffered")
GAP = 24 << 10  # if the disk was not measured: bandwidth / requests per second of a typical one
HOT = 0.9  # of the cache; all of it read least on a synthetic graph, and some is left to blocks
STEP = 4 << 20  # rows of indptr read together
UNIFORM = {"num_neighbors", "replace", "expand"}


class DiskTopology:
    """Samples minibatches of a graph folder whose edges stay on disk.

    Args:
        graph: a graph opened from a folder, or the folder. Only its topology is used.
        memory: the budget for everything this object holds, cache included. Sampled bulks belong to
            the caller, as with every sampler.
        backend: "io_uring", "pread" or "buffered"; None means the first that works.
        depth: reads in flight; None means the value from the disk's calibration, or 64.
        block: bytes of a block, a power of two from 4096; None means 4096, more for files of
            more than 16 GiB.
        gap: needed blocks at most this many bytes apart are read by one request; None means the
            break-even of the calibration, or 24 KiB.
        hot: part of the cache, from 0 to 1, that holds whole lists of the rows that are picked from
            most (see `hot`), for which the first bulk reads the file once; the rest holds blocks.

    Raises:
        InputError: the graph is not in a folder, or an option is invalid.
        BudgetError: `memory` is too small; the message states the minimum.
        FormatError: the folder is damaged.
        StorageError: a file cannot be read.
    """

    def __init__(
        self,
        graph: Graph | str | os.PathLike[str],
        memory: str | int = "1GB",
        *,
        backend: str | None = None,
        depth: int | None = None,
        block: int | None = None,
        gap: int | None = None,
        hot: float = HOT,
    ) -> None:
        if not 0 <= hot <= 1:
            raise InputError(f"hot is {hot}, expected a part of the cache from 0 to 1")
        self.graph = graph if isinstance(graph, Graph) else Graph.open(graph)
        if self.graph.path is None:
            raise InputError(
                "this graph is in memory, expected one that was opened from a folder; "
                "save it first, or sample it in memory"
            )
        self._name = read_meta(self.graph.path).arrays["indices"].file
        self._path = self.graph.path / self._name
        size, self._identity = self._inspect()
        measured = load_calibration(self.graph.path)
        block = default_block(size) if block is None else block
        depth = measured_depth(measured, block) if depth is None else depth
        gap = (measured.break_even_bytes if measured else GAP) if gap is None else gap
        backend = self._first_backend(depth) if backend is None else backend
        self._memory, self._size, self._hot = parse_size(memory), size, hot
        self.backend, self.depth, self.block, self.gap = backend, depth, block, gap
        self._lists: ListTopology | None = None  # while it has the memory instead of the kernel
        self._closed = False
        self._kernel: Kernel | None = None
        self._make_kernel()

    def _make_kernel(self) -> Kernel:
        """The kernel of uniform picks, which has all of the memory then."""
        if self._lists is not None:
            self._lists.close()
            self._lists = None
        kernel = _core.disk_kernel(
            np.empty(0, self.graph.indices.dtype),
            str(self._path),
            self.backend,
            self.depth,
            self._name,
            self.graph.num_nodes,
            self.graph.num_edges,
            ALIGN,
            self._size,
            self.block,
            self.gap,
            self._memory,
            array_sums(self.graph, "indices"),
            int(100 * self._hot),
        )
        self._fill_index(kernel)
        self._kernel, self._scanned = kernel, 0
        self._hot_room = int(kernel.shares()["hot"])  # 0 where counting would take too much of it
        return kernel

    def _make_lists(self) -> ListTopology:
        """What reads whole lists, which has all of the memory then."""
        if self._lists is None:
            self._kernel = None
            ways = (self.backend, self.depth, self.gap)
            self._lists = ListTopology(self.graph, self._memory, ways, self._hot, self.block)
        return self._lists

    def sample_bulk(
        self,
        sampler: Sampler,
        seeds: Sequence[Array],
        *,
        seed: int,
        epoch: int = 0,
        first_batch: int = 0,
        threads: int = 0,
        exclude: Excluded | None = None,
    ) -> Bulk:
        """Returns the same bulk as `sampler.sample_bulk(graph, seeds, ...)`, bit for bit.

        Args:
            sampler: one that `reads_from_disk`: of a uniform `Neighbor` only the blocks with picks
                are read, of the others whole neighbour lists.
            seeds: as in `Sampler.sample_bulk`, like the options below.
            seed: seed of the run.
            epoch: number of the epoch.
            first_batch: number of the first of these minibatches in the epoch.
            threads: threads to use, 0 for all; one more reads.
            exclude: edges that the minibatches leave out, by their two ends, before anything is
                drawn. Their places are looked for first, in one more pass over the blocks of their
                rows (a few if rows are longer than a block). Not for samplers by weight.

        Raises:
            InputError: the sampler needs its topology in memory, or a seed is not a node.
            BudgetError: a minibatch is too large for the budget; the message states the minimum.
            StorageError: the file changed since it was opened, or cannot be read.
            FormatError: a block that was read does not match its checksum, or the file names a
                node that does not exist.
        """
        self._check_open()
        if not reads_by_position(sampler):
            keys = (seed, epoch, first_batch, threads)
            return self._make_lists().sample_bulk(sampler, seeds, *keys, exclude)
        assert isinstance(sampler, Neighbor)
        rule, kernel = sampler, self._kernel or self._make_kernel()
        flat, ptr = flatten(seeds)
        entries: Entries | None = None
        if exclude is not None:
            ends = exclude.by_ends(self.graph.num_nodes, len(seeds), "a topology on disk")
            entries = (*ends, None, None, True)
        self._check_unchanged()
        self._hold(kernel, rule)
        made = kernel.sample(
            list(rule.num_neighbors),
            rule.replace,
            rule.expand == "once",
            flat,
            ptr,
            seed,
            epoch,
            first_batch,
            threads,
            entries,
        )
        self._check_unchanged()  # all bytes were read from the same file
        return Bulk(to_samples(made, first_batch, rule.expand), seed, epoch, first_batch)

    def sample_trees(
        self,
        sampler: Sampler,
        seeds: Sequence[Array],
        rows: Sequence[Array],
        *,
        seed: int,
        epoch: int = 0,
        first_batch: int = 0,
        threads: int = 0,
        exclude: Excluded | None = None,
    ) -> Bulk:
        """Returns the bulk of `FusedSampler.sample_trees(graph, seeds, rows, ...)`, bit for bit.

        All trees of the bulk are sampled at once, each as a minibatch of its own, and then joined:
        `on_disk.disk_habits.tree_bytes` says what is held besides.

        Args:
            sampler: a `Neighbor` or `Labor` that expands once.
            seeds: as in `sample_bulk`, like the options.
            rows: for each seed, the number (0 or more) that its tree is keyed by.
            seed: seed of the run.
            epoch: number of the epoch.
            first_batch: number of the first of these minibatches; no sample depends on it.
            threads: threads to use, 0 for all; one more reads.
            exclude: edges that single trees leave out, by their two ends.

        Raises:
            InputError: see `FusedSampler.sample_trees`.
            BudgetError, StorageError, FormatError: see `sample_bulk`.
        """
        self._check_open()
        rule = check_trees(sampler)
        trees = TreeSeeds.of(seeds, rows)
        if exclude is not None:
            place = (self.graph.num_nodes, "a topology on disk")
            exclude = exclude.one_by_one(np.diff(trees.ptr), *place)
        if not reads_by_position(rule):
            keys = (seed, epoch, first_batch, threads)
            return self._make_lists().sample_trees(rule, trees, *keys, exclude)
        assert isinstance(rule, Neighbor)
        kernel = self._kernel or self._make_kernel()
        entries: Entries | None = None
        if exclude is not None:
            entries = (exclude.ptr, exclude.target, exclude.source, None, None, True)
        self._check_unchanged()
        self._hold(kernel, rule)
        made = kernel.sample_trees(
            list(rule.num_neighbors),
            rule.replace,
            trees.flat,
            trees.keys,
            trees.ptr,
            seed,
            epoch,
            threads,
            entries,
        )
        self._check_unchanged()  # all bytes were read from the same file
        return Bulk(to_samples(made, first_batch, rule.expand), seed, epoch, first_batch)

    def _hold(self, kernel: Kernel, rule: Neighbor) -> None:
        """Holds the lists that are worth it, before the first bulk, whose fan-outs say which."""
        if not self._hot_room:
            return
        room, self._hot_room = self._hot_room, 0
        fanout = -1 if min(rule.num_neighbors) < 0 else max(rule.num_neighbors)
        named = count_named(self.graph)
        self._scanned = int(self.graph.indices.nbytes)
        kernel.hold(best_rows(self.graph, named, fanout, room, self.block))

    def counters(self) -> dict[str, Any]:
        """Returns the counters so far.

        picks (= hits + misses), passes over the file, blocks needed and block_hits, requests and
        bytes read, planned_requests and planned_bytes, and seconds by phase; "read" overlaps with
        the others, "wait" is the part of it that was not overlapped. Of the hits, hot_hits came
        from lists that are held whole: hot_rows of them, hot_held bytes, read once as hot_bytes; to
        choose them, hot_scanned bytes of the file were looked at once. Where whole lists are read,
        picks are the entries looked at and passes the calls; a change from one kind to the other
        begins anew.
        """
        self._check_open()
        if self._lists is not None:
            return self._lists.counters()
        kernel = self._kernel or self._make_kernel()
        return {**kernel.counters(), "hot_scanned": self._scanned}

    def shares(self) -> dict[str, int]:
        """How the budget is divided, in bytes; "least" is the smallest budget that works."""
        self._check_open()
        if self._lists is not None:
            return self._lists.shares()
        return dict((self._kernel or self._make_kernel()).shares())

    def close(self) -> None:
        """Closes the file and frees the memory; closing twice is allowed."""
        self._kernel, self._closed = None, True
        if self._lists is not None:
            self._lists.close()
            self._lists = None

    def __enter__(self) -> "DiskTopology":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise InputError("this DiskTopology is closed; open another one")

    def _inspect(self) -> tuple[int, tuple[int, ...]]:
        """Checks the file's header against the graph; returns its size and identity."""
        try:
            with open_regular(self._path) as file:
                header = read_file_header(file, self._name)
                facts = os.fstat(file.fileno())
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(f"cannot open {self._name}: {error.strerror}") from error
        known = self.graph.indices
        expected = file_bytes(header.nbytes)
        if (
            header.dtype != known.dtype
            or header.shape != known.shape
            or header.offset != ALIGN
            or facts.st_size != expected
        ):
            raise FormatError(
                f"{self._name} holds {header.dtype} of shape {list(header.shape)} in "
                f"{facts.st_size} bytes, expected {known.dtype} of shape {list(known.shape)} in "
                f"{file_bytes(known.nbytes)}; open the graph again"
            )
        return expected, _identity(facts)

    def _check_unchanged(self) -> None:
        try:
            now = _identity(os.stat(self._path))
        except OSError as error:
            raise StorageError(f"{self._name} was removed: {error.strerror}") from error
        if now != self._identity:
            raise StorageError(
                f"{self._name} was replaced or written to since it was opened; "
                "open the topology again"
            )

    def _first_backend(self, depth: int) -> str:
        """Returns the best backend that can read this file."""
        page = aligned_buffer(ALIGN)
        none, one = np.zeros(1, np.int64), np.full(1, ALIGN, np.int64)
        for name in LADDER[:-1]:
            try:
                reader = _core.BlockReader(str(self._path), name, depth, self._name)
                if ALIGN % reader.alignment:
                    continue
                reader.read(none, one, none, page)
                return name
            except StorageError:
                continue
        return LADDER[-1]

    def _fill_index(self, kernel: Kernel) -> None:
        rows = self.graph.indptr
        for start in range(1, len(rows), STEP):
            kernel.append(np.ascontiguousarray(fetch(rows[start : start + STEP])))
        kernel.finish()


def _identity(facts: os.stat_result) -> tuple[int, ...]:
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)


def reads_by_position(sampler: Sampler) -> bool:
    """Whether a sampler's picks depend on keys and degrees alone, so only what is picked is read.

    Such a sampler is a `Neighbor` without weights.
    """
    if type(sampler) is not Neighbor:
        return False
    return all(
        getattr(sampler, option.name) is None or getattr(sampler, option.name) == option.default
        for option in dataclasses.fields(sampler)
        if option.init and option.name not in UNIFORM
    )


def reads_from_disk(sampler: Sampler, leaves_out: bool = False) -> bool:
    """Whether a sampler can sample a topology on disk.

    Args:
        sampler: any sampler.
        leaves_out: whether its minibatches leave out edges.
    """
    return reads_by_position(sampler) or why_not_lists(sampler, leaves_out) is None
