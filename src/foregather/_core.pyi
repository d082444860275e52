"""foregather's C++ core; arrays in, arrays out, no torch."""

from collections.abc import Sequence
from typing import Annotated, Any, overload

import numpy
import numpy.typing
from numpy.typing import NDArray


def default_threads() -> int:
    """Hardware threads this process may use."""

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

class LayerwiseBulk32:
    """Minibatches of one sample_layerwise call."""

    def counts(self, num_nodes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], num_edges: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """Fills nodes and edges of each batch and layer."""

    def fill(self, node: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], row: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], col: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], edge: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """Copies all minibatches, one after the other, into the arrays."""

@overload
def sample_layerwise(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, layer_sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], debias: str, column_weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, total: float, seeds: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], seed_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0) -> LayerwiseBulk32: ...

@overload
def sample_layerwise(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, layer_sizes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], debias: str, column_weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, total: float, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0) -> LayerwiseBulk64:
    """
    Samples minibatches layer-wise: LADIES, or FastGCN where column_weights are given.
    """

class LayerwiseBulk64:
    """Minibatches of one sample_layerwise call."""

    def counts(self, num_nodes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], num_edges: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """Fills nodes and edges of each batch and layer."""

    def fill(self, node: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], row: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], col: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], edge: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """Copies all minibatches, one after the other, into the arrays."""

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

def inclusion(x: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], probability: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """1 - exp(-x), the same bits on every machine."""

def exact_log(x: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], log: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    Natural logarithm of positive normal numbers, the same bits on every machine.
    """

def read_lines(words: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], index: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], distance: int, threads: int = 1) -> int:
    """Reads 64-byte lines at random; returns the sum of first words."""

class BlockReader:
    """Executes lists of reads of one file; see reader.hpp."""

    def __init__(self, path: str, backend: str, depth: int = 64, name: str = '') -> None: ...

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

class RowInquiry32:
    """Rows of one layer, asked of their owners."""

    def __init__(self, rows: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], batch_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], row_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], fanout: int, replace: bool, own: int) -> None: ...

    def request(self, owner: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
        """The message to one owner."""

    def accept(self, replies: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]], first_row: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
        """Reads the replies; fills where each row's entries begin."""

    def fill(self, first_row: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], edge: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
        """Fills the entries: sources, positions in A and weights."""

@overload
def answer_rows(request: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], first_row: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, fanout: int, replace: bool) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

@overload
def answer_rows(request: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], first_row: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, fanout: int, replace: bool) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
    """The reply of the owner of a block of rows."""

class RowInquiry64:
    """Rows of one layer, asked of their owners."""

    def __init__(self, rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], batch_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], row_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], fanout: int, replace: bool, own: int) -> None: ...

    def request(self, owner: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
        """The message to one owner."""

    def accept(self, replies: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]], first_row: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
        """Reads the replies; fills where each row's entries begin."""

    def fill(self, first_row: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], edge_weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], edge: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
        """Fills the entries: sources, positions in A and weights."""

class NeighborKernel32:
    """Bulk neighbour sampling over one graph."""

    def __init__(self, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], fanouts: Sequence[int], replace: bool, once: bool) -> None: ...

    def sample(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0) -> list[tuple[Any, ...]]:
        """
        Minibatches as (node, num_nodes, row, col, num_edges, edge, seed_position).
        """

    @property
    def table_bytes(self) -> int:
        """Bytes kept for all threads."""

class NeighborKernel64:
    """Bulk neighbour sampling over one graph."""

    def __init__(self, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], fanouts: Sequence[int], replace: bool, once: bool) -> None: ...

    def sample(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0) -> list[tuple[Any, ...]]:
        """
        Minibatches as (node, num_nodes, row, col, num_edges, edge, seed_position).
        """

    @property
    def table_bytes(self) -> int:
        """Bytes kept for all threads."""

def partition_records(records: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], record_bytes: int, key_offset: int, key_bytes: int, base: int, shift: int, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
    """Groups records by key range, stably; fills offsets and out."""

def lookup_sorted(sorted: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
    """Positions of keys in a sorted array of distinct keys; -1 where absent."""

def gather_slices(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Concatenates slices of a byte array."""

class Synth:
    """A synthetic graph as a pure function of its options."""

    def __init__(self, *, nodes: int, edges: int, communities: int, classes: int, width: int, skew: int, mixing: float, label_noise: float, signal: float, train: float, valid: float, test: float, shuffled: bool, seed: int) -> None: ...

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

    def parse_strings(self, text: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Sequence[int], keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')], data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], weight_column: int, weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> tuple[int, int, int, int]:
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

class SubgraphKernel32:
    """Bulks of induced subgraphs of one graph."""

    def __init__(self, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], kind: int, size: int = 0, length: int = 0, walks: int = 1) -> None: ...

    def sample(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0, presample: bool = False) -> list[tuple[Any, ...]]:
        """
        Minibatches as (node, num_nodes, row, col, num_edges, edge, seed_position).
        """

    @property
    def table_bytes(self) -> int:
        """Bytes kept for all threads."""

@overload
def random_walk(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], length: int, seed: int, epoch: int, first_batch: int, path: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None: ...

@overload
def random_walk(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], length: int, seed: int, epoch: int, first_batch: int, path: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], threads: int = 0) -> None:
    """Walks of k minibatches; path is [starts, length + 1], flat."""

class SubgraphKernel64:
    """Bulks of induced subgraphs of one graph."""

    def __init__(self, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], kind: int, size: int = 0, length: int = 0, walks: int = 1) -> None: ...

    def sample(self, seeds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, epoch: int, first_batch: int, threads: int = 0, presample: bool = False) -> list[tuple[Any, ...]]:
        """
        Minibatches as (node, num_nodes, row, col, num_edges, edge, seed_position).
        """

    @property
    def table_bytes(self) -> int:
        """Bytes kept for all threads."""

def draw_roots(population: int, size: int, seed: int, first: int, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Sets of `size` distinct numbers, one after another."""
