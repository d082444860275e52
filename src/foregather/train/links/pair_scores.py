"""pair_scores: scores of pairs and of all targets, from rows of nodes and a decoder, in blocks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from foregather.errors import NumericError
from foregather.graph.links.known import KnownLinks
from foregather.nn.links.decoders import Decoder, ProductDecoder
from foregather.train.links.topk import Score, TopK, top_k_parts

__all__ = ["PairScorer", "check_finite"]

Ids = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]

_PAIRS = 1 << 16  # pairs scored at once
_BYTES = 1 << 26  # of a block of scores, unless said otherwise


@dataclass(frozen=True, eq=False)
class PairScorer:
    """The rows of all sources and targets, and what compares them.

    Attributes:
        left: of sources [sources, width].
        right: of targets [targets, width].
        decoder: in evaluation mode.
    """

    left: Tensor
    right: Tensor
    decoder: Decoder

    def best(
        self, k: int, *, sources: Ids | None = None, exclude: KnownLinks | None = None, memory: Any
    ) -> Iterator[TopK]:
        """The best targets of sources, by `top_k_parts`; for links of one relation.

        Args:
            k: how many.
            sources: whose; None: of all.
            exclude: known links, which are no answers.
            memory: see `top_k_parts`.
        """
        left = self.left
        score: Score = "dot"
        if self.decoder.product:
            with torch.no_grad():
                left = self.decoder.queries(left)
        else:
            score = self.decoder.against
        rows = left.cpu().numpy(), self.right.cpu().numpy()
        return top_k_parts(*rows, k, score=score, exclude=exclude, sources=sources, memory=memory)

    def of_relation(self, number: int) -> "PairScorer":
        """The same for links of one relation, which then need not be named."""
        with torch.no_grad():
            left = self.decoder.queries(self.left, torch.full((len(self.left),), number))
        return PairScorer(left, self.right, ProductDecoder(left.shape[1]))

    def turned(self) -> "PairScorer":
        """The same with the ends exchanged; scores of pairs must not depend on their order."""
        return PairScorer(self.right, self.left, _Turned(self.decoder))

    @torch.no_grad()
    def pairs(
        self, sources: Ids, targets: Ids, relation: Ids | None = None, time: Ids | None = None
    ) -> Scores:
        """Scores of pairs [n], or of sources with several targets [n, k]; times do not count."""
        parts = [np.empty((0, *targets.shape[1:]), np.float32)]
        step = max(1, _PAIRS // max(1, targets[:1].size))
        for first in range(0, len(sources), step):
            part = slice(first, first + step)
            left = self.left[_tensor(sources[part])]
            named = None if relation is None else _tensor(relation[part])
            if targets.ndim == 2:
                left = left.unsqueeze(1)
                named = None if named is None else named.unsqueeze(1)
            found = self.decoder(left, self.right[_tensor(targets[part])], named)
            parts.append(found.float().cpu().numpy())
        return np.concatenate(parts)

    @torch.no_grad()
    def against_all(
        self, sources: Ids, relation: Ids | None = None, room: int = _BYTES
    ) -> Iterator[tuple[slice, Tensor]]:
        """Scores of sources with every target, some sources at a time.

        Yields:
            Which of the sources, and their scores [block, targets].
        """
        step = _block_size(len(self.right), room)
        for first in range(0, len(sources), step):
            part = slice(first, min(first + step, len(sources)))
            named = None if relation is None else _tensor(relation[part])
            left = self.left[_tensor(sources[part])]
            yield part, self.decoder.against(left, self.right, named).float()


class _Turned(Decoder):
    """A decoder that is given targets first."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder, self.product = decoder, False

    def forward(self, left: Tensor, right: Tensor, relation: Tensor | None = None) -> Tensor:
        """Scores of pairs (source, target), given as (target, source)."""
        found: Tensor = self.decoder(right, left, relation)
        return found

    def against(self, left: Tensor, right: Tensor, relation: Tensor | None = None) -> Tensor:
        """Scores of each target with each source."""
        return self.decoder.against_sources(left, right, relation)


def _block_size(targets: int, room: int = _BYTES) -> int:
    """Sources whose scores with all targets fit into this many bytes; at least one."""
    return max(1, room // max(1, 4 * targets))


def check_finite(scores: Scores, what: str) -> None:
    """Raises NumericError if a score is NaN or infinite."""
    if not np.isfinite(scores).all():
        raise NumericError(
            f"scores of {what} hold NaN or infinity; try a smaller learning rate, and check the "
            "features"
        )


def _tensor(ids: Ids) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(ids))
