"""sampling: the layers of a bulk over ranks, the same minibatches as on one.

Until release 0.1 this was a module; its names can be imported from here for one more release.
"""

import warnings
from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    home = "foregather.dist.sampling.dist_sampler"
    if name.startswith("_") or not hasattr(import_module(home), name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"{name} is now in {home}", DeprecationWarning, stacklevel=2)
    return getattr(import_module(home), name)
