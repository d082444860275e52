"""footprint: measures what a call takes in memory, by the tensors that are alive at once.

Measured on small parts of three shapes, it gives bytes per node, edge and target; memory used
inside an operation is not seen, so callers add a reserve.
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["footprint", "peak_of"]

_BASE, _MORE = 32, 512


class _Alive(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of storages made inside, while they live."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now: int = 0
        self.peak: int = 0
        self._held: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {
            leaf.untyped_storage().data_ptr()
            for leaf in tree_leaves((args, kwargs or {}))
            if isinstance(leaf, torch.Tensor)
        }
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if isinstance(leaf, torch.Tensor):
                self._note(leaf, given)
        return made

    def _note(self, tensor: torch.Tensor, given: set[int]) -> None:
        storage = tensor.untyped_storage()
        key, size = storage.data_ptr(), storage.nbytes()
        if not size or (key in given and key not in self._held):
            return  # nothing new, or memory of before
        if key not in self._held:
            self.now += size
            self.peak = max(self.peak, self.now)
        self._held[key] = self._held.get(key, 0) + 1
        weakref.finalize(tensor, self._release, key, size)

    def _release(self, key: int, size: int) -> None:
        self._held[key] -= 1
        if not self._held[key]:
            del self._held[key]
            self.now -= size


def peak_of(call: Callable[[], Any]) -> int:
    """Bytes of tensors made by the call that were alive at once."""
    alive = _Alive()
    with torch.no_grad(), alive:
        made = call()
    del made
    return alive.peak


def footprint(
    make: Callable[[int, int, int], Callable[[], Any]],
) -> tuple[float, float, float]:
    """Returns bytes per node, edge and target.

    Args:
        make: makes the call for given numbers of nodes, edges and targets; targets are among the
            nodes.
    """
    few, many = _BASE, _BASE + _MORE
    make(few, few, few)()  # memory allocated once and kept is not counted
    least = peak_of(make(few, few, few))
    row, edge, both = (
        max(0.0, (peak_of(make(*sizes)) - least) / _MORE)
        for sizes in ((many, few, few), (few, many, few), (many, few, many))
    )
    return row, edge, max(0.0, both - row)
