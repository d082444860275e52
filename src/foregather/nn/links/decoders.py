"""decoders: from the rows of two nodes, and of their relation, to the score of a link.

All but `hadamard` and `mlp` are products: a query made from the source (and the relation) times the
row of the target. So the scores of many targets are one matrix product, and the best of all are
found by blocks of it.

`bilinear` and `mlp` tell the ends of a link apart, so both directions of it have scores of their
own. Links without a direction are stored in one of the two, and often with the smaller id first;
what such a decoder learns of them says little of pairs that are stored otherwise.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from foregather.errors import InputError

__all__ = [
    "DECODERS",
    "DECODER_LINES",
    "Decoder",
    "HadamardDecoder",
    "MLPDecoder",
    "ProductDecoder",
    "make_decoder",
]

_PAIRS = 1 << 18  # pairs that layers score at once


class Decoder(nn.Module):
    """Scores pairs of rows.

    Attributes:
        product: whether a score is the product of `queries` and the target's row.
        symmetric: whether a pair has the same score in both directions.
        relations: how many relations it has weights for; 0 for none.
    """

    product: bool = True
    symmetric: bool = True
    relations: int = 0

    def queries(self, left: Tensor, relation: Tensor | None = None) -> Tensor:
        """Rows whose product with the row of a target is the score of the pair.

        Args:
            left: rows of sources [..., width].
            relation: their relations [...], where the decoder has any.
        """
        raise NotImplementedError

    def forward(self, left: Tensor, right: Tensor, relation: Tensor | None = None) -> Tensor:
        """Scores of pairs [...], from rows [..., width] that fit each other."""
        queries = self.queries(left, relation)
        if queries.ndim == 3 and right.ndim == 3 and queries.shape[1] == 1:
            # one source and its targets: no array of all products is made
            return torch.bmm(right, queries.transpose(1, 2)).squeeze(2)
        return (queries * right).sum(-1)

    def against(self, left: Tensor, right: Tensor, relation: Tensor | None = None) -> Tensor:
        """Scores of each source with each target [m, n]."""
        return self.queries(left, relation) @ right.T

    def against_sources(
        self, right: Tensor, left: Tensor, relation: Tensor | None = None
    ) -> Tensor:
        """Scores of each target with each source [targets, sources]; relations are of targets."""
        return self.keys(right, relation) @ left.T

    def keys(self, right: Tensor, relation: Tensor | None = None) -> Tensor:
        """Rows whose product with the row of a source is the score of the pair."""
        raise NotImplementedError


class ProductDecoder(Decoder):
    """The inner product of both rows."""

    def __init__(self, width: int, relations: int = 0) -> None:
        super().__init__()
        self.width = width

    def queries(self, left: Tensor, relation: Tensor | None = None) -> Tensor:
        """The rows themselves."""
        return left

    def keys(self, right: Tensor, relation: Tensor | None = None) -> Tensor:
        """The rows themselves, or what is symmetric in both ends."""
        return self.queries(right, relation)


class BilinearDecoder(ProductDecoder):
    """left W right, so the two directions of a link may have different scores."""

    symmetric = False

    def __init__(self, width: int, relations: int = 0) -> None:
        super().__init__(width)
        self.weight = nn.Parameter(torch.empty(width, width))
        nn.init.xavier_uniform_(self.weight)

    def queries(self, left: Tensor, relation: Tensor | None = None) -> Tensor:
        """Left W."""
        return left @ self.weight

    def keys(self, right: Tensor, relation: Tensor | None = None) -> Tensor:
        """W right."""
        return right @ self.weight.T


class DistMultDecoder(ProductDecoder):
    """The sum of left * relation * right: a learned row for each relation. Yang et al., ICLR 2015.

    Args:
        width: columns of rows.
        relations: how many relations there are; with one, none needs to be named.
    """

    def __init__(self, width: int, relations: int = 1) -> None:
        super().__init__(width)
        self.relations = max(1, relations)
        self.relation = nn.Parameter(torch.empty(self.relations, width))
        nn.init.xavier_uniform_(self.relation)

    def queries(self, left: Tensor, relation: Tensor | None = None) -> Tensor:
        """Left * relation."""
        if relation is None:
            if self.relations > 1:
                raise InputError(
                    f"distmult has {self.relations} relations, but it is not said which one a pair "
                    "is of; pass relation="
                )
            return left * self.relation[0]
        return left * self.relation[relation]


class _LayeredDecoder(Decoder):
    """A decoder whose layers see each pair, so that many pairs are scored in blocks."""

    product = False

    def against(self, left: Tensor, right: Tensor, relation: Tensor | None = None) -> Tensor:
        """Scores of each source with each target [m, n]; some sources at a time."""
        step, parts = max(1, _PAIRS // max(1, len(right))), [left.new_empty(0, len(right))]
        for first in range(0, len(left), step):
            part = left[first : first + step]
            shape = (len(part), *right.shape)
            parts.append(self(part.unsqueeze(1).expand(shape), right.unsqueeze(0).expand(shape)))
        return torch.cat(parts)

    def against_sources(
        self, right: Tensor, left: Tensor, relation: Tensor | None = None
    ) -> Tensor:
        """Scores of each target with each source; some sources at a time."""
        return self.against(left, right).T


class HadamardDecoder(_LayeredDecoder):
    """Three linear layers over the product of both rows, which is the same in both directions.

    Args:
        width: columns of rows.
        relations: not used.
    """

    def __init__(self, width: int, relations: int = 0) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.last = nn.Linear(width, 1)

    def forward(self, left: Tensor, right: Tensor, relation: Tensor | None = None) -> Tensor:
        """Scores of pairs [...]."""
        rows = self.first(left * right).relu()
        scores: Tensor = self.last(self.second(rows).relu())
        return scores.squeeze(-1)


class MLPDecoder(_LayeredDecoder):
    """Two linear layers over both rows and their product; it tells the ends apart.

    Args:
        width: columns of rows.
        relations: not used.
    """

    symmetric = False

    def __init__(self, width: int, relations: int = 0) -> None:
        super().__init__()
        self.first = nn.Linear(3 * width, width)
        self.last = nn.Linear(width, 1)

    def forward(self, left: Tensor, right: Tensor, relation: Tensor | None = None) -> Tensor:
        """Scores of pairs [...]."""
        left, right = torch.broadcast_tensors(left, right)  # type: ignore[no-untyped-call]
        rows = torch.cat([left, right, left * right], dim=-1)
        scores: Tensor = self.last(self.first(rows).relu())
        return scores.squeeze(-1)


#: Decoders by name.
DECODERS: dict[str, Callable[[int, int], Decoder]] = {
    "dot": ProductDecoder,
    "bilinear": BilinearDecoder,
    "distmult": DistMultDecoder,
    "hadamard": HadamardDecoder,
    "mlp": MLPDecoder,
}


#: What they compute, a line each.
DECODER_LINES = {
    "dot": "the inner product of both rows",
    "bilinear": "a matrix between them, so directions may differ",
    "distmult": "a learned row for each relation between them",
    "hadamard": "three layers over the product of both rows, the same in both directions",
    "mlp": "two layers over both rows and their product, so directions may differ",
}


def make_decoder(kind: str, width: int, relations: int = 0) -> Decoder:
    """Makes a decoder by name.

    Args:
        kind: dot, bilinear, distmult, hadamard or mlp.
        width: columns of the rows that it compares.
        relations: how many relations links have; 0 or 1: they are all alike.

    Raises:
        InputError: there is no such decoder, or links have relations that it does not tell apart.
    """
    if kind not in DECODERS:
        raise InputError(f"the decoder is {kind!r}, expected {', '.join(DECODERS)}")
    if relations > 1 and kind != "distmult":
        raise InputError(
            f"the links have {relations} relations, which the decoder {kind} does not tell apart; "
            "use distmult"
        )
    return DECODERS[kind](width, relations)
