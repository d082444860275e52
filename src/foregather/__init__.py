"""foregather: trains graph neural networks on graphs larger than RAM or one machine.

The names below are loaded when they are first used; importing the package does no work.
"""

from importlib import import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

from foregather.renamed import install as _install_old_names

if TYPE_CHECKING:
    __version__: str

    from foregather.errors import (
        BudgetError,
        ForegatherError,
        FormatError,
        InputError,
        MissingDependencyError,
        NumericError,
        RankError,
        StorageError,
    )
    from foregather.graph.convert.nodes.node_options import NodeFile, SplitRule
    from foregather.graph.convert.read_options import ReadOptions
    from foregather.graph.convert.run import convert
    from foregather.graph.features import Features
    from foregather.graph.graph import Graph
    from foregather.graph.hetero.graph import HeteroGraph
    from foregather.graph.links.links import Links
    from foregather.graph.links.rule import LinkSplit
    from foregather.graph.links.split import split_links
    from foregather.graph.order.rewrite import reorder
    from foregather.loader.hetero.hetero_loader import HeteroLoader
    from foregather.loader.links.hetero_link_loader import HeteroLinkLoader
    from foregather.loader.links.link_loader import LinkLoader
    from foregather.loader.loader import Loader
    from foregather.loader.near import Near
    from foregather.loader.options import BatchContents
    from foregather.loader.rank_options import RankOptions
    from foregather.observe.freed_memory import keep_freed_memory
    from foregather.sampling.links.negatives import Negatives
    from foregather.train.fit import Training, evaluate, fit
    from foregather.train.infer import infer

__all__ = [
    "Graph",
    "HeteroGraph",
    "Features",
    "Loader",
    "HeteroLoader",
    "LinkLoader",
    "HeteroLinkLoader",
    "Negatives",
    "BatchContents",
    "Near",
    "RankOptions",
    "Training",
    "fit",
    "evaluate",
    "infer",
    "convert",
    "ReadOptions",
    "reorder",
    "NodeFile",
    "SplitRule",
    "Links",
    "LinkSplit",
    "split_links",
    "keep_freed_memory",
    "ForegatherError",
    "InputError",
    "FormatError",
    "BudgetError",
    "StorageError",
    "MissingDependencyError",
    "RankError",
    "NumericError",
    "__version__",
]

_HOME = {
    "Graph": "foregather.graph.graph",
    "HeteroGraph": "foregather.graph.hetero.graph",
    "Features": "foregather.graph.features",
    "Loader": "foregather.loader.loader",
    "HeteroLoader": "foregather.loader.hetero.hetero_loader",
    "LinkLoader": "foregather.loader.links.link_loader",
    "HeteroLinkLoader": "foregather.loader.links.hetero_link_loader",
    "Negatives": "foregather.sampling.links.negatives",
    "BatchContents": "foregather.loader.options",
    "Near": "foregather.loader.near",
    "RankOptions": "foregather.loader.rank_options",
    "Training": "foregather.train.fit",
    "fit": "foregather.train.fit",
    "evaluate": "foregather.train.fit",
    "infer": "foregather.train.infer",
    "convert": "foregather.graph.convert.run",
    "reorder": "foregather.graph.order.rewrite",
    "ReadOptions": "foregather.graph.convert.read_options",
    "NodeFile": "foregather.graph.convert.nodes.node_options",
    "SplitRule": "foregather.graph.convert.nodes.node_options",
    "Links": "foregather.graph.links.links",
    "LinkSplit": "foregather.graph.links.rule",
    "split_links": "foregather.graph.links.split",
    "keep_freed_memory": "foregather.observe.freed_memory",
    **dict.fromkeys(__all__[__all__.index("ForegatherError") : -1], "foregather.errors"),
}


_install_old_names()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version("foregather")
    if name not in _HOME:
        raise AttributeError(f"module 'foregather' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
