"""topk: the best targets of every source, exactly, by products of blocks within a memory budget.

All pairs are scored, so nothing is missed. Equal scores go by the lower target id. Embeddings may
be mapped files larger than memory: sources are read once, targets once for each pass.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from foregather import _core
from foregather.errors import InputError, NumericError
from foregather.graph.arrays import to_array, to_ids
from foregather.graph.links.known import KnownLinks
from foregather.graph.mapped import fetch, take
from foregather.observe.progress import Progress
from foregather.train.links.blocks import TILE_SOURCES, TILE_TARGETS, plan_blocks
from foregather.units import parse_size

__all__ = ["Score", "TopK", "score_pairs", "top_k", "top_k_parts"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]
#: "dot", or a function of source rows [m, D] and target rows [n, D] that gives scores [m, n].
Score = Literal["dot"] | Callable[[Tensor, Tensor], Tensor]
#: "dot", or a function of rows [n, D] of sources and of targets that gives scores [n].
PairScore = Literal["dot"] | Callable[[Tensor, Tensor], Tensor]

_PAIRS = 1 << 16  # pairs scored at a time


@dataclass(frozen=True, eq=False, slots=True)
class TopK:
    """The best targets of some sources, best first.

    Attributes:
        sources: int64 [n].
        targets: int64 [n, k]; -1 where a source has fewer candidates.
        scores: [n, k], descending; minus infinity where there is no target.
    """

    sources: Int
    targets: Int
    scores: Array


def top_k(
    src_embeddings: Any,
    dst_embeddings: Any,
    k: int,
    *,
    score: Score = "dot",
    exclude: KnownLinks | None = None,
    sources: Any = None,
    memory: str | int | None = None,
) -> TopK:
    """The k best targets of every source; see `top_k_parts`, which does not hold all of them."""
    parts = list(
        top_k_parts(
            src_embeddings,
            dst_embeddings,
            k,
            score=score,
            exclude=exclude,
            sources=sources,
            memory=memory,
        )
    )
    dtype = parts[0].scores.dtype if parts else np.dtype(np.float32)
    return TopK(
        np.concatenate([np.empty(0, np.int64), *(one.sources for one in parts)]),
        np.concatenate([np.empty((0, k), np.int64), *(one.targets for one in parts)]),
        np.concatenate([np.empty((0, k), dtype), *(one.scores for one in parts)]),
    )


def top_k_parts(
    src_embeddings: Any,
    dst_embeddings: Any,
    k: int,
    *,
    score: Score = "dot",
    exclude: KnownLinks | None = None,
    sources: Any = None,
    memory: str | int | None = None,
) -> Iterator[TopK]:
    """The k best targets of every source, some sources at a time, in order.

    The result is exact, and with "dot" the same bits for any budget and number of threads: the
    products of a pair are added in the order of the columns, whatever else is computed.

    Args:
        src_embeddings: [sources, D] array (which may be mapped) or tensor.
        dst_embeddings: [targets, D].
        k: targets for each source.
        score: "dot", or a function of source rows [m, D] and target rows [n, D] that gives scores
            [m, n]. Minus infinity means that a pair is no candidate.
        exclude: known links, whose targets are no candidates for their source.
        sources: ids of the sources that are asked for; None: all.
        memory: bytes ("500MB") for blocks of embeddings, scores and lists; the embeddings
            themselves count only while they are read. None: all sources at once.

    Raises:
        InputError: shapes do not fit, or k is larger than the number of targets.
        BudgetError: `memory` is below the minimum, which the message states.
        NumericError: a score is NaN.
    """
    rows, others = _matrix(src_embeddings, "source"), _matrix(dst_embeddings, "target")
    if score == "dot" and rows.shape[1] != others.shape[1]:
        raise InputError(
            f"source embeddings have {rows.shape[1]} columns and target embeddings "
            f"{others.shape[1]}, expected as many"
        )
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(f"k is {k!r:.40}, expected a whole number from 1 on")
    if k > len(others):
        raise InputError(f"k is {k}, but there are only {len(others)} targets; choose a smaller k")
    if exclude is not None and (exclude.num_sources, exclude.num_targets) != (
        len(rows),
        len(others),
    ):
        raise InputError(
            f"the known links are of {exclude.num_sources} sources and {exclude.num_targets} "
            f"targets, but there are embeddings of {len(rows)} and {len(others)}"
        )
    asked: Int = np.arange(len(rows), dtype=np.int64)
    if sources is not None:
        asked = np.asarray(to_ids(sources, len(rows), "sources", "sources"), np.int64)
    return _parts(rows, others, k, score, exclude, asked, memory)


def _parts(
    rows: Array,
    others: Array,
    k: int,
    score: Score,
    exclude: KnownLinks | None,
    asked: Int,
    memory: str | int | None,
) -> Iterator[TopK]:
    dtype = np.dtype(np.float64 if np.float64 in (rows.dtype, others.dtype) else np.float32)
    most = 0
    if exclude is not None and len(asked):
        per = exclude.counts[asked]
        most = int(np.add.reduceat(per, np.arange(0, len(per), TILE_SOURCES)).max())
    budget = None if memory is None else parse_size(memory)
    width = max(rows.shape[1], others.shape[1])
    blocks = plan_blocks(budget, len(asked), width, dtype.itemsize, k, most)
    with Progress("best targets", len(asked) * len(others), "pairs") as bar:
        for start in range(0, len(asked), blocks.sources):
            mine = asked[start : start + blocks.sources]
            yield _one_pass(take(rows, mine), others, k, score, exclude, mine, dtype, bar)


def _one_pass(
    rows: Array,
    others: Array,
    k: int,
    score: Score,
    exclude: KnownLinks | None,
    mine: Int,
    dtype: np.dtype[Any],
    bar: Progress,
) -> TopK:
    """The lists of the sources `mine`, while all targets pass by once."""
    scores = np.full((len(mine), k), -np.inf, dtype)
    targets = np.full((len(mine), k), -1, np.int64)
    for first in range(0, len(others), TILE_TARGETS):
        block = np.ascontiguousarray(fetch(others[first : first + TILE_TARGETS]), dtype)
        count = len(block)
        turned = np.ascontiguousarray(block.T) if score == "dot" else block
        for begin in range(0, len(mine), TILE_SOURCES):
            part = slice(begin, min(begin + TILE_SOURCES, len(mine)))
            found = _scores(rows[part], turned, count, score, dtype)
            if exclude is not None:
                at, known = exclude.of_sources(mine[part])
                here = (known >= first) & (known < first + count)
                found[at[here], known[here] - first] = -np.inf
            _merge(scores[part], targets[part], found, first)
            bar.advance(found.size)
    return TopK(mine, targets, scores)


def _scores(rows: Array, block: Array, count: int, score: Score, dtype: np.dtype[Any]) -> Array:
    """Scores of all pairs; for "dot" the columns of `block` are the targets, else its rows."""
    given = np.ascontiguousarray(rows, dtype)
    made: Array = np.empty((len(rows), count), dtype)
    if score == "dot":
        _core.pair_dots(given, block, made)
    else:
        with torch.no_grad():
            found = score(torch.from_numpy(given), torch.from_numpy(block)).detach().cpu()
        if found.shape != made.shape:
            raise InputError(
                f"the score function gave {list(found.shape)} for {len(rows)} sources and {count} "
                "targets, expected a score for each pair"
            )
        made[:] = found.numpy()
    if np.isnan(made).any():
        raise NumericError(
            "a score is NaN, which has no place in a list; the model has diverged or divides by "
            "zero"
        )
    return made


def _merge(scores: Array, targets: Int, found: Array, first: int) -> None:
    """Puts scores of the targets from `first` on into the lists, whose targets have lower ids."""
    k = scores.shape[1]
    enters = found > scores[:, -1:]  # an equal one has a higher id than those in a full list
    if int(enters.sum()) > 4 * k * len(found):
        least = np.partition(found, found.shape[1] - k, axis=1)[:, found.shape[1] - k]
        enters &= found >= least[:, None]
    at, place = np.nonzero(enters)
    if not at.size:
        return
    changed = np.unique(at)
    rows = np.concatenate([np.repeat(changed, k), at])
    value = np.concatenate([scores[changed].reshape(-1), found[at, place]])
    ids = np.concatenate([targets[changed].reshape(-1), place + first])
    there = ids >= 0
    rows, value, ids = rows[there], value[there], ids[there]
    order = np.lexsort((ids, -value, rows))
    rows, value, ids = rows[order], value[order], ids[order]
    begins = np.searchsorted(rows, rows)
    rank = np.arange(len(rows)) - begins
    kept = rank < k
    scores[rows[kept], rank[kept]] = value[kept]
    targets[rows[kept], rank[kept]] = ids[kept]


def score_pairs(
    src_embeddings: Any, dst_embeddings: Any, index: Any, *, score: PairScore = "dot"
) -> Array:
    """Scores of given pairs, 65,536 of them at a time.

    Args:
        src_embeddings: [sources, D] array (which may be mapped) or tensor.
        dst_embeddings: [targets, D].
        index: [2, pairs]: row 0 the sources, row 1 the targets.
        score: "dot", or a function of the rows [n, D] of sources and of targets that gives [n].

    Raises:
        InputError: shapes do not fit, or an id has no row.
        NumericError: a score is NaN.
    """
    rows, others = _matrix(src_embeddings, "source"), _matrix(dst_embeddings, "target")
    pairs = to_array(index, "index")
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise InputError(f"index has shape {list(pairs.shape)}, expected [2, pairs]")
    left = to_ids(pairs[0], len(rows), "sources of pairs", "sources").astype(np.int64)
    right = to_ids(pairs[1], len(others), "targets of pairs", "targets").astype(np.int64)
    dtype = np.dtype(np.float64 if np.float64 in (rows.dtype, others.dtype) else np.float32)
    made = np.empty(len(left), dtype)
    with Progress("scores", len(left), "pairs") as bar, torch.no_grad():
        for start in range(0, len(left), _PAIRS):
            part = slice(start, start + _PAIRS)
            a, b = (
                torch.from_numpy(np.ascontiguousarray(take(table, ids[part]), dtype))
                for table, ids in ((rows, left), (others, right))
            )
            found = (a * b).sum(1) if score == "dot" else score(a, b).detach().cpu()
            if found.shape != (len(a),):
                raise InputError(
                    f"the score function gave {list(found.shape)} for {len(a)} pairs, expected one "
                    "score each"
                )
            made[part] = found.numpy()
            bar.advance(len(a))
    if np.isnan(made).any():
        raise NumericError(
            f"the score of pair {int(np.isnan(made).argmax())} is NaN; the model has diverged or "
            "divides by zero"
        )
    return made


def _matrix(value: Any, name: str) -> Array:
    made = to_array(value, f"{name} embeddings")
    if made.ndim != 2 or made.dtype.kind != "f":
        raise InputError(
            f"{name} embeddings are {made.dtype} of shape {list(made.shape)}, expected floats "
            "[nodes, columns]"
        )
    return made
