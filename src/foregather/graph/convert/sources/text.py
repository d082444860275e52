"""text: reads edge lists: csv, tsv, txt, gzipped or not (SNAP, KONECT and similar).

One edge per line, in any two columns; comment lines start with # or %. The file is streamed each
time `edges` is called. Integer ids are "dense" unless the caller says "sparse": whether the largest
id is plausible is known only at the end, and the engine checks it there.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from foregather.errors import FormatError, InputError
from foregather.graph.convert.reading.columns import Column, check_ids
from foregather.graph.convert.reading.matrix_market import Matrix
from foregather.graph.convert.reading.tables import read_edges
from foregather.graph.convert.reading.text_dialect import DELIMITERS, guess_dialect
from foregather.graph.convert.source import EdgeChunk, Ids, RowStream, Small

__all__ = ["TextSource"]

_KONECT = re.compile(r"%\s*(sym|asym|bip)\b")


class TextSource:
    """Edges of a delimited text file.

    Args:
        path: the file; gzip is recognised by its first bytes.
        columns: source and target column, by name in the header or by position from 1; None takes
            columns with usual names (source and target, src and dst, from and to, u and v), else
            the first two.
        delimiter: `, ; | :`, tab, or a space for any run of blanks; None detects it. header:
        whether the first line that is not a comment holds names; None: yes if it names the
        requested columns, has the usual names, or holds words while later ids are integers; a line
        that could also be an edge is refused.
        ids: "dense", "sparse", "string", or "auto": "dense" if the first lines hold integers,
            otherwise "string".
        weight: weight column, by name or position from 1; None: no weights.

    Raises:
        FormatError: empty, not text, without a single edge, or not the matrix of a graph.
        InputError: the requested columns do not exist, or the first line is ambiguous.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        columns: Sequence[Column] | None = None,
        delimiter: str | None = None,
        header: bool | None = None,
        ids: str = "auto",
        weight: Column | None = None,
    ) -> None:
        check_ids(ids)
        self._path = Path(path)
        self.name = self._path.name
        strings = None if ids == "auto" else ids == "string"
        self._dialect = guess_dialect(self._path, columns, delimiter, header, strings, weight)
        matrix = self._dialect.matrix
        if matrix is not None and ids not in ("auto", "dense"):
            raise InputError(
                f"{self.name} is a MatrixMarket file, whose ids are rows and columns counted from "
                "1; leave out --ids"
            )
        self._auto, self._told = ids == "auto", header is not None
        numbers: Ids = "sparse" if ids == "sparse" else "dense"
        self.ids: Ids = "string" if self._dialect.strings else numbers
        self.num_nodes: int | None = None if matrix is None else matrix.nodes
        self.num_edges: int | None = None if matrix is None else matrix.entries
        self.has_weight = weight is not None
        self.edge_features: tuple[int, np.dtype[Any]] | None = None
        self.features: RowStream | None = None
        self.stored_once = self._konect() if matrix is None else matrix.symmetric

    def _konect(self) -> bool | None:
        """Reads the direction of edges from KONECT's first comment."""
        found = _KONECT.match(self._dialect.comments[0]) if self._dialect.comments else None
        if found is None:
            return None
        if found[1] == "bip":
            raise FormatError(
                f"{self.name} is a bipartite graph whose two sides are both numbered from 1, so "
                "its ids do not name one node each; give the sides different ids and remove the "
                "line '% bip'"
            )
        return found[1] == "sym"

    def edges(self, step: int) -> Iterator[EdgeChunk]:
        """Reads the edges in order, at most `step` at a time."""
        dialect = self._dialect
        chunks = read_edges(
            self._path,
            dialect.picked[:2],
            step,
            dialect.layout,
            strings=dialect.strings,
            weight=dialect.picked.weight,
        )
        try:
            yield from chunks if dialect.matrix is None else self._entries(chunks, dialect.matrix)
        except InputError as error:
            if self._auto and str(error).endswith("expected an integer id"):
                raise InputError(f"{error}; pass --ids string if ids are text") from error
            raise

    def _entries(self, chunks: Iterator[EdgeChunk], matrix: Matrix) -> Iterator[EdgeChunk]:
        """Yields the entries of a matrix, counted from 1, as edges with ids from 0."""
        count = 0
        for chunk in chunks:
            for role, ids in (("row", chunk.source), ("column", chunk.target)):
                bad = np.flatnonzero((ids < 1) | (ids > matrix.nodes))
                if bad.size:
                    raise InputError(
                        f"{self.name} entry {count + int(bad[0])} has {role} {ids[bad[0]]}, "
                        f"expected 1 to {matrix.nodes}"
                    )
            count += len(chunk.source)
            yield chunk._replace(source=chunk.source - 1, target=chunk.target - 1)
        if count != matrix.entries:
            raise FormatError(
                f"{self.name} has {count} entries, but line {matrix.line} says {matrix.entries}; "
                "the file is truncated or damaged"
            )

    def small(self, budget: int) -> Small:
        """An edge list has neither labels nor splits."""
        return Small()

    @property
    def first_edge(self) -> tuple[int, str] | None:
        """Number and text of a first line that was read as an edge, and may be a header."""
        dialect = self._dialect
        doubt = dialect.names is None and dialect.strings and not self._told
        return dialect.first if doubt else None

    def notes(self) -> list[str]:
        """Notes on what was read and what was not."""
        dialect = self._dialect
        found = [
            f"Edges go from {self._column(dialect.picked.source)} to "
            f"{self._column(dialect.picked.target)} of {self.name}, separated by "
            f"{DELIMITERS[dialect.layout.delimiter]}."
        ]
        number, line = dialect.first
        if dialect.names is not None:
            found.append(f"Line {number}, {line[:80]!r}, was skipped as a header.")
        elif self.first_edge is not None:
            found.append(
                f"Line {number}, {line[:80]!r}, was read as an edge; --header yes takes it as a "
                "header."
            )
        if dialect.matrix is not None:
            found.append("MatrixMarket counts from 1, so node v has id v + 1 in the file.")
        elif self._auto and self.ids == "dense":
            found.append("Ids are integers and kept unchanged; --ids sparse renumbers them.")
        if self._auto and self.ids == "string":
            found.append("Ids are text, so the nodes are numbered.")
        if dialect.comments:
            found.append(
                f"{len(dialect.comments)} lines of comment come first, such as "
                f"{dialect.comments[0][:80]!r}."
            )
        left = [self._column(c) for c in range(dialect.count) if c not in dialect.picked]
        if left:
            listed = ", ".join(left[:5]) + (" and more" if len(left) > 5 else "")
            found.append(f"Not read: {listed}; --weight takes one as weights.")
        if self.stored_once:
            found.append("The first line says the graph is undirected, each edge stored once.")
        return found

    def _column(self, column: int) -> str:
        names = self._dialect.names
        named = f" ({names[column]})" if names and column < len(names) else ""
        return f"column {column + 1}{named}"
