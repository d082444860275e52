"""rank_agreement: what the ranks of a run exchange other than gradients: sums and decisions.

On one rank all of it is trivial, so a run is written once. All ranks make the same calls in the
same order, in the training thread.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from foregather.dist.transport.link_error import is_link_error
from foregather.errors import ForegatherError, RankError
from foregather.loader.rank_options import GridOfRanks

__all__ = ["RunGrid", "SaidElsewhereError", "Together"]

Made = TypeVar("Made")

_PATIENCE = timedelta(days=2)  # for work of one rank while the others wait


class RunGrid(GridOfRanks, Protocol):
    """The part of a grid that a run uses; see `dist.Grid`."""

    rank: int
    size: int
    timeout: float
    watch: Any

    def agree_all(self, facts: Mapping[str, str]) -> None:
        """Raises InputError on all ranks if they have different facts."""


class SaidElsewhereError(RankError):
    """Another rank failed and reports it itself; this one just exits."""


class Together:
    """The ranks of a run as one; without a grid, one rank.

    Attributes:
        rank: this one.
        size: how many there are.
        first: whether this is the rank that writes and prints.
    """

    def __init__(self, grid: RunGrid | None = None) -> None:
        self.grid = grid
        self.rank, self.size = (0, 1) if grid is None else (grid.rank, grid.size)
        self.first = self.rank == 0
        self.group: Any = None
        self._patient: Any = None
        if grid is not None:
            import torch.distributed as dist

            with self.step("making groups"):
                limit = timedelta(seconds=grid.timeout)
                self.group = dist.new_group(timeout=limit, backend="gloo")
                self._patient = dist.new_group(timeout=_PATIENCE, backend="gloo")

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A context for work that needs all ranks.

        Raises:
            RankError: a rank died or did not take part; the message names it.
        """
        with nullcontext() if self.grid is None else self.grid.watch.step(name):
            yield

    @contextmanager
    def passing(self, name: str) -> Iterator[None]:
        """A context for computation that may involve other ranks; its own errors are not changed.

        Raises:
            RankError: as `step`.
        """
        try:
            yield
        except RuntimeError as error:
            if self.grid is None or not is_link_error(error):
                raise
            with self.step(name):
                raise

    @contextmanager
    def linked(self, name: str) -> Iterator[None]:
        """Around what meets other ranks by links of its own: stages and ways.

        Raises:
            RankError: as `step`; errors of the computation stay theirs.
        """
        if self.grid is not None:
            self.grid.watch.enter(name)
        try:
            yield
        except RuntimeError as error:
            lost = isinstance(error, RankError) or is_link_error(error)
            if self.grid is None or not lost or isinstance(error, SaidElsewhereError):
                raise
            raise self.grid.watch.verdict(name, error) from error

    def agree(self, facts: Mapping[str, str]) -> None:
        """Checks that all ranks have the same facts.

        Raises:
            InputError: they differ; the same error on all ranks.
        """
        if self.grid is not None:
            self.grid.agree_all(facts)

    def gather(self, value: Made, name: str) -> list[Made]:
        """Returns the values of all ranks, in order, on all of them."""
        if self.grid is None:
            return [value]
        import torch.distributed as dist

        found: list[Any] = [None] * self.size
        with self.step(name):
            dist.all_gather_object(found, value, group=self.group)
        return found

    def largest(self, value: int) -> int:
        """The largest of the ranks' numbers."""
        if self.grid is None:
            return value
        import torch
        import torch.distributed as dist

        number = torch.tensor([value])
        with self.step("deciding"):
            dist.all_reduce(number, dist.ReduceOp.MAX, group=self.group)
        return int(number)

    def sums(self, values: dict[str, float], name: str) -> dict[str, float]:
        """The sum over ranks under each name."""
        parts = self.gather(values, name)
        return {key: sum(part[key] for part in parts) for key in values}

    def first_does(self, work: Callable[[], Made], name: str) -> Made:
        """Runs work on rank 0 while the others wait, however long it takes.

        Returns the result on all ranks.

        Raises:
            ForegatherError: the work failed; the same on all ranks.
        """
        if self.grid is None:
            return work()
        import torch.distributed as dist

        said: list[Any] = [None, None]
        if self.first:
            try:
                said[0] = work()
            except ForegatherError as error:
                said[1] = error
        with self.step(name):
            dist.broadcast_object_list(said, src=0, group=self._patient)
        if said[1] is not None:
            raise said[1]
        made: Made = said[0]
        return made

    def all_do(self, work: Callable[[], Made], name: str) -> Made:
        """Runs work on every rank and returns when all are done; it must not use collectives.

        Raises:
            ForegatherError: on the first rank whose work failed.
            SaidElsewhereError: on the others.
        """
        made: Any = None
        failed: ForegatherError | None = None
        try:
            made = work()
        except ForegatherError as error:
            if self.grid is None:
                raise
            failed = error
        said = self.gather(None if failed is None else str(failed), name)
        wrong = [rank for rank, text in enumerate(said) if text is not None]
        if not wrong:
            result: Made = made
            return result
        if failed is not None and wrong[0] == self.rank:
            raise failed
        raise SaidElsewhereError(f"rank {wrong[0]}: {said[wrong[0]]}")

    def all_or_none(self, failed: ForegatherError | None, name: str) -> ForegatherError | None:
        """Returns the first failure of any rank, as an error of the same kind on all.

        None if none.
        """
        said = self.gather(failed, name)
        for rank, error in enumerate(said):
            if error is not None:
                return error if self.size == 1 else type(error)(f"rank {rank}: {error}")
        return None
