"""infer_links: with a run's model: scores of given pairs, the best targets of sources, rows.

Everything is exact: rows of all nodes with every edge, then the decoder; with times, the two trees
of each pair. Results have the ids of the source.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.hetero.names import show_edge_type
from foregather.targets import check_file
from foregather.train.links.inference.link_files import Table, check_form, read_pairs, write_table
from foregather.train.links.inference.link_ids import end_ids, find_relation
from foregather.train.links.inference.load_links import LinkRun
from foregather.train.links.make_links import is_lookup
from foregather.train.links.node_rows import NodeRows, TreeScores
from foregather.train.links.pair_scores import PairScorer, check_finite

__all__ = ["infer_embeddings", "infer_pairs", "infer_top_k"]

Ids = npt.NDArray[np.int64]
_TOP_ROOM = "256MB"


def _timed(run: LinkRun) -> bool:
    return run.settings.typed.time != "none" and not is_lookup(run.settings)


def _rows(run: LinkRun, out: Path) -> PairScorer:
    with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=".rows-") as place:
        return NodeRows(run.model, run.data, run.settings, Path(place)).exact()


def infer_pairs(run: LinkRun, pairs: Path, out: Path, overwrite: bool = False) -> dict[str, Any]:
    """Writes the scores of given pairs, next to their ids.

    Args:
        run: a model and the graph.
        pairs: .csv or .parquet with the columns source and target, of ids of the source; relation
            where links have several; time where the run looked at times.
        out: .csv or .parquet to make, with the column score added.
        overwrite: replace `out`.

    Returns:
        Facts: what was written.

    Raises:
        InputError: a pair that names no node, or a missing column.
        StorageError: `out` exists or cannot be written.
    """
    check_form(out)
    check_file(out, overwrite)
    data, several = run.data, bool(run.data.several)
    wanted = ("source", "target", *(["relation"] if several else []))
    table = read_pairs(pairs, (*wanted, "time") if _timed(run) else wanted)
    left, right = end_ids(data)
    sources, targets = left.find(table["source"]), right.find(table["target"])
    relation = find_relation(data, table["relation"]) if several else None
    if _timed(run):
        scores = TreeScores(run.model, data, run.settings, True).pairs(
            sources, targets, relation, _times(table["time"])
        )
    else:
        scores = _rows(run, out).pairs(sources, targets, relation)
    check_finite(scores, "pairs")
    write_table(out, iter([{**table, "score": scores.tolist()}]), overwrite)
    return {"out": str(out), "pairs": len(scores), "relation": _name(run)}


def _times(given: list[str]) -> Ids:
    try:
        return np.array([int(text) for text in given], np.int64)
    except ValueError as error:
        raise InputError(f"the column time of pairs: {error}; expected whole numbers") from error


def infer_top_k(
    run: LinkRun,
    k: int,
    out: Path,
    *,
    relation: str = "",
    with_known: bool = False,
    memory: str | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Writes the k best targets of every source, best first.

    Args:
        run: a model and the graph.
        k: targets for each source.
        out: .csv or .parquet to make: source, target and score.
        relation: where links have several, which one.
        with_known: targets that a source is known to be linked to (edges and links of the graph)
            may be answers too.
        memory: bytes for blocks of scores; None: 256 MB.
        overwrite: replace `out`.

    Returns:
        Facts: what was written.

    Raises:
        InputError: k is larger than the number of targets, or every link has its own view.
        BudgetError: `memory` is too small; the message states the minimum.
        StorageError: `out` exists or cannot be written.
    """
    check_form(out)
    check_file(out, overwrite)
    data = run.data
    if _timed(run):
        raise InputError(
            "the run looked at times, so every link has its own view of the graph and there are no "
            "best targets for all times; score pairs with their times instead (--pairs)"
        )
    if bool(relation) != bool(data.several):
        raise InputError(
            f"relation is {relation!r}, but the links have {data.several or 1} relation(s); "
            + ("name one of them" if data.several else "leave it out")
        )
    rows, number = _rows(run, out), 0
    if data.several:
        number = int(find_relation(data, [relation])[0])
        rows = rows.of_relation(number)
    exclude = None if with_known else data.known_of(number)
    left, right = end_ids(data)

    def tables() -> Iterator[Table]:
        for part in rows.best(k, exclude=exclude, memory=memory or _TOP_ROOM):
            there = part.targets >= 0
            found = np.repeat(part.sources, there.sum(1))
            yield {
                "source": left.of(found),
                "target": right.of(part.targets[there]),
                "score": part.scores[there].tolist(),
            }

    lines = write_table(out, tables(), overwrite)
    facts = {"out": str(out), "sources": data.counts[0], "k": k, "lines": lines}
    return facts | {"known": "kept" if with_known else "left out", "relation": _name(run)}


def infer_embeddings(run: LinkRun, out: Path, overwrite: bool = False) -> dict[str, Any]:
    """Writes the rows of all nodes that the decoder compares.

    Args:
        run: a model and the graph.
        out: .npy (float32, a row for each node; ids in NAME.npy.ids.csv) or .parquet (id and row).
            Where links join two types, NAME.TYPE.npy for each.
        overwrite: replace files.

    Returns:
        Facts: what was written.

    Raises:
        InputError: every link has its own view of the graph.
        StorageError: a file exists or cannot be written.
    """
    from foregather.train.links.inference.link_files import write_rows_with_ids

    if _timed(run):
        raise InputError(
            "the run looked at times, so a node has another row for every link; score pairs with "
            "their times instead (--pairs)"
        )
    if out.suffix not in (".npy", ".parquet"):
        raise InputError(f"{out.name} ends with {out.suffix!r}, expected .npy or .parquet")
    files = {0: out}
    if not run.data.same:
        assert run.data.edge_type is not None
        ends = (run.data.edge_type[0], run.data.edge_type[2])
        files = {end: out.with_name(f"{out.stem}.{ends[end]}{out.suffix}") for end in (0, 1)}
    for path in files.values():
        check_file(path, overwrite)
        if path.suffix == ".npy":
            check_file(path.with_name(path.name + ".ids.csv"), overwrite)
    rows, ids = _rows(run, out), end_ids(run.data)
    written = []
    for end, path in files.items():
        values = (rows.left, rows.right)[end].cpu().numpy()
        check_finite(values, "nodes")
        write_rows_with_ids(path, values, ids[end], overwrite)
        written.append(str(path))
    return {"out": written, "width": int(rows.left.shape[1]), "relation": _name(run)}


def _name(run: LinkRun) -> str:
    found = run.data.edge_type
    return "" if found is None else show_edge_type(found)
