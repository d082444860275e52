"""dist: sampling and features across ranks: the same minibatches, whoever holds the rows.

The names below are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foregather.dist.exchange import FeatureExchange
    from foregather.dist.features import FeatureBlock
    from foregather.dist.grid import Grid
    from foregather.dist.ledger import Ledger
    from foregather.dist.partition import Partition
    from foregather.dist.sampling import DistSampler

__all__ = ["Grid", "Partition", "DistSampler", "FeatureBlock", "FeatureExchange", "Ledger"]

_HOME = {
    "Grid": "grid",
    "Partition": "partition",
    "DistSampler": "sampling",
    "FeatureBlock": "features",
    "FeatureExchange": "exchange",
    "Ledger": "ledger",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'foregather.dist' has no attribute {name!r}")
    value = getattr(import_module(f"foregather.dist.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
