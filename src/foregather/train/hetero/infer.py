"""infer: exact scores of all nodes of a run's target type, written as an array file."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from foregather.errors import InputError, StorageError
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.text_ids import TextIds
from foregather.graph.mapped import hold
from foregather.graph.on_disk.files import storage_error
from foregather.graph.on_disk.workspace import Workspace
from foregather.graph.original_ids import write_id_lines
from foregather.observe.progress import Progress
from foregather.targets import check_file, check_replaced
from foregather.train.exact.write import write_rows
from foregather.train.hetero.exact import choose_way, exact_scores
from foregather.train.hetero.load import TypedRun

__all__ = ["infer_typed"]

_STEP = 1 << 16


def infer_typed(
    run: TypedRun,
    out: str | os.PathLike[str],
    *,
    memory: str | None = None,
    batch_size: int | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Writes the scores of all nodes of the target type (.npy, float32 [N, columns]).

    Numbers of a regression are in the unit of its labels. Where the type has ids of its
    source, OUT.ids.csv has the id of each row.

    Args:
        run: a model and the graph.
        out: the file to make.
        memory: refused: typed graphs are held in memory.
        batch_size: maximum targets computed together; None: as many as is sensible.
        overwrite: replace `out`.

    Returns:
        Facts: what was written, how, and the scores of splits that have labels.

    Raises:
        InputError: an argument that has no effect here.
        NumericError: scores that are NaN or infinite.
        StorageError: `out` exists or cannot be written; nothing is left behind.
    """
    out, settings, task = Path(out), run.settings, run.task
    way = choose_way(run.model, settings)
    if memory is not None:
        raise InputError(
            f"memory is {memory}, but a typed graph is held in memory so far; leave it out"
        )
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size is {batch_size}, expected at least 1 target")
    if batch_size is not None and way == "whole":
        raise InputError(
            f"batch_size is {batch_size}, but {type(run.model).__name__} is called once with the "
            "whole graph; leave it out"
        )
    named = out.with_name(out.name + ".ids.csv")
    for path in (out, named) if task.table.ids is not None else (out,):
        check_file(path, overwrite)
    if batch_size is not None:
        settings = replace(settings, train=replace(settings.train, batch_size=batch_size))
    made = exact_scores(run.model, run.graph, task, settings, run.hops, None, batch_size)
    scores = task.goal.task.finish(made)
    try:
        with Workspace(out, ".scratch") as work:
            with Progress("writing", len(scores), "rows") as bar:
                write_rows(work.path / "scores.npy", iter([scores]), bar)
            work.commit("scores.npy", check_replaced if overwrite else None)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise storage_error(error, out, "writing") from error
    facts: dict[str, Any] = {"out": str(out), "nodes": len(scores), "target": task.target}
    facts["way"] = way
    if task.table.ids is not None:
        write_id_lines(_ids(task.table), named)
        facts["ids"] = str(named)
    return facts | task.goal.rate_splits(task.table, scores, settings.train.split)


def _ids(table: NodeTable) -> Iterator[list[Any]]:
    """The ids of all nodes in order, a piece at a time."""
    ids = table.ids
    for first in range(0, table.num_nodes, _STEP):
        end = min(first + _STEP, table.num_nodes)
        if isinstance(ids, TextIds):
            yield [ids[node] for node in range(first, end)]
        elif ids is not None:
            yield hold(ids)[first:end].tolist()
