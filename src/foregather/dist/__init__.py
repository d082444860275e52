"""dist: sampling and features over ranks: the same minibatches, whichever rank holds the rows.

The names below are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foregather.dist.features.exchange import FeatureExchange
    from foregather.dist.features.feature_block import FeatureBlock
    from foregather.dist.grid import Grid
    from foregather.dist.sampling.dist_sampler import DistSampler
    from foregather.dist.sampling.partition import Partition
    from foregather.dist.transport.ledger import Ledger

__all__ = ["Grid", "Partition", "DistSampler", "FeatureBlock", "FeatureExchange", "Ledger"]

_HOME = {
    "Grid": "grid",
    "Partition": "sampling.partition",
    "DistSampler": "sampling.dist_sampler",
    "FeatureBlock": "features.feature_block",
    "FeatureExchange": "features.exchange",
    "Ledger": "transport.ledger",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'foregather.dist' has no attribute {name!r}")
    value = getattr(import_module(f"foregather.dist.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
