"""epoch_loader: loops over the batches of epochs, whatever they are made of; base of the loaders.

A loader has a recipe (what batches are made of), a source (what makes them) and a position (epoch
and batch). Each loop owns its producer; batches are a pure function of the recipe, the epoch and
their number, so a position is a few integers, and resuming is exact.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace as replaced
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.loader.batches.leaf_sums import apply
from foregather.loader.loader_state import read_position
from foregather.loader.loop import Producer, Supply, Turns, refuse_item, refuse_workers
from foregather.loader.seeds import MOST_EPOCH
from foregather.units import format_number, to_whole

if TYPE_CHECKING:
    import torch
    from typing_extensions import Self

__all__ = ["EpochLoader"]


class EpochLoader:
    """What all loaders share: lengths, loops, epochs and positions.

    A subclass sets device, transform, prefetch, `_maker` (the recipe: a dataclass with `seeds` and
    `sampler`), `_source` and `_bulk`, calls `_go_to(0, 0)`, and says by `_identity` what its
    batches depend on.
    """

    batch_sampler = None  # torch's name: no torch sampler is used; Lightning reads it

    device: "torch.device | str | None"
    transform: Callable[[Any], Any] | None
    prefetch: int
    _maker: Any
    _source: Any
    _bulk: int
    _turns: Turns | None
    _at: tuple[int, int, bool]  # the next epoch and batch, and whether a loop started there
    _mark: object  # loops started under another value no longer advance the position

    # ---- queries ---------------------------------------------------------------------------

    def __repr__(self) -> str:
        seeds, sampler = self._maker.seeds, self._maker.sampler
        count = format_number(len(self), "batch")
        of = f"of {seeds.batch_size:,} from {seeds.count:,}" if hasattr(seeds, "count") else ""
        epoch, step, _ = self._at
        where = f"epoch {epoch}, batch {step}"
        told = " ".join(part for part in (count, of) if part)
        return f"{type(self).__name__}({told}; {type(sampler).__name__}; next: {where})"

    def __len__(self) -> int:
        steps: int = self._source.steps(self._maker.seeds)
        return steps

    @property
    def dataset(self) -> range:
        """Positions of the input nodes, under torch's name."""
        return range(self._maker.seeds.count)

    @property
    def input_nodes(self) -> npt.NDArray[np.int64]:
        """Ids of the input nodes, in the order given."""
        nodes: npt.NDArray[np.int64]
        nodes = self._maker.seeds.at(np.arange(self._maker.seeds.count))[0]
        return nodes

    @property
    def sampler(self) -> Any:
        """The rule that chooses nodes and edges."""
        return self._maker.sampler

    @property
    def batch_size(self) -> int:
        """Input nodes per batch."""
        size: int = self._maker.seeds.batch_size
        return size

    @property
    def seed(self) -> int:
        """The random seed for order and samples."""
        seed: int = self._maker.seeds.seed
        return seed

    @property
    def epoch(self) -> int:
        """The current epoch, or the next one."""
        return self._at[0]

    @property
    def bulk(self) -> int:
        """Batches sampled together."""
        return self._bulk

    # ---- what subclasses say ---------------------------------------------------------------

    def _check_source(self) -> None:
        """Called before each loop; raises if batches would be other ones now."""

    def _furnished(self, maker: Any) -> Any:
        """The recipe with what it needs in memory."""
        return maker

    def _identity(self) -> dict[str, Any]:
        """Everything that batches depend on, except the position and the seed."""
        raise NotImplementedError

    # ---- iterating -------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        refuse_workers()
        self._check_source()
        epoch, first, begun = self._at
        if begun and first > 0:  # a loop was left early: a new epoch follows
            epoch, first = epoch + 1, 0
        self._at = (epoch, first, True)
        maker = self._maker
        self._furnished(maker)  # before a thread exists
        if (begin := getattr(maker, "begin", None)) is not None:
            begin()
        supply = Supply(lambda number: self._produce(maker, epoch, number), first, self._turns)
        return self._loop(supply, epoch, self._mark)

    def __getitem__(self, index: Any) -> NoReturn:
        refuse_item(self)

    def _loop(self, supply: Supply, epoch: int, mark: object) -> Iterator[Any]:
        try:
            try:
                while (batch := supply.take()) is not None:
                    if self.device is not None:
                        batch = batch.to(self.device, non_blocking=True)
                    if self.transform is not None:
                        batch = apply(self.transform, batch)
                    if self._mark is mark:
                        self._at = (epoch, supply.number, True)
                    yield batch
                    del batch
            finally:
                supply.close()
        finally:
            supply.close()  # again, if it was interrupted
        if self._mark is mark:
            self._at = (epoch + 1, 0, False)

    def _produce(self, maker: Any, epoch: int, first: int) -> Producer:
        """Makes a producer of the batches of a loop from `first` on."""
        made: Producer
        drawn = maker.drawn(epoch) if hasattr(maker, "drawn") else epoch
        made = self._source.start(self._furnished(maker), drawn, first, self.prefetch)
        return made

    def set_epoch(self, epoch: int) -> None:
        """Makes the next loop run this epoch, from its first batch."""
        self._go_to(to_whole(epoch, "epoch", 0, MOST_EPOCH), 0)

    def _go_to(self, epoch: int, batch: int) -> None:
        self._mark = object()
        self._at = (epoch, batch, False)

    # ---- resuming --------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The position in training.

        The batch after the last one yielded, and what it depends on.
        """
        epoch, batch, _ = self._at
        if batch >= len(self) > 0:
            epoch, batch = epoch + 1, 0
        return {"epoch": epoch, "batch": batch, "seed": self.seed, **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved position; the next loop yields exactly the remaining batches.

        Raises:
            InputError: the state belongs to another graph, sampler, or batch options.
        """
        epoch, batch, seed = read_position(state, self._identity(), len(self))
        self._maker = replaced(self._maker, seeds=replaced(self._maker.seeds, seed=seed))
        self._go_to(epoch, batch)

    def __copy__(self) -> "Self":
        other: Self = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise InputError(
            "a Loader has threads and open files, which cannot be copied or pickled; save "
            "state_dict(), and create a new Loader where it is needed"
        )
