"""found: which peers this machine has; one that is missing is named with what to do about it.

Peers are looked for, never built or installed: pyg-lib as the package `pyg_lib`, or as a library
that `FOREGATHER_PYG_LIB` names, DGL as an interpreter of its own environment, torch-sparse as a
package.
"""

import importlib.util
import os
from dataclasses import dataclass, field

import torch

from .process import DglProcess, why_no_dgl

__all__ = ["LIBRARY", "Peers", "find_peers"]

LIBRARY = "FOREGATHER_PYG_LIB"


@dataclass
class Peers:
    """What can be measured here.

    Args:
        kernel: pyg-lib's sampler can be called.
        neighbor_loader: PyG's NeighborLoader has it, too, and its models can trim.
        sparse: torch-sparse's sampler can be called.
        dgl: processes of DGL by their number of threads; none where it is not to be had.
        missing: a sentence for each that is not.
    """

    kernel: bool = False
    neighbor_loader: bool = False
    sparse: bool = False
    dgl: dict[int, DglProcess] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def versions(self) -> str:
        """The peers by name and version."""
        import torch_geometric

        names = [f"torch-geometric {torch_geometric.__version__}"]
        if self.kernel:
            names.append(f"pyg-lib {version_of('pyg_lib')}")
        if self.sparse:
            names.append(f"torch-sparse {version_of('torch_sparse')}")
        names += [f"DGL and GraphBolt {one.version}" for one in [*self.dgl.values()][:1]]
        return ", ".join(names)

    def close(self) -> None:
        """Ends the processes."""
        for process in self.dgl.values():
            process.close()


def find_peers(wants_dgl: bool, threads: tuple[int, ...] = (1, 2)) -> Peers:
    """Looks for all of them."""
    made = Peers()
    if why := load_pyg_lib():
        made.missing.append(why)
    else:
        made.kernel = True
    from torch_geometric import typing

    made.neighbor_loader = typing.WITH_PYG_LIB
    if not made.neighbor_loader:
        made.missing.append(
            "PyG's NeighborLoader on pyg-lib: Python finds no package pyg_lib; install the wheel "
            "for your torch, or put one that loads the library on PYTHONPATH"
        )
    made.sparse = typing.WITH_TORCH_SPARSE
    if not made.sparse:
        made.missing.append("torch-sparse: install torch-scatter and torch-sparse (pip)")
    if wants_dgl:
        if why := why_no_dgl():
            made.missing.append(why)
        else:
            made.dgl = {count: DglProcess(count) for count in threads}
    return made


def load_pyg_lib() -> str | None:
    """Makes `torch.ops.pyg.neighbor_sample` callable; or says why it is not."""
    if importlib.util.find_spec("pyg_lib") is not None:
        import pyg_lib  # noqa: F401
    elif path := os.environ.get(LIBRARY):
        try:
            torch.ops.load_library(path)
        except OSError as error:
            return f"pyg-lib: {LIBRARY} names no library that loads ({str(error).splitlines()[0]})"
    if hasattr(torch.ops.pyg, "neighbor_sample"):
        return None
    return (
        f"pyg-lib: install its wheel for your torch, or set {LIBRARY} to a library with its "
        "sampler that torch.ops.load_library can load"
    )


def version_of(package: str) -> str:
    """Its own word for it."""
    return str(getattr(importlib.import_module(package), "__version__", "of unknown version"))
