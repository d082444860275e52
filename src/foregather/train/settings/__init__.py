"""settings: what a run is told, in TOML, and the model, sampler and loader made from it.

The names are those that `foregather.train.settings.settings` lists.
"""

from foregather.train.settings.settings import *  # noqa: F403
from foregather.train.settings.settings import __all__ as __all__
