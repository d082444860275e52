"""settings: what a run is told, in TOML, and the model, sampler and loader made from it.

The names are those that `foregather.train.settings.settings` and `reading` list.
"""

from foregather.train.settings.reading import *  # noqa: F403
from foregather.train.settings.reading import __all__ as _read
from foregather.train.settings.settings import *  # noqa: F403
from foregather.train.settings.settings import __all__ as _made

__all__ = [*_made, *_read]
