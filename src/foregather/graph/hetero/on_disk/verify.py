"""verify: reads every byte of a typed graph and reports the first problem, if any.

Files are compared with their headers and checksums; then ids, orders and times of each relation and
the contents of each table are checked, piece by piece.
"""

from foregather import _core
from foregather.errors import FormatError, InputError
from foregather.graph.chunks import row_pieces
from foregather.graph.hetero.check import check_relation
from foregather.graph.hetero.columns import check_times
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.relation import Relation
from foregather.graph.hetero.text_ids import TextIds
from foregather.graph.hetero.value import HeteroValue
from foregather.graph.integrity.file_checks import check_files
from foregather.graph.integrity.verify import Report, count_nonfinite
from foregather.graph.links.check import check_links
from foregather.graph.mapped import fetch
from foregather.graph.on_disk.meta import read_meta

__all__ = ["verify_typed"]

_AGAIN = "it is damaged, make the graph again"


def verify_typed(graph: HeteroValue, threads: int = 0) -> Report:
    """Checks a typed graph completely.

    Raises:
        FormatError: names the file, or the type or relation, and the place of the first problem.
        StorageError: a file cannot be read.
    """
    size = chunks = 0
    blocks: int | None = None
    if graph.path is not None:
        size, chunks, blocks = check_files(graph.path, read_meta(graph.path), threads)
    for name, table in graph.nodes.items():
        _check_table(f"node type {name!r}", table)
    warnings = []
    for edge_type, relation in graph.edges.items():
        source = graph.nodes[edge_type[0]]
        times = None if source.time is None else fetch(source.time)
        check_relation(relation, edge_type, source.num_nodes, times, threads)
        negative = _check_weights(f"relation ({', '.join(edge_type)})", relation)
        if negative:
            warnings.append(
                f"relation ({', '.join(edge_type)}): {negative} weights are negative, which "
                "sampling by weight refuses"
            )
    for edge_type, lists in graph.links.items():
        ends = (graph.nodes[edge_type[end]].num_nodes for end in (0, 2))
        sources, targets = ends
        for name, links in lists.items():
            check_links(f"links {name!r} of ({', '.join(edge_type)})", links, sources, targets)
    bad = _nonfinite(graph)
    warnings = [f"{name} holds {count} NaN or infinite numbers" for name, count in bad.items()] + (
        warnings
    )
    return Report(
        tuple(sorted(graph.stored_arrays())),
        size,
        chunks,
        graph.num_nodes,
        graph.num_edges,
        bad,
        tuple(warnings),
        blocks,
    )


def _check_table(where: str, table: NodeTable) -> None:
    for name, ids in table.splits.items():
        for start, piece in row_pieces(ids):
            bad = _core.check_ids(piece, table.num_nodes)
            if bad >= 0:
                raise FormatError(
                    f"{where}: split {name!r} holds node {int(piece[bad])} at position "
                    f"{start + bad}, but there are {table.num_nodes} nodes (ids are 0 to N-1); "
                    f"{_AGAIN}"
                )
    if table.time is not None:
        for start, piece in row_pieces(table.time):
            try:
                check_times(piece, "time", start)
            except InputError as error:
                raise FormatError(f"{where}: {error}") from error
    if isinstance(table.ids, TextIds):
        _check_text(where, table.ids)
    for name, scale in table.scales.items():
        if count_nonfinite(f"scale of {name}", scale):
            raise FormatError(f"{where}: the scale of feature {name!r} is not finite; {_AGAIN}")


def _check_text(where: str, ids: TextIds) -> None:
    previous = 0
    for start, borders in row_pieces(ids.offsets):
        bad = _core.check_indptr(borders, previous)
        if bad >= 0:
            raise FormatError(
                f"{where}: the offsets of ids fall at position {start + bad}; {_AGAIN}"
            )
        data = fetch(ids.data[previous : int(borders[-1])])
        cut = borders[(borders > previous) & (borders < borders[-1])] - previous
        try:
            data.tobytes().decode()
            whole = not ((data[cut] & 0xC0) == 0x80).any()  # no id begins inside a character
        except UnicodeDecodeError:
            whole = False
        if not whole:
            raise FormatError(f"{where}: the ids are not UTF-8; {_AGAIN}")
        previous = int(borders[-1])


def _check_weights(where: str, relation: Relation) -> int:
    """Refuses weights that are not finite; returns how many are negative."""
    negative = 0
    if relation.weights is not None:
        if count_nonfinite("weights", relation.weights):
            raise FormatError(f"{where}: weights hold NaN or infinity; {_AGAIN}")
        negative = sum(int((piece < 0).sum()) for _, piece in row_pieces(relation.weights))
    return negative


def _nonfinite(graph: HeteroValue) -> dict[str, int]:
    """NaN and infinite numbers in features, by the array's name in a folder."""
    return {
        name: count
        for name, values in graph.stored_arrays().items()
        if "/features" in name
        and not name.endswith("_scale")
        and values.dtype.kind == "f"
        and (count := count_nonfinite(name, values))
    }
