"""source: the interface a converter reads from: edges and rows in chunks, small arrays whole.

A `Source` describes data on disk (or in memory) without loading it. The engine requests chunks of
bounded size, twice if necessary, and does all sorting and writing itself. A source never modifies
what it reads, and never unpickles.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["EdgeChunk", "Ids", "RowStream", "Small", "Source", "Strings"]

Array = npt.NDArray[Any]

#: How a source identifies nodes: "dense" = integers used unchanged; "sparse" = integers to be
#: renumbered; "string" = text to be numbered.
Ids = Literal["dense", "sparse", "string"]


class Strings(NamedTuple):
    """n strings, UTF-8, back to back: string i is data[offsets[i]:offsets[i + 1]].

    `keys` holds their XXH64, where the reader has them already.
    """

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint64] | None = None


class EdgeChunk(NamedTuple):
    """Some edges, in the order of the source.

    `source[i] -> target[i]`, any integer dtype, not yet checked. When the source's ids are
    "string", `source` and `target` hold XXH64 keys (uint64) and `names` the strings: at least one
    per distinct key of this chunk (duplicates are allowed).
    """

    source: Array
    target: Array
    weight: npt.NDArray[np.float32] | None = None
    features: Array | None = None  # [edges, width]
    names: Strings | None = None


@dataclass(frozen=True)
class RowStream:
    """A matrix of `count` rows that can be read in order, in chunks of at most `step` rows.

    `chunks(step)` may be called again to read from the start. Chunks are [n, width] arrays of
    `dtype`; together they have exactly `count` rows, or the source raises FormatError.
    """

    count: int
    width: int
    dtype: np.dtype[Any]

    def chunks(self, step: int) -> Iterator[Array]:
        """Reads the rows in order."""
        raise NotImplementedError(f"{type(self).__name__} does not read rows")


@dataclass(frozen=True)
class Small:
    """Arrays read whole because they are small: labels and splits."""

    labels: Array | None = None  # [N] or [N, C]; float NaN or int -1 = missing
    splits: dict[str, Array] = field(default_factory=dict)
    classes: list[str] | None = None  # names of the classes, by number


class Source(Protocol):
    """Everything the engine needs to know and read."""

    #: Short name for logs and provenance, never a full path.
    name: str
    ids: Ids
    #: Known node count, or None: the engine uses 1 + the largest id.
    num_nodes: int | None
    #: Known edge count for the progress bar, or None.
    num_edges: int | None
    has_weight: bool
    #: (width, dtype) of edge features, or None.
    edge_features: tuple[int, np.dtype[Any]] | None
    #: The data set is undirected by definition but stored one way (ogbn-products); None = unknown.
    stored_once: bool | None

    @property
    def features(self) -> RowStream | None:
        """Node features, or None."""
        ...

    def edges(self, step: int) -> Iterator[EdgeChunk]:
        """Reads the edges in order, at most `step` at a time."""
        ...

    def small(self, budget: int) -> Small:
        """Reads labels and splits; raises BudgetError if they exceed `budget` bytes."""
        ...

    def notes(self) -> list[str]:
        """Notes for the user, in whole sentences: what was found and not converted."""
        ...
