"""check: every id and time of links, and what is said about them."""

from typing import Any

import numpy as np

from foregather import _core
from foregather.errors import FormatError, InputError
from foregather.graph.chunks import row_pieces
from foregather.graph.columns import check_times
from foregather.graph.links.links import Links

__all__ = ["check_links", "link_facts_of"]

_AGAIN = "it is damaged, make the graph again"


def check_links(where: str, links: Links, num_sources: int, num_targets: int) -> None:
    """Checks that the ends of links and negatives are nodes, and that times are there.

    Raises:
        FormatError: names the array and the position of the first problem.
    """
    for name, values in links.arrays().items():
        if name not in ("labels", "time"):
            count = num_sources if name.endswith("sources") else num_targets
            for start, piece in row_pieces(values):
                flat = np.ascontiguousarray(piece).reshape(-1)
                bad = _core.check_ids(flat, count)
                if bad >= 0:
                    row = start + bad // max(1, flat.size // max(1, len(piece)))
                    raise FormatError(
                        f"{where}: {name} holds node {int(flat[bad])} at position {row}, but there "
                        f"are {count} such nodes (ids are 0 to N-1); {_AGAIN}"
                    )
        elif name == "time":
            for start, piece in row_pieces(values):
                try:
                    check_times(piece, "time", start)
                except InputError as error:
                    raise FormatError(f"{where}: {error}") from error


def link_facts_of(links: Links) -> dict[str, Any]:
    """What `info` says about links."""
    negatives, candidates = links.negative_sources, links.candidates
    return {
        "num_links": links.num_links,
        "labels": None if links.labels is None else links.labels.dtype.name,
        "time": links.time is not None,
        "negatives": None if negatives is None else int(negatives.size),
        "candidates": None if candidates is None else int(candidates.shape[1]),
    }
