"""links: the `Links` value: pairs of nodes to be predicted, and what is known about each.

Links are not edges: no message passes along them, though a link may be an edge as well (training
links usually are). Shapes and dtypes are checked on construction, ids where links are made
(`Links.of`) and by `verify`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.arrays import id_dtype, to_array
from foregather.graph.columns import to_rows, to_times
from foregather.graph.mapped import fetch
from foregather.graph.names import check_name, nearest
from foregather.graph.on_disk.holdable import DTYPES
from foregather.units import format_number

__all__ = ["Links", "check_alike", "find_links", "same_name"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]

_SAME = ("valid", "val", "validation")


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of a source and a target that are to be predicted, such as those of a split.

    Arrays are in memory or mapped; `index` and `negatives` read them.

    Attributes:
        sources: ids, uint32 [links] (int64 where there are 2^32 nodes or more).
        targets: ids, uint32 or int64 [links].
        labels: what is known about each link: a rating, a class, the number of a relation; or None.
        time: int64 [links], when each link came to be; or None.
        negative_sources: ids [n] of pairs that are no links, which all links are compared with; or
            None.
        negative_targets: ids [n], with `negative_sources`.
        candidates: ids [links, n]: targets that are no answers, for each link its own; or None.
    """

    sources: Array
    targets: Array
    labels: Array | None = None
    time: Int | None = None
    negative_sources: Array | None = None
    negative_targets: Array | None = None
    candidates: Array | None = None

    def __post_init__(self) -> None:
        _check_ids_array("sources", self.sources, (self.sources.size,))
        links = self.num_links
        _check_ids_array("targets", self.targets, (links,))
        if self.labels is not None and (
            self.labels.shape[:1] != (links,) or self.labels.dtype.name not in DTYPES
        ):
            raise InputError(
                f"labels are {self.labels.dtype} of shape {list(self.labels.shape)}, expected "
                f"numbers with {links} rows, one per link"
            )
        if self.time is not None and (self.time.dtype != np.int64 or self.time.shape != (links,)):
            raise InputError(
                f"time is {self.time.dtype} of shape {list(self.time.shape)}, expected int64 of "
                f"shape [{links}], one per link"
            )
        if (self.negative_sources is None) != (self.negative_targets is None):
            raise InputError("negatives have only one of their two ends, expected both")
        if self.negative_sources is not None and self.negative_targets is not None:
            count = self.negative_sources.size
            _check_ids_array("negative_sources", self.negative_sources, (count,))
            _check_ids_array("negative_targets", self.negative_targets, (count,))
        if self.candidates is not None:
            each = self.candidates.shape[1] if self.candidates.ndim == 2 else 0
            _check_ids_array("candidates", self.candidates, (links, each))

    @property
    def num_links(self) -> int:
        """Number of links."""
        return int(self.sources.size)

    def __len__(self) -> int:
        return self.num_links

    @property
    def index(self) -> Int:
        """The links as int64 [2, links] in memory: row 0 the sources, row 1 the targets."""
        return _both(self.sources, self.targets)

    @property
    def negatives(self) -> Int | None:
        """The given negative pairs as int64 [2, n] in memory, or None."""
        if self.negative_sources is None or self.negative_targets is None:
            return None
        return _both(self.negative_sources, self.negative_targets)

    def arrays(self) -> dict[str, Array]:
        """The arrays that there are, by their names."""
        named = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: values for name, values in named.items() if values is not None}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the arrays, read into memory."""
        values = (getattr(self, one.name) for one in fields(self))
        return Links, tuple(None if v is None else fetch(v) for v in values)

    def __repr__(self) -> str:
        more = [
            name for name in ("labels", "time", "candidates") if getattr(self, name) is not None
        ]
        if self.negative_sources is not None:
            more.append(format_number(self.negative_sources.size, "negative"))
        return f"Links({', '.join([format_number(self.num_links, 'link'), *more])})"

    @staticmethod
    def of(
        index: Any,
        num_sources: int,
        num_targets: int,
        *,
        labels: Any = None,
        time: Any = None,
        negatives: Any = None,
        candidates: Any = None,
    ) -> "Links":
        """Makes links from tensors, arrays or lists, checking every id and time.

        Args:
            index: [2, links]: row 0 the sources, row 1 the targets.
            num_sources: nodes that a source may be.
            num_targets: nodes that a target may be.
            labels: one row of numbers per link.
            time: [links] whole numbers, or datetime64, which becomes seconds since 1970.
            negatives: [2, n] pairs that are no links, which all links are compared with.
            candidates: [links, n] targets that each link is compared with.

        Raises:
            InputError: an id that is no node, or something that does not fit.
        """
        sources, targets = _ends(index, num_sources, num_targets, "link")
        count = sources.size
        others: tuple[Array | None, Array | None] = (None, None)
        if negatives is not None:
            others = _ends(negatives, num_sources, num_targets, "negative")
        rows = None
        if candidates is not None:
            rows = to_array(candidates, "candidates")
            if rows.ndim != 2 or rows.shape[0] != count:
                raise InputError(
                    f"candidates have shape {list(rows.shape)}, expected [{count}, n], one row of "
                    "targets per link"
                )
            rows = _nodes(rows, num_targets, "candidates", "target")
        return Links(
            sources,
            targets,
            None if labels is None else to_rows(labels, count, "labels", "link"),
            None if time is None else to_times(time, count, "time", "link"),
            *others,
            rows,
        )


def _check_ids_array(name: str, ids: Array, shape: tuple[int, ...]) -> None:
    if ids.dtype not in (np.uint32, np.int64) or ids.shape != shape:
        expected = ", ".join(map(str, shape)) if shape[0] or len(shape) > 1 else "links"
        raise InputError(
            f"{name} is {ids.dtype} of shape {list(ids.shape)}, expected uint32 or int64 of shape "
            f"[{expected}]"
        )


def _both(sources: Array, targets: Array) -> Int:
    made = np.empty((2, sources.size), np.int64)
    made[0], made[1] = fetch(sources), fetch(targets)
    return made


def _ends(index: Any, num_sources: int, num_targets: int, what: str) -> tuple[Array, Array]:
    """The two rows of pairs, in the dtype that they are held in."""
    pairs = to_array(index, f"{what}s")
    if pairs.size == 0 and pairs.shape[:1] in ((0,), (2,)):
        pairs = np.empty((2, 0), np.int64)  # an empty tensor is float by default
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        turned = "; transpose it" if pairs.ndim == 2 and pairs.shape[1] == 2 else ""
        raise InputError(
            f"{what}s have shape {list(pairs.shape)}, expected [2, n]: row 0 the sources, row 1 "
            f"the targets{turned}"
        )
    return (
        _nodes(pairs[0], num_sources, f"{what}s", "source"),
        _nodes(pairs[1], num_targets, f"{what}s", "target"),
    )


def _nodes(given: Array, count: int, name: str, end: str) -> Array:
    """Ids that are nodes, in the dtype of a graph of that size."""
    if given.size and given.dtype.kind not in "iu":
        raise InputError(f"{name} hold {given.dtype}, expected node ids, which are whole numbers")
    flat = np.ascontiguousarray(given, dtype=np.int64).reshape(-1)
    bad = _core.check_ids(flat, count)
    if bad >= 0:
        row = bad // given.shape[1] if given.ndim == 2 else bad
        raise InputError(
            f"{name} hold the {end} {int(given.reshape(-1)[bad])} at position {row}, but there "
            f"are {count} such nodes (ids are 0 to N-1)"
        )
    return flat.astype(id_dtype(count), copy=False).reshape(given.shape)


def same_name(name: str) -> tuple[str, ...]:
    """The names that mean the same list of links; val, valid and validation are one."""
    return (name, *(one for one in _SAME if one != name)) if name in _SAME else (name,)


def find_links(name: Any, known: Mapping[str, Links], of: str) -> Links:
    """The links of that name; val, valid and validation are the same name.

    Args:
        name: the name.
        known: what there is.
        of: what has them, for the message.

    Raises:
        InputError: there are none; the message names the nearest.
    """
    for candidate in same_name(str(name)):
        if candidate in known:
            return known[candidate]
    said = nearest(str(name), sorted(known)) if known else "split_links or with_links makes some"
    raise InputError(f"{of} has no links {name!r:.80}; {said}")


def check_alike(links: Mapping[str, Links], of: str) -> dict[str, Links]:
    """Checks the names of all links of a relation, and that all or none have times.

    Raises:
        InputError: a name that cannot be stored, two for one thing, or times on one side only.
    """
    made = {check_name(name, "list of links"): one for name, one in links.items()}
    for name in made:
        twice = [other for other in same_name(name)[1:] if other in made]
        if twice:
            raise InputError(
                f"{of} has links {name!r} and {twice[0]!r}, which mean the same; leave one out"
            )
    timed = sorted(name for name, one in made.items() if one.time is not None)
    if timed and len(timed) < len(made):
        without = min(made.keys() - set(timed))
        raise InputError(
            f"{of} has links {timed[0]!r} with times and links {without!r} without; give all of "
            "them times, or none"
        )
    return {name: made[name] for name in sorted(made)}
