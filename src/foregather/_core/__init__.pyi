"""foregather's C++ core; arrays in, arrays out, no torch."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, overload

import numpy
import numpy.typing
from numpy.typing import NDArray
from typing_extensions import CapsuleType

from foregather._core import testing as testing


def default_threads() -> int:
    """Hardware threads this process may use."""

def expect_leaks() -> None:
    """
    Says that threads will still run at the end of the process and keep what they hold.
    """

class EdgeLists:
    """Addresses of lists of edges, by target or by source."""

    def __init__(self, ptr: int, rows: int, index: int, edge: int, limit: int, wide: bool) -> None: ...

def lists_by_target(from_: int, to: int, edges: int, num_sources: int, num_targets: int, indptr: int, source: int, wide: bool, threads: int) -> None:
    """Checks edges that ascend by target and writes their lists."""

def lists_by_source(indptr: int, num_targets: int, source: int, edges: int, num_sources: int, ptr: int, edge: int, target: int, wide: bool, threads: int) -> None:
    """Writes the lists by source of edges whose lists by target are given."""

def sum_lists(lists: EdgeLists, number: int, x: int, heads: int, width: int, shared: bool, weight: int, sizes: int, mean: bool, out: int, threads: int) -> None:
    """Sums of the rows of x over lists, weighted and divided as asked."""

def edge_dots(lists: EdgeLists, number: int, x: int, heads: int, width: int, shared: bool, grad: int, mean: bool, winner: int, out: int, threads: int) -> None:
    """Products of the rows of x and grad at the two ends of each edge."""

def max_lists(lists: EdgeLists, number: int, x: int, width: int, weight: int, out: int, winner: int, threads: int) -> None:
    """The largest of the rows of x over lists, and which entry has it."""

def max_lists_gradient(lists: EdgeLists, number: int, grad: int, width: int, winner: int, first: int, weight: int, out: int, threads: int) -> None:
    """The gradient of x, from that of max_lists, over lists by source."""

def edge_softmax(ptr: int, rows: int, number: int, heads: int, z: int, y: int, threads: int) -> None:
    """Softmax over the edges of each target."""

def edge_softmax_gradient(ptr: int, rows: int, number: int, heads: int, y: int, grad: int, out: int, threads: int) -> None:
    """The gradient of edge_softmax."""

def edge_attention(lists: EdgeLists, number: int, heads: int, given: int, taken: int, slope: float, y: int, threads: int) -> None:
    """Softmax over the edges of each target of what their two ends have."""

def edge_attention_gradient(lists: EdgeLists, number: int, heads: int, given: int, taken: int, slope: float, y: int, grad: int, to_sum: int, to_taken: int, threads: int) -> None:
    """The gradient of edge_attention, at edges and at targets."""

@overload
def widen_ids(node: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], row: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], col: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], n_id: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], edge_index: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu')], e_id: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None: ...

@overload
def widen_ids(node: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], row: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], col: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], n_id: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], edge_index: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu')], e_id: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
    """Copies the ids of a sample to the int64 arrays of its batch."""

@overload
def widen_labels(labels: numpy.typing.NDArray[Any], ids: numpy.typing.NDArray[numpy.uint32], out: numpy.typing.NDArray[numpy.int64], threads: int = 0) -> None: ...

@overload
def widen_labels(labels: numpy.typing.NDArray[Any], ids: numpy.typing.NDArray[numpy.int64], out: numpy.typing.NDArray[numpy.int64], threads: int = 0) -> None:
    """Fills out with the labels of these ids, as int64."""

SUM_BLOCK: int = 4096

def crc32c(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], before: int = 0) -> int:
    """CRC32C of a uint8 array that follows bytes with the value `before`."""

class Summer:
    """Sums of the blocks of a payload that comes in pieces."""

    def __init__(self) -> None: ...

    def update(self, data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]:
        """Sums of the blocks that these bytes complete."""

    def finish(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]:
        """The sum of the last block where it is shorter."""

class BlockSums:
    """A CRC32C for each block of an array file."""

    def __init__(self, name: str, payload: int, row_bytes: int, offset: int, first: int = 0, last: int = -1) -> None: ...

    @property
    def name(self) -> str: ...

    @property
    def payload(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def first(self) -> int: ...

    @property
    def sums(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]:
        """The table itself, to be filled before any check."""

    def check(self, at: int, data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        Raises FormatError unless the whole blocks read at byte `at` of the file are right.
        """

def check_indptr(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], previous: int) -> int:
    """Position of the first value below its predecessor, or -1."""

@overload
def check_ids(ids: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_nodes: int, threads: int = 0) -> int: ...

@overload
def check_ids(ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], num_nodes: int, threads: int = 0) -> int:
    """Position of the first id outside 0 to num_nodes - 1, or -1."""

@overload
def check_rows(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], start: int) -> int: ...

@overload
def check_rows(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], start: int) -> int:
    """
    Position in a chunk of the first id below its predecessor in the same row, or -1.
    """

@overload
def count_ids(ids: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def count_ids(ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Adds 1 to counts[id] for each id."""

@overload
def count_edges(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], first_row: int, indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], start: int, skip: int, labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], threads: int = 0) -> tuple[int, int, int, int, int]: ...

@overload
def count_edges(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], first_row: int, indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], start: int, skip: int, labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], threads: int = 0) -> tuple[int, int, int, int, int]:
    """
    Counts over a chunk: (self_loops, duplicates, labelled, same_label, skew).
    """

@overload
def build_csc(source: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], target: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], num_nodes: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')] | None, threads: int = 0, sort_rows: bool = True) -> None: ...

@overload
def build_csc(source: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], target: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], num_nodes: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')] | None, threads: int = 0, sort_rows: bool = True) -> None:
    """
    Fills indptr, indices and order (or None) with the CSC form of source[e] -> target[e].
    """

@overload
def dedup_rows(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], keep: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> int: ...

@overload
def dedup_rows(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], keep: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> int:
    """
    Marks repeats of a source in sorted rows with keep[k] = 0; returns their number.
    """

@overload
def compact_rows(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], keep: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], new_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> int: ...

@overload
def compact_rows(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], keep: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], new_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> int:
    """
    Moves kept edges to the front of indices and fills new_indptr; returns their number.
    """

def set_team(entry: int) -> None:
    """The entry of torch's OpenMP runtime, or 0; see team.hpp."""

def dense_pays() -> bool:
    """
    Whether `dense` is faster here than torch's own products; see dense.hpp.
    """

def dense(products: Sequence[tuple[int, tuple[int, int], int, tuple[int, int], int]], shape: tuple[int, int], out: int, out_row: int, add: bool = False, bias: int = 0, threads: int = 0) -> None:
    """
    out[i, j] = what it held, bias[j] or 0, and a[i, k] * b[k, j] added in the order of k, for each product (a, its strides, b, its strides, terms).
    """

class Slots:
    """The cache of several executors that take turns."""

    def __init__(self, bytes: int) -> None: ...

class DiskGather:
    """Carries out plans on a file; see disk_gather.hpp."""

    def __init__(self, path: str, name: str, geometry: Geometry, num_slots: int, staging_bytes: int, backend: str, depth: int = 64, form: str = 'stored', scale: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, threads: int = 0, slots: Slots | None = None, sums: BlockSums | None = None) -> None: ...

    def append(self, plan: Plan) -> None:
        """Queues a plan; its reads begin at once."""

    def step(self, out: numpy.typing.NDArray[Any]) -> None:
        """Carries out the next step into out, [rows, columns]."""

    def close(self) -> None:
        """Ends reading and frees the memory."""

    @property
    def steps_left(self) -> int: ...

    @property
    def next_rows(self) -> int:
        """Rows of the next step, -1 if none is queued."""

    @property
    def memory_bytes(self) -> int:
        """Bytes of slots and staging."""

    @property
    def pin_refusal(self) -> str: ...

    def counters(self) -> dict[str, Any]:
        """Steps, rows, hits, riders, reads and seconds so far."""

class DiskKernel32:
    """Bulk neighbour sampling from a topology on disk."""

    def append(self, ends: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """The next piece of indptr, without its leading 0."""

    def finish(self) -> None:
        """Says that indptr is complete."""

    def sample(self, fanouts: Sequence[int], replace: bool, once: bool, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0, exclude: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None = None) -> list[tuple[Any, ...]]:
        """
        Minibatches as (node, num_nodes, row, col, num_edges, edge, seed_position).
        """

    def sample_trees(self, fanouts: Sequence[int], replace: bool, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, threads: int = 0, exclude: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None = None) -> list[tuple[Any, ...]]:
        """
        Minibatches of disjoint trees, keyed by rows; exclude is cut into trees.
        """

    def hold(self, rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """Holds the lists of these rows in memory, as many as fit, best first."""

    def counters(self) -> dict[str, Any]:
        """Picks, hits, passes, requests, bytes, seconds so far."""

    def shares(self) -> dict[str, Any]:
        """How the budget is divided, in bytes."""

    @property
    def backend(self) -> str: ...

    @property
    def alignment(self) -> int: ...

@overload
def disk_kernel(ids: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], path: str, backend: str, depth: int, name: str, num_nodes: int, num_edges: int, payload: int, file_bytes: int, block: int, gap: int, memory: int, sums: BlockSums | None = None, hot_percent: int = 0) -> DiskKernel32: ...

@overload
def disk_kernel(ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], path: str, backend: str, depth: int, name: str, num_nodes: int, num_edges: int, payload: int, file_bytes: int, block: int, gap: int, memory: int, sums: BlockSums | None = None, hot_percent: int = 0) -> DiskKernel64:
    """
    The kernel of a topology on disk, for ids as wide as those given (they may be none).
    """

class DiskKernel64:
    """Bulk neighbour sampling from a topology on disk."""

    def append(self, ends: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """The next piece of indptr, without its leading 0."""

    def finish(self) -> None:
        """Says that indptr is complete."""

    def sample(self, fanouts: Sequence[int], replace: bool, once: bool, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0, exclude: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None = None) -> list[tuple[Any, ...]]:
        """
        Minibatches as (node, num_nodes, row, col, num_edges, edge, seed_position).
        """

    def sample_trees(self, fanouts: Sequence[int], replace: bool, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, threads: int = 0, exclude: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None = None) -> list[tuple[Any, ...]]:
        """
        Minibatches of disjoint trees, keyed by rows; exclude is cut into trees.
        """

    def hold(self, rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """Holds the lists of these rows in memory, as many as fit, best first."""

    def counters(self) -> dict[str, Any]:
        """Picks, hits, passes, requests, bytes, seconds so far."""

    def shares(self) -> dict[str, Any]:
        """How the budget is divided, in bytes."""

    @property
    def backend(self) -> str: ...

    @property
    def alignment(self) -> int: ...

def map_file(descriptor: int, size: int, name: str) -> tuple[int, CapsuleType]:
    """
    Maps the first bytes of a file read-only: where they are, and what keeps them there.
    """

@overload
def gather_rows(data: numpy.typing.NDArray[Any], ids: numpy.typing.NDArray[numpy.uint32], out: numpy.typing.NDArray[Any], scale: numpy.typing.NDArray[numpy.float32] | None = None, threads: int = 0) -> None: ...

@overload
def gather_rows(data: numpy.typing.NDArray[Any], ids: numpy.typing.NDArray[numpy.int64], out: numpy.typing.NDArray[Any], scale: numpy.typing.NDArray[numpy.float32] | None = None, threads: int = 0) -> None:
    """
    Copies rows ids[k] of data into out; int8 with a scale and float16 may become float32.
    """

def shuffled(count: int, seed: int, epoch: int, start: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    Fills out with entries start, start + 1, ... of the epoch's order of 0 to count - 1.
    """

def xxh64(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int = 0) -> int:
    """XXH64 of a uint8 array."""

class Xxh64:
    """Incremental XXH64 over uint8 arrays."""

    def __init__(self, seed: int = 0) -> None: ...

    def update(self, data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """Appends the bytes of a uint8 array."""

    def digest(self) -> int:
        """The digest of all bytes so far."""

def pair_keys(first: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], second: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """A key of each pair of ids; see random.hpp."""

class Arrivals:
    """Weighted nodes, ready to be drawn from."""

    def __init__(self, weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

class LayerwiseBulk32:
    """Minibatches of one sample_layerwise call."""

    def counts(self, num_nodes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], num_edges: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """Fills nodes and edges of each batch and layer."""

    def fill(self, node: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], row: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], col: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], edge: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """Copies all minibatches, one after the other, into the arrays."""

class LayerwiseTables32:
    """Tables of the threads that sample one graph."""

    @property
    def bytes(self) -> int:
        """Bytes kept for all threads."""

@overload
def layerwise_tables(indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> LayerwiseTables32: ...

@overload
def layerwise_tables(indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> LayerwiseTables64:
    """Empty tables for a graph with these indices."""

@overload
def sample_layerwise(tables: LayerwiseTables32, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, layer_sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], debias: str, columns: Arrivals | None, total: float, seeds: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], seed_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0) -> LayerwiseBulk32: ...

@overload
def sample_layerwise(tables: LayerwiseTables64, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, layer_sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], debias: str, columns: Arrivals | None, total: float, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0) -> LayerwiseBulk64:
    """
    Samples minibatches layer-wise: LADIES, or FastGCN where columns are given.
    """

class LayerwiseBulk64:
    """Minibatches of one sample_layerwise call."""

    def counts(self, num_nodes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], num_edges: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """Fills nodes and edges of each batch and layer."""

    def fill(self, node: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], row: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], col: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], edge: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """Copies all minibatches, one after the other, into the arrays."""

class LayerwiseTables64:
    """Tables of the threads that sample one graph."""

    @property
    def bytes(self) -> int:
        """Bytes kept for all threads."""

@overload
def count_rows(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def count_rows(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Fills ptr: where the entries of each of these rows of A begin."""

@overload
def extract_rows(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], edge: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None: ...

@overload
def extract_rows(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], edge: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
    """Fills columns and edge with these rows of A."""

@overload
def sample_rows(rows: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], batch_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], s: int, replace: bool, picks_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], picks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], tau: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None: ...

@overload
def sample_rows(rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], batch_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], s: int, replace: bool, picks_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], picks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], tau: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
    """Picks s entries of each row into picks and tau."""

@overload
def sum_columns(entry_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], distinct: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], sums: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], unit: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None: ...

@overload
def sum_columns(entry_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], distinct: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], sums: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], unit: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
    """Adds values by column in each batch, in fixed point."""

@overload
def square_columns(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, sums: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> float: ...

@overload
def square_columns(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, sums: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> float:
    """Squared norm of every column of A in units; returns the unit."""

@overload
def sample_columns(column_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], s: int, picks_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], picks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], tau: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None: ...

@overload
def sample_columns(column_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], s: int, picks_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], picks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], tau: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
    """Picks s columns of each batch into picks and tau."""

@overload
def match_columns(entry_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], selected_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], selected: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], match: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None: ...

@overload
def match_columns(entry_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], selected_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], selected: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], match: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
    """
    Finds each entry's column among those selected in its batch, -1 where it is not.
    """

@overload
def compact(node_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], nodes: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], row: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], fresh: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None: ...

@overload
def compact(node_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], nodes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], row: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], fresh: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
    """
    Gives columns the local numbers of their batch, after those of its nodes.
    """

def count_picks(ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, s: int, replace: bool, picks_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Fills picks_ptr: where the picks of each row or batch begin."""

def layer_keys(seed: int, epoch: int, first_batch: int, layer: int, keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Keys of one layer of consecutive minibatches."""

def fold_key(words: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> int:
    """A key of any number of words; see random.hpp."""

class FixedPoint:
    """Whole numbers for sums over columns; see sampling_verbs.hpp."""

    def __init__(self, largest: float, entries: int) -> None: ...

    @property
    def unit(self) -> float:
        """The value of one unit."""

    def units(self, values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Values as whole numbers of units."""

def inclusion(x: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], probability: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """1 - exp(-x), the same bits on every machine."""

class ArrivalsBlock:
    """One owner's weighted nodes, drawn from with others'."""

    def __init__(self, weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], first: int, above: int) -> None: ...

    @property
    def units(self) -> int: ...

    def place(self, before: int, all: int) -> None:
        """Where its units lie among those of all owners."""

    def arrive(self, layer: int, begin: int, end: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
        """Numbers and nodes of first arrivals in [begin, end)."""

    def rest(self, layer: int, end: int, size: int) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
        """Keys and nodes of those that have not come, the smallest keys."""

def most_arrivals(size: int) -> int:
    """Arrivals before the cut-off."""

def arrival_time(layer: int, number: int, above: int, units: int) -> float:
    """The time of an arrival."""

class CallPlanner:
    """Plans one call at a time with SIEVE; see call_planner.hpp."""

    def __init__(self, geometry: Geometry, num_slots: int, gap_bytes: int, max_request: int) -> None: ...

    @overload
    def plan(self, ids: numpy.typing.NDArray[numpy.uint32]) -> tuple[Plan, numpy.typing.NDArray[numpy.uint32] | None]:
        """A plan of one step, and the inverse where ids repeat."""

    @overload
    def plan(self, ids: numpy.typing.NDArray[numpy.int64]) -> tuple[Plan, numpy.typing.NDArray[numpy.uint32] | None]: ...

    @property
    def memory_bytes(self) -> int:
        """Bytes of its tables."""

    SLOT_BYTES: Final[int] = ...
    """Bytes of its tables per slot, at most."""

class NameTable:
    """The distinct names of a stream, in a budget of bytes."""

    def __init__(self, budget: int) -> None: ...

    def add(self, data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], first: int = 0) -> int:
        """
        Adds names from `first` on; the number of the first that found no room.
        """

    def __len__(self) -> int: ...

    def next_length(self) -> int:
        """Length of the name that next() starts with, 0 after the last."""

    def next(self, keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')], lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], text: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> tuple[int, int]:
        """
        Fills the arrays with the next names by ascending key; (names, bytes) taken.
        """

    def clear(self) -> None:
        """Forgets every name and frees the memory."""

class NegativeKernel32:
    """Draws the negatives of links between nodes of two types."""

    def __init__(self, source: tuple[int, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None], destination: tuple[int, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None], known: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None] | None = None) -> None: ...

    def draw(self, rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], sources: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, times: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], cuts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, source: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], destination: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
        """Fills source and destination with the negatives of batches."""

class NegativeKernel64:
    """Draws the negatives of links between nodes of two types."""

    def __init__(self, source: tuple[int, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None], destination: tuple[int, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None], known: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None] | None = None) -> None: ...

    def draw(self, rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], sources: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, times: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], cuts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, source: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], destination: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
        """Fills source and destination with the negatives of batches."""

class Communities:
    """Label propagation over a stream of rows, level by level."""

    def __init__(self, num_nodes: int) -> None: ...

    def begin_level(self, cap: int) -> None:
        """
        Begins a level inside the labels so far, of labels of at most `cap` nodes.
        """

    @property
    def block(self) -> int:
        """Rows that vote together."""

    def labels(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]:
        """A copy of the labels: uint32, one a node."""

    @overload
    def feed(self, first_row: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], threads: int = 0) -> int: ...

    @overload
    def feed(self, first_row: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], threads: int = 0) -> int:
        """Feeds rows in order, each once a pass; returns how many moved."""

@overload
def add_visits(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], fanout: int, score: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def add_visits(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], fanout: int, score: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Adds to score[source] the chance that each target draws it, in 2^-20."""

@overload
def breadth_first(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], by_degree: bool, roots: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], part: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]: ...

@overload
def breadth_first(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], by_degree: bool, roots: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], part: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]:
    """Nodes in the order of a breadth-first search from targets to sources."""

class Geometry:
    """Where rows lie in their file; see plan.hpp."""

    def __init__(self, num_rows: int, row_bytes: int, payload: int, file_bytes: int, block_bytes: int) -> None: ...

    @property
    def num_rows(self) -> int: ...

    @property
    def row_bytes(self) -> int: ...

    @property
    def payload(self) -> int: ...

    @property
    def file_bytes(self) -> int: ...

    @property
    def block_bytes(self) -> int: ...

    def __eq__(self, other: object, /) -> bool: ...

class Plan:
    """Which bytes move when, for one bulk; see plan.hpp."""

    def __init__(self, geometry: Geometry, num_slots: int, num_rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], hits: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]], requests: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]], copies: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]]) -> None:
        """
        Copies the arrays and checks them; InputError if they are not a plan. hits are (ptr, slot, position), requests (ptr, offset, length), copies (ptr, row, position, slot).
        """

    @property
    def geometry(self) -> Geometry: ...

    @property
    def num_slots(self) -> int: ...

    @property
    def row_bound(self) -> int: ...

    @property
    def block_bound(self) -> int: ...

    def counts(self) -> dict[str, Any]:
        """Rows, hits, misses, requests, bytes and so on."""

    def __len__(self) -> int: ...

    @property
    def num_rows(self) -> numpy.typing.NDArray[numpy.int64]: ...

    @property
    def hit_ptr(self) -> numpy.typing.NDArray[numpy.int64]: ...

    @property
    def hit_slot(self) -> numpy.typing.NDArray[numpy.uint32]: ...

    @property
    def hit_position(self) -> numpy.typing.NDArray[numpy.uint32]: ...

    @property
    def request_ptr(self) -> numpy.typing.NDArray[numpy.int64]: ...

    @property
    def request_offset(self) -> numpy.typing.NDArray[numpy.int64]: ...

    @property
    def request_length(self) -> numpy.typing.NDArray[numpy.int64]: ...

    @property
    def copy_ptr(self) -> numpy.typing.NDArray[numpy.int64]: ...

    @property
    def copy_row(self) -> numpy.typing.NDArray[numpy.uint32]: ...

    @property
    def copy_position(self) -> numpy.typing.NDArray[numpy.uint32]: ...

    @property
    def copy_slot(self) -> numpy.typing.NDArray[numpy.uint32]: ...

class Planner:
    """Belady's rule for rows that are read by the block."""

    def __init__(self, geometry: Geometry, num_slots: int, merge_gap: int = 0, max_request: int = 1048576, riders: bool = True, single: bool = False, bounds: bool = True, steps: int = 0) -> None: ...

    def plan(self, batches: Sequence[Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]], ahead: Sequence[Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]] = [], fill: bool = False) -> Plan:
        """
        The plan of a bulk, given the batches after it as far as they are known.
        """

    def set_popularity(self, popularity: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def clear(self) -> None:
        """Forgets the content of the cache."""

    def begin_bound(self) -> None:
        """Begins the block bound anew, with what is in the cache now."""

    def cached(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]:
        """By slot: the row it holds, or 2^32 - 1."""

    @property
    def geometry(self) -> Geometry: ...

    @property
    def num_slots(self) -> int: ...

def planner_bytes(geometry: Geometry, num_slots: int, accesses: int, steps: int) -> int:
    """
    The most bytes a planner of rows or of pages uses for bulks of that size, without the plans it returns.
    """

def lower_bounds(geometry: Geometry, batches: Sequence[Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]], num_slots: int, cached: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[int, int]:
    """
    (rows, blocks): the fewest reads of a bulk, given the rows in the cache before it.
    """

def priced_bound(geometry: Geometry, batches: Sequence[Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]], num_slots: int, cached: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], rounds: int = 40) -> int:
    """A sharper bound on the blocks read, by putting a price on slots; slow."""

class OnlinePlanner:
    """A cache that does not know the future, as plans."""

    def __init__(self, geometry: Geometry, num_slots: int, policy: str, hot: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], merge_gap: int = 0, max_request: int = 1048576, single: bool = False, bounds: bool = True) -> None: ...

    def plan(self, batches: Sequence[Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]]) -> Plan: ...

class PagePlanner:
    """Belady's rule for whole blocks."""

    def __init__(self, geometry: Geometry, num_slots: int, merge_gap: int = 0, max_request: int = 1048576, bounds: bool = True) -> None: ...

    def plan(self, batches: Sequence[Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]], ahead: Sequence[Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]] = []) -> Plan: ...

def read_range(descriptor: int, name: str, position: int, into: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], sums: BlockSums | None, threads: int = 0) -> None:
    """
    Fills a uint8 array with the bytes from a position of a file on, each block checked.
    """

class BlockReader:
    """Executes lists of reads of one file; see reader.hpp."""

    def __init__(self, path: str, backend: str, depth: int = 64, name: str = '', sums: BlockSums | None = None) -> None: ...

    def read(self, offset: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], length: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], destination: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """Reads length[i] bytes at offset[i] to buffer[destination[i]:]."""

    def attach(self, buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> bool:
        """
        Pins a buffer for the reads to come; False where that is refused or useless.
        """

    @property
    def backend(self) -> str: ...

    @property
    def depth(self) -> int: ...

    @property
    def alignment(self) -> int: ...

    @property
    def pin_refusal(self) -> str: ...

    def counters(self) -> dict[str, Any]:
        """Requests, bytes, submissions, retries and seconds so far."""

def probe_reader(path: str) -> dict[str, Any]:
    """
    Tries every backend in a folder: {backends: {name: None or the reason it does not work}, alignment, deferred}.
    """

class RepackPlan:
    """A sweep into a scratch file and a plan over it; see repack.hpp."""

    @property
    def source(self) -> Geometry: ...

    @property
    def scratch(self) -> Plan: ...

    @property
    def request_offset(self) -> numpy.typing.NDArray[numpy.int64]: ...

    @property
    def request_length(self) -> numpy.typing.NDArray[numpy.int64]: ...

    @property
    def move_ptr(self) -> numpy.typing.NDArray[numpy.int64]: ...

    @property
    def move_row(self) -> numpy.typing.NDArray[numpy.uint32]: ...

    @property
    def move_index(self) -> numpy.typing.NDArray[numpy.uint32]: ...

    @property
    def run_ptr(self) -> numpy.typing.NDArray[numpy.int64]: ...

def make_repack(rows: Plan, merge_gap: int, max_request: int) -> RepackPlan:
    """Turns a plan by rows into a sweep and a plan over the scratch file."""

class RowIndex:
    """Starts and lengths of rows in 2.25 bytes a node."""

    def __init__(self, num_nodes: int, num_edges: int) -> None: ...

    def append(self, ends: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """The next piece of indptr, without its leading 0."""

    def spans(self, rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], degree: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """Fills in where these rows start and how long they are."""

    @staticmethod
    def bytes(num_nodes: int, num_edges: int) -> int:
        """The most bytes an index can take."""

class RowInquiry32:
    """Rows of one layer, asked of their owners."""

    def request(self, owner: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
        """The message to one owner."""

    def accept(self, replies: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]], first_row: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
        """Reads the replies; fills where each row's entries begin."""

    def fill(self, first_row: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], edge: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
        """Fills the entries: sources, positions in A and weights."""

@overload
def row_inquiry(rows: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], batch_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], row_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], fanout: int, replace: bool, own: int) -> RowInquiry32: ...

@overload
def row_inquiry(rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], batch_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], row_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], fanout: int, replace: bool, own: int) -> RowInquiry64:
    """The questions of a layer, for ids as wide as rows."""

@overload
def answer_rows(request: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], first_row: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, fanout: int, replace: bool) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

@overload
def answer_rows(request: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], first_row: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, fanout: int, replace: bool) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
    """The reply of the owner of a block of rows."""

@overload
def read_request(request: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], first_row: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.uint32], dict(shape=(None,))], Annotated[NDArray[numpy.uint32], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))]]: ...

@overload
def read_request(request: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], first_row: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.uint32], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))]]:
    """Rows, batches and keys that a request with keys asks for."""

class RowInquiry64:
    """Rows of one layer, asked of their owners."""

    def request(self, owner: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
        """The message to one owner."""

    def accept(self, replies: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]], first_row: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
        """Reads the replies; fills where each row's entries begin."""

    def fill(self, first_row: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], edge: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
        """Fills the entries: sources, positions in A and weights."""

class NeighborKernel32:
    """Bulk neighbour sampling over one graph."""

    def sample(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0, exclude: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None = None) -> list[tuple[Any, ...]]:
        """
        Minibatches as (node, num_nodes, row, col, num_edges, edge, seed_position, weight, None).
        """

    def sample_joined(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0, exclude: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None = None) -> tuple[Any, ...]:
        """
        All minibatches as int64 (node, row and col of each, edge), with new nodes and edges of each layer and the repeated seeds' positions.
        """

    def sample_trees(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, threads: int = 0, exclude: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None = None) -> list[tuple[Any, ...]]:
        """
        Minibatches of disjoint trees, keyed by rows; as sample() with each node's tree last.
        """

    @property
    def table_bytes(self) -> int:
        """Bytes kept for all threads."""

class LaborKernel32:
    """Bulk LABOR-0 sampling over one graph."""

    def sample(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0, exclude: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None = None) -> list[tuple[Any, ...]]:
        """
        Minibatches as (node, num_nodes, row, col, num_edges, edge, seed_position, weight, None).
        """

    def sample_joined(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0, exclude: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None = None) -> tuple[Any, ...]:
        """
        All minibatches as int64 (node, row and col of each, edge), with new nodes and edges of each layer and the repeated seeds' positions.
        """

    def sample_trees(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, threads: int = 0, exclude: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None = None) -> list[tuple[Any, ...]]:
        """
        Minibatches of disjoint trees, keyed by rows; as sample() with each node's tree last.
        """

    @property
    def table_bytes(self) -> int:
        """Bytes kept for all threads."""

@overload
def neighbor_kernel(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], fanouts: Sequence[int], replace: bool, once: bool, weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> NeighborKernel32: ...

@overload
def neighbor_kernel(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], fanouts: Sequence[int], replace: bool, once: bool, weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> NeighborKernel64:
    """The kernel of a graph, for ids as wide as those of indices."""

@overload
def labor_kernel(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], fanouts: Sequence[int], once: bool, same: bool, weight: int, values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, every: int = 1) -> LaborKernel32: ...

@overload
def labor_kernel(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], fanouts: Sequence[int], once: bool, same: bool, weight: int, values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, every: int = 1) -> LaborKernel64:
    """The kernel of a graph, for ids as wide as those of indices."""

@overload
def draw_rows(rows: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], batch_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], s: int, replace: bool, picks_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], picks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None: ...

@overload
def draw_rows(rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], batch_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], s: int, replace: bool, picks_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], picks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
    """Fills picks with entries of each row, drawn by weight."""

@overload
def column_draws(entry_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None: ...

@overload
def column_draws(entry_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
    """
    Fills out with one random number a column, the same for all rows of a batch.
    """

class NeighborKernel64:
    """Bulk neighbour sampling over one graph."""

    def sample(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0, exclude: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None = None) -> list[tuple[Any, ...]]:
        """
        Minibatches as (node, num_nodes, row, col, num_edges, edge, seed_position, weight, None).
        """

    def sample_joined(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0, exclude: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None = None) -> tuple[Any, ...]:
        """
        All minibatches as int64 (node, row and col of each, edge), with new nodes and edges of each layer and the repeated seeds' positions.
        """

    def sample_trees(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, threads: int = 0, exclude: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None = None) -> list[tuple[Any, ...]]:
        """
        Minibatches of disjoint trees, keyed by rows; as sample() with each node's tree last.
        """

    @property
    def table_bytes(self) -> int:
        """Bytes kept for all threads."""

class LaborKernel64:
    """Bulk LABOR-0 sampling over one graph."""

    def sample(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0, exclude: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None = None) -> list[tuple[Any, ...]]:
        """
        Minibatches as (node, num_nodes, row, col, num_edges, edge, seed_position, weight, None).
        """

    def sample_joined(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0, exclude: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None = None) -> tuple[Any, ...]:
        """
        All minibatches as int64 (node, row and col of each, edge), with new nodes and edges of each layer and the repeated seeds' positions.
        """

    def sample_trees(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, threads: int = 0, exclude: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None = None) -> list[tuple[Any, ...]]:
        """
        Minibatches of disjoint trees, keyed by rows; as sample() with each node's tree last.
        """

    @property
    def table_bytes(self) -> int:
        """Bytes kept for all threads."""

def labor_limits(fanout: int, degree: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]:
    """For each row, the number below which its entries are taken, of 2^32."""

def partition_records(records: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], record_bytes: int, key_offset: int, key_bytes: int, base: int, shift: int, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
    """Groups records by key range, stably; fills offsets and out."""

class KeyIndex:
    """Finds keys in a sorted array of distinct keys."""

    def __init__(self, sorted: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def find(self, keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
        """Positions of the keys in the sorted array; -1 where absent."""

def gather_slices(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Concatenates slices of a byte array."""

@overload
def pair_dots(a: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], b: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], threads: int = 0) -> None: ...

@overload
def pair_dots(a: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], b: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], threads: int = 0) -> None:
    """Products of the rows of a and the columns of b; see pair_dots.hpp."""

@overload
def sum_rows(data: numpy.typing.NDArray[Any], node: numpy.typing.NDArray[numpy.uint32] | None, place: numpy.typing.NDArray[numpy.uint32], starts: numpy.typing.NDArray[numpy.int64], weight: numpy.typing.NDArray[numpy.float32] | None, scale: numpy.typing.NDArray[numpy.float32] | None, out: numpy.typing.NDArray[Any], threads: int = 0) -> None: ...

@overload
def sum_rows(data: numpy.typing.NDArray[Any], node: numpy.typing.NDArray[numpy.int64] | None, place: numpy.typing.NDArray[numpy.uint32], starts: numpy.typing.NDArray[numpy.int64], weight: numpy.typing.NDArray[numpy.float32] | None, scale: numpy.typing.NDArray[numpy.float32] | None, out: numpy.typing.NDArray[Any], threads: int = 0) -> None:
    """
    Sums of rows by target, rows given by place, or by the node at a place.
    """

class ScratchFile:
    """A file without a name; see scratch_file.hpp."""

    @property
    def path(self) -> str:
        """What opens it, in this process, while it lives."""

    @property
    def bytes(self) -> int: ...

    @property
    def sums(self) -> BlockSums:
        """Block checksums of what was written."""

    @property
    def direct(self) -> bool:
        """Whether it was written past the page cache."""

class Sweeper:
    """Carries out the sweeps of repacked bulks; see sweep.hpp."""

    def __init__(self, path: str, name: str, geometry: Geometry, staging_bytes: int, write_bytes: int, backend: str, depth: int = 16, sums: BlockSums | None = None) -> None: ...

    def sweep(self, plan: RepackPlan, folder: str) -> ScratchFile:
        """Sweeps the file into a new scratch file."""

    def cancel(self) -> None:
        """Ends a running sweep and all later ones."""

    def counters(self) -> dict[str, Any]:
        """Reads, writes and seconds of finished sweeps."""

    @staticmethod
    def least_write_bytes(batches: int) -> int:
        """The least write_bytes for bulks of this many batches."""

class Synth:
    """A synthetic graph as a pure function of its options."""

    def __init__(self, *, nodes: int, edges: int, communities: int, classes: int, width: int, skew: int, mixing: float, label_noise: float, signal: float, split: tuple[float, float, float], shuffled: bool, seed: int) -> None: ...

    @property
    def edges(self) -> int:
        """Edges after capping degrees at nodes - 1."""

    def degrees(self, begin: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None:
        """In-degrees of the ids from `begin`."""

    def communities(self, begin: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None:
        """Communities of the ids from `begin`."""

    def roles(self, begin: int, out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None:
        """Splits of the ids from `begin`: 0 train, 1 valid, 2 test, 3 none."""

    @overload
    def rows(self, begin: int, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None:
        """Rows of the ids from `begin`; `offsets` is their part of indptr."""

    @overload
    def rows(self, begin: int, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

    @overload
    def features(self, begin: int, out: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None:
        """Features of the ids from `begin`, flat; uint16 holds binary16 bits."""

    @overload
    def features(self, begin: int, out: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

    @overload
    def features(self, begin: int, out: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

    @overload
    def labels(self, begin: int, out: Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None:
        """Labels of the ids from `begin`."""

    @overload
    def labels(self, begin: int, out: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], threads: int) -> None: ...

    def scale(self, out: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """The scale of each int8 column."""

    def vertex(self, id: int) -> int:
        """The vertex of an id."""

    def id(self, vertex: int) -> int:
        """The id of a vertex."""

NO_TIME: int = -9223372036854775808

class Table:
    """Reads the rows of a node table."""

    def __init__(self, *, count: int, id: int, text_ids: bool, time: int, dates: bool, numbers: Sequence[int], classes: Sequence[int]) -> None: ...

    def parse(self, lines: Lines, text: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], line_numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], ids: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')], data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], name_keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')], numbers: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], classes: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], times: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> tuple[int, int, int, int]:
        """
        Fills the arrays; ids are int64 or keys in the same bits; (rows, lines, bytes, names).
        """

    def classes(self, column: int) -> list[str]:
        """The classes of a column in the order of their numbers."""

def parse_time(text: str) -> int | None:
    """
    Microseconds since 1970 of an ISO 8601 date or date and time; None where it is neither.
    """

class Lines:
    """How to read a piece of a delimited file."""

    def __init__(self, name: str, delimiter: str, first_line: int = 1, skip_before: int = 0, comments: bool = True) -> None: ...

    @property
    def first_line(self) -> int:
        """Number of the first line of the next piece."""

    @first_line.setter
    def first_line(self, arg: int, /) -> None: ...

    def parse_integers(self, text: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Sequence[int], out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], weight_column: int, weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> tuple[int, int, int]:
        """Columns as int64, column by column; (rows, lines, bytes) taken."""

    def parse_strings(self, text: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Sequence[int], keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')], data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], name_keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')], weight_column: int, weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> tuple[int, int, int, int]:
        """Columns as XXH64 keys and names; (rows, lines, bytes, names) taken."""

    @overload
    def parse_numbers(self, text: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], width: int, out: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> tuple[int, int, int]:
        """Lines of `width` numbers as float32; (rows, lines, bytes) taken."""

    @overload
    def parse_numbers(self, text: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], width: int, out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> tuple[int, int, int]:
        """Lines of `width` numbers as float64; (rows, lines, bytes) taken."""

def split_fields(line: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], delimiter: str) -> list[bytes]:
    """The fields of one line, as the parsers see them."""

def hash_strings(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')], seed: int = 0) -> None:
    """XXH64 of each string data[offsets[i]:offsets[i + 1]]."""

class TypedLayerwise32:
    """Bulk layer-wise sampling over one graph with types."""

    def __init__(self, num_nodes: Sequence[int], layers: int, debias: int, all_rows: bool) -> None: ...

    def add(self, source: int, target: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Sequence[int], weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None:
        """Adds the next relation; types are numbers."""

    def sample(self, groups: Sequence[tuple[int, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None]], count: int, seed: int, epoch: int, first_batch: int, threads: int = 0) -> list[tuple[Any, ...]]:
        """
        Minibatches as those of TypedKernel32; debias is 0 for none, 1 exact, 2 reference, and all_rows takes the weights of columns over all rows, as FastGCN.
        """

    @property
    def table_bytes(self) -> int:
        """Bytes kept for all threads."""

class TypedLayerwise64:
    """Bulk layer-wise sampling over one graph with types."""

    def __init__(self, num_nodes: Sequence[int], layers: int, debias: int, all_rows: bool) -> None: ...

    def add(self, source: int, target: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Sequence[int], weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None:
        """Adds the next relation; types are numbers."""

    def sample(self, groups: Sequence[tuple[int, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None]], count: int, seed: int, epoch: int, first_batch: int, threads: int = 0) -> list[tuple[Any, ...]]:
        """
        Minibatches as those of TypedKernel32; debias is 0 for none, 1 exact, 2 reference, and all_rows takes the weights of columns over all rows, as FastGCN.
        """

    @property
    def table_bytes(self) -> int:
        """Bytes kept for all threads."""

class HgtKernel32:
    """The sampler of the Heterogeneous Graph Transformer over one graph."""

    def __init__(self, num_nodes: Sequence[int], numbers: Sequence[Sequence[int]]) -> None:
        """Numbers of nodes by type and layer."""

    def add(self, source: int, target: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """Adds the next relation; types are numbers."""

    def sample(self, groups: Sequence[tuple[int, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None]], count: int, seed: int, epoch: int, first_batch: int, threads: int = 0) -> list[tuple[Any, ...]]:
        """Minibatches as those of TypedKernel32; edges have no layers."""

    @property
    def table_bytes(self) -> int:
        """Bytes kept for all threads."""

class HgtKernel64:
    """The sampler of the Heterogeneous Graph Transformer over one graph."""

    def __init__(self, num_nodes: Sequence[int], numbers: Sequence[Sequence[int]]) -> None:
        """Numbers of nodes by type and layer."""

    def add(self, source: int, target: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """Adds the next relation; types are numbers."""

    def sample(self, groups: Sequence[tuple[int, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None]], count: int, seed: int, epoch: int, first_batch: int, threads: int = 0) -> list[tuple[Any, ...]]:
        """Minibatches as those of TypedKernel32; edges have no layers."""

    @property
    def table_bytes(self) -> int:
        """Bytes kept for all threads."""

class TypedKernel32:
    """Bulk neighbour sampling over one graph with types."""

    def __init__(self, num_nodes: Sequence[int], layers: int, replace: bool, trees: bool, last: bool, induced: bool) -> None: ...

    def use_labor(self, same: bool, weight: int) -> None:
        """
        Draws by LABOR, before relations are added: the same numbers in all layers; weights of edges 0 for none, 1 exact, 2 reference. Weights of relations are then its matrix.
        """

    def add(self, source: int, target: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], fanouts: Sequence[int], weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, time: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None:
        """
        Adds the next relation; types are numbers. Rows ascend by time where it is given.
        """

    def sample(self, groups: Sequence[tuple[int, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None]], count: int, seed: int, epoch: int, first_batch: int, threads: int = 0, exclude: Sequence[tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None] = []) -> list[tuple[Any, ...]]:
        """
        Minibatches as ([(node, num_nodes, seed_position, tree) a type], [(row, col, num_edges, edge, weight) a relation]); a group of seeds is (type, seeds, ptr, rows, times), and what a relation leaves out (ptr, target, source, edge, tree, whether sources ascend) or None.
        """

    @property
    def table_bytes(self) -> int:
        """Bytes kept for all threads."""

class TypedKernel64:
    """Bulk neighbour sampling over one graph with types."""

    def __init__(self, num_nodes: Sequence[int], layers: int, replace: bool, trees: bool, last: bool, induced: bool) -> None: ...

    def use_labor(self, same: bool, weight: int) -> None:
        """
        Draws by LABOR, before relations are added: the same numbers in all layers; weights of edges 0 for none, 1 exact, 2 reference. Weights of relations are then its matrix.
        """

    def add(self, source: int, target: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], fanouts: Sequence[int], weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, time: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None:
        """
        Adds the next relation; types are numbers. Rows ascend by time where it is given.
        """

    def sample(self, groups: Sequence[tuple[int, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None]], count: int, seed: int, epoch: int, first_batch: int, threads: int = 0, exclude: Sequence[tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None] = []) -> list[tuple[Any, ...]]:
        """
        Minibatches as ([(node, num_nodes, seed_position, tree) a type], [(row, col, num_edges, edge, weight) a relation]); a group of seeds is (type, seeds, ptr, rows, times), and what a relation leaves out (ptr, target, source, edge, tree, whether sources ascend) or None.
        """

    @property
    def table_bytes(self) -> int:
        """Bytes kept for all threads."""

def encode_varints(values: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
    """The bytes of numbers from 0 on, one after the other."""

def decode_varints(message: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """All numbers of a message."""

class SubgraphKernel32:
    """Bulks of induced subgraphs of one graph."""

    def sample(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0, presample: bool = False) -> list[tuple[Any, ...]]:
        """
        Minibatches as (node, num_nodes, row, col, num_edges, edge, seed_position).
        """

    @property
    def table_bytes(self) -> int:
        """Bytes kept for all threads."""

@overload
def subgraph_kernel(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], kind: int, size: int = 0, length: int = 0, walks: int = 1) -> SubgraphKernel32: ...

@overload
def subgraph_kernel(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], kind: int, size: int = 0, length: int = 0, walks: int = 1) -> SubgraphKernel64:
    """The kernel of a graph, for ids as wide as those of indices."""

@overload
def random_walk(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], length: int, seed: int, epoch: int, first_batch: int, path: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None: ...

@overload
def random_walk(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], length: int, seed: int, epoch: int, first_batch: int, path: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
    """Walks of k minibatches; path is [starts, length + 1], flat."""

class SubgraphKernel64:
    """Bulks of induced subgraphs of one graph."""

    def sample(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0, presample: bool = False) -> list[tuple[Any, ...]]:
        """
        Minibatches as (node, num_nodes, row, col, num_edges, edge, seed_position).
        """

    @property
    def table_bytes(self) -> int:
        """Bytes kept for all threads."""

def walk_draws(keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], degree: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    The entry of its row that each walker takes in one step; -1 where the row is empty.
    """

def unit_draws(key: int, out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Numbers in [0, 1): the draws of a key."""

def draw_roots(population: int, size: int, seed: int, first: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Sets of `size` distinct numbers, one after another."""
