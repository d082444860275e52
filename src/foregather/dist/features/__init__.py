"""features: blocks of feature rows, and their planned exchange between ranks.

Until release 0.1 this was a module; its names can be imported from here for one more release.
"""

import warnings
from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    home = "foregather.dist.features.feature_block"
    if name.startswith("_") or not hasattr(import_module(home), name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"{name} is now in {home}", DeprecationWarning, stacklevel=2)
    return getattr(import_module(home), name)
