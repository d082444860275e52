"""source: what a converter reads: edges in chunks, rows in chunks, small arrays whole.

A `Source` describes one thing on disk (or in memory) without loading it. The engine asks for
chunks of bounded size, twice if need be, and does all sorting and writing itself. A source never
changes what it reads, and never unpickles.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["EdgeChunk", "Ids", "Rows", "Small", "Source", "Strings"]

Array = npt.NDArray[Any]

#: How a source names vertices: "dense" = integers to be used as they are; "sparse" = integers to
#: be renumbered; "string" = text to be numbered.
Ids = Literal["dense", "sparse", "string"]


class Strings(NamedTuple):
    """n strings, UTF-8, back to back: string i is data[offsets[i]:offsets[i + 1]]."""

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]


class EdgeChunk(NamedTuple):
    """Some edges, in the order of the source.

    `source[i] -> target[i]`, any integer dtype, not yet checked. When the source's ids are
    "string", `source` and `target` hold XXH64 keys (uint64) and `names` the strings that were met:
    one for each distinct key of this chunk at least (repeats are allowed).
    """

    source: Array
    target: Array
    weight: npt.NDArray[np.float32] | None = None
    features: Array | None = None  # [edges, width]
    names: Strings | None = None


@dataclass(frozen=True)
class Rows:
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


class Source(Protocol):
    """What the engine needs to know and read."""

    #: Short name for logs and provenance, never a full path.
    name: str
    ids: Ids
    #: Known vertex count, or None: the engine takes 1 + the largest id.
    num_nodes: int | None
    #: Known edge count for the progress bar, or None.
    num_edges: int | None
    has_weight: bool
    #: (width, dtype) of edge features, or None.
    edge_features: tuple[int, np.dtype[Any]] | None
    #: The data set is undirected by definition but stored one way (ogbn-products); None = unknown.
    stored_once: bool | None

    @property
    def features(self) -> Rows | None:
        """Node features, or None."""
        ...

    def edges(self, step: int) -> Iterator[EdgeChunk]:
        """Reads the edges in order, at most `step` at a time."""
        ...

    def small(self, budget: int) -> Small:
        """Reads labels and splits; raises BudgetError where they exceed `budget` bytes."""
        ...

    def notes(self) -> list[str]:
        """What a person should know: what was found and not converted, in whole sentences."""
        ...
