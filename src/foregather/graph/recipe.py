"""recipe: the options of a synthetic graph, checked once and resolved to plain numbers.

A `Recipe` that exists is valid: every bad option has been refused. Equal recipes give
equal bytes on every machine.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from foregather import _core
from foregather.errors import InputError
from foregather.graph.arrays import id_dtype
from foregather.units import format_count

__all__ = ["GENERATOR", "Recipe"]

#: Incremented whenever the same recipe starts to give different bytes.
GENERATOR = 1
_COMMUNITY = 512  # nodes; large enough that rows of usual degree find distinct sources in it


def _need(valid: bool, message: str) -> None:
    if not valid:
        raise InputError(message)


@dataclass(frozen=True)
class Recipe:
    """What a synthetic graph is made of.

    Attributes:
        nodes: number of nodes.
        degree: mean in-degree; not used when `edges` is given.
        edges: number of edges.
        features: feature columns, 0 for none.
        classes: number of classes.
        dtype: type of the stored features: float32, float16, or int8 with one scale per column.
        ids: "shuffled" (neighbours are far apart on disk) or "natural" (communities are
            contiguous).
        skew: 1, 2, 4 or 8; degrees follow a power law of exponent none, 3, 2.33 or 2.14.
        mixing: share of the sources drawn from the whole graph; the rest come from the community.
        community: nodes of a community, or None for about 512 (8 times the degree if that is more).
        label_noise: share of labels replaced by a random class, which nothing can predict.
        signal: norm of a class centroid; the noise has unit variance in every column.
        split: shares of train, valid and test.
        seed: any integer from 0 to 2^64 - 1.
    """

    nodes: int
    degree: float = 16.0
    edges: int | None = None
    features: int = 128
    classes: int = 40
    dtype: str = "float32"
    ids: str = "shuffled"
    skew: int = 4
    mixing: float = 0.5
    community: int | None = None
    label_noise: float = 0.05
    signal: float = 1.75
    split: tuple[float, float, float] = (0.6, 0.2, 0.2)
    seed: int = 0

    def __post_init__(self) -> None:
        self._check_shape()
        self._check_learning()
        _need(
            self.ids in ("shuffled", "natural"),
            f"ids is {self.ids!r}, expected shuffled or natural",
        )
        _need(
            0 <= self.seed < 1 << 64,
            f"seed is {self.seed}, expected an integer from 0 to 2^64 - 1",
        )

    def _check_shape(self) -> None:
        n = self.nodes
        _need(1 <= n < 1 << 47, f"nodes is {n}, expected from 1 to 2^47")
        if self.edges is None:
            _need(
                0 <= self.degree < n,
                f"degree is {self.degree:g}, but a row of {format_count(n)} nodes holds at "
                f"most {format_count(n - 1)} distinct sources; give a degree below the nodes",
            )
        else:
            most = n * (n - 1)
            _need(
                0 <= self.edges <= most,
                f"edges is {self.edges}, but {format_count(n)} nodes have from 0 to "
                f"{format_count(most)} edges without repeats and self-loops",
            )
        _need(
            self.num_edges <= 1 << 52,
            f"edges is {self.num_edges}, more than the 2^52 that can be counted exactly",
        )
        _need(self.skew in (1, 2, 4, 8), f"skew is {self.skew}, expected 1, 2, 4 or 8")
        _need(0 <= self.mixing <= 1, f"mixing is {self.mixing}, expected a share from 0 to 1")
        _need(
            self.community is None or 1 <= self.community <= n,
            f"community is {self.community}, expected from 1 to the {format_count(n)} nodes",
        )

    def _check_learning(self) -> None:
        _need(
            0 <= self.features <= 1 << 20,
            f"features is {self.features}, expected from 0 (none) to 2^20 columns",
        )
        _need(
            1 <= self.classes <= min(self.nodes, 1 << 30),
            f"classes is {self.classes}, expected from 1 to the {format_count(self.nodes)} nodes",
        )
        _need(
            self.classes * self.features <= 1 << 26,
            f"classes times features is {self.classes * self.features}, more than 2^26 centroid "
            "entries; give fewer of either",
        )
        _need(
            self.dtype in ("float32", "float16", "int8"),
            f"dtype is {self.dtype!r}, expected float32, float16 or int8",
        )
        _need(
            0 <= self.label_noise <= 1,
            f"label noise is {self.label_noise}, expected a share from 0 to 1",
        )
        _need(0 <= self.signal <= 1000, f"signal is {self.signal}, expected from 0 to 1000")
        shares = " ".join(f"{share:g}" for share in self.split)
        _need(
            len(self.split) == 3 and all(0 <= share <= 1 for share in self.split),
            f"split is {shares}, expected three shares from 0 to 1 for train, valid and test",
        )
        total = math.fsum(self.split)
        _need(total <= 1 + 1e-9, f"split {shares} sums to {total:g}, expected at most 1")

    @property
    def num_edges(self) -> int:
        """Number of edges requested."""
        return round(self.nodes * self.degree) if self.edges is None else self.edges

    @property
    def communities(self) -> int:
        """Number of communities; at least one per class."""
        usual = max(_COMMUNITY, 8 * self.num_edges // self.nodes)
        size = min(self.community or usual, self.nodes)
        return max(1, (2 * self.nodes + size) // (2 * size), self.classes)

    @property
    def id_dtype(self) -> np.dtype[Any]:
        """Type of `indices`."""
        return id_dtype(self.nodes)

    @property
    def label_dtype(self) -> np.dtype[Any]:
        """Type of the labels."""
        return np.dtype(np.int16 if self.classes <= 1 << 15 else np.int32)

    def core(self) -> Any:
        """The generator."""
        return _core.Synth(
            nodes=self.nodes,
            edges=self.num_edges,
            communities=self.communities,
            classes=self.classes,
            width=self.features,
            skew=self.skew,
            mixing=self.mixing,
            label_noise=self.label_noise,
            signal=self.signal,
            split=self.split,
            shuffled=self.ids == "shuffled",
            seed=self.seed,
        )

    def provenance(self) -> dict[str, Any]:
        """The provenance for meta.json: enough to regenerate the graph."""
        fields = asdict(self)
        del fields["degree"]
        fields.update(edges=self.num_edges, split=list(self.split), communities=self.communities)
        return {"source": "synth", "generator": GENERATOR, **fields}
