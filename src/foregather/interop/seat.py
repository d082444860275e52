"""seat: what a loader needs to sit where PyG's NeighborLoader sat, besides making batches.

Torch's samplers, PyG's calls by position, and options of worker processes that do not exist here.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace as replaced
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.arrays import to_ids
from foregather.interop.drawn import Drawn
from foregather.loader.batches.leaf_sums import apply
from foregather.loader.epoch_loader import EpochLoader

__all__ = ["NOT_NEEDED", "Ids", "Seat", "is_torch", "kind_of"]

Ids = npt.NDArray[np.int64]

#: Options of PyG's workers; our batches are made in threads of this process and do not depend on
#: them.
NOT_NEEDED = {
    "num_workers": 0,
    "persistent_workers": False,
    "prefetch_factor": None,
    "pin_memory": False,
    "timeout": 0,
    "worker_init_fn": None,
    "filter_per_worker": False,
}
_KINDS = ("directional", "bidirectional", "induced")


class Seat(EpochLoader):
    """A loader with the face of PyG's NeighborLoader."""

    multiprocessing_context = None  # torch's name; there are no worker processes

    filter_per_worker: bool
    _drawn: Drawn | None

    def _made_at(self, maker: Any, position: Ids) -> Any:
        """The batch of the input nodes at these positions, before `filter_fn`."""
        raise NotImplementedError

    def _with_threads(self, threads: int) -> Any:
        """The recipe with another number of threads."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        if self._drawn is not None:
            seeds = self._maker.seeds
            drawn = self._drawn.batches(seeds.batch_size, seeds.drop_last, seeds.count)
            self._maker = replaced(self._maker, seeds=replaced(seeds, drawn=drawn))
        return super().__iter__()

    def __len__(self) -> int:
        if self._drawn is not None:
            seeds = self._maker.seeds
            return self._drawn.count(seeds.batch_size, seeds.drop_last)
        return super().__len__()

    def __call__(self, index: Any) -> Any:
        """Returns the batch of the input nodes at these positions."""
        out = self.collate_fn(index)
        return out if self.filter_per_worker else self.filter_fn(out)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    # ---- used by PyG's other loaders -------------------------------------------------------

    def collate_fn(self, index: Any) -> Any:
        """Samples the input nodes at these positions; `filter_fn` turns the sample into a batch.

        Raises:
            InputError: a position does not exist, or the loader works over ranks.
        """
        if self._source.ranks is not None:
            raise InputError("over ranks all ranks make batches together; loop over the loader")
        position = to_ids(index, self._maker.seeds.count, "index", "input nodes")
        out = self._made_at(self._maker, np.ascontiguousarray(position, np.int64))
        return self.filter_fn(out) if self.filter_per_worker else out

    def filter_fn(self, out: Any) -> Any:
        """Returns the finished batch of a sample from `collate_fn`."""
        if self.device is not None:
            out = out.to(self.device, non_blocking=True)
        return out if self.transform is None else apply(self.transform, out)

    def _get_iterator(self) -> Iterator[Any]:
        return iter(self)

    @contextmanager
    def enable_multithreading(self, worker_threads: int | None = None) -> Iterator[None]:
        """Uses `num_threads` threads to sample and gather inside the block; None for all."""
        before = self._maker.threads
        self._maker = self._with_threads(int(worker_threads or 0))
        try:
            yield
        finally:
            self._maker = self._with_threads(before)

    @contextmanager
    def enable_cpu_affinity(self, loader_cores: Any = None) -> Iterator[None]:
        """Refused: there are no worker processes to tie to cores.

        Raises:
            InputError: always.
        """
        raise InputError(
            "enable_cpu_affinity binds worker processes to cores, but there are none; set the "
            "number of threads with threads=, or start the program under taskset"
        )
        yield

    # ---- queries ---------------------------------------------------------------------------

    @property
    def node_sampler(self) -> Any:
        """The rule that chooses neighbours, under PyG's name."""
        return self._maker.sampler

    @property
    def sampler(self) -> Any:
        """Torch's sampler if one was given, otherwise the rule that chooses neighbours."""
        return self._maker.sampler if self._drawn is None else self._drawn.sampler

    @property
    def drop_last(self) -> bool:
        """Whether a smaller last batch is dropped."""
        dropped: bool = self._maker.seeds.drop_last
        return dropped

    def state_dict(self) -> dict[str, Any]:
        """As `Loader.state_dict`.

        Not available with a torch sampler, whose order cannot be saved.
        """
        self._refuse_place()
        return super().state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As `Loader.load_state_dict`."""
        self._refuse_place()
        super().load_state_dict(state)

    def _refuse_place(self) -> None:
        if self._drawn is not None:
            raise InputError(
                "torch's sampler draws a new order each epoch that cannot be saved, so neither "
                "can a position in it; use shuffle=True, whose order is a function of the seed"
            )


def is_torch(sampler: Any) -> bool:
    """Whether this yields positions: a torch Sampler, or any iterable."""
    return sampler is not None and hasattr(sampler, "__iter__")


def kind_of(subgraph_type: Any, directed: bool) -> str:
    """The kind of subgraphs, also by PyG's old name for it.

    Raises:
        InputError: there is no such kind.
    """
    kind = subgraph_type.value if isinstance(subgraph_type, Enum) else subgraph_type
    if kind not in _KINDS:
        raise InputError(f"subgraph_type is {kind!r}, expected one of {', '.join(_KINDS)}")
    return str(kind) if directed else "induced"
