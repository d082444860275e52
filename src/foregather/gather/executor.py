"""executor: what carries plans out: on a file, on repacked bulks, on a rank's disk, over ranks.

A planner makes a plan, which is a value, and moves no bytes; an executor moves the bytes of its
plans and decides nothing. Plans are carried out in the order in which they were appended, step by
step, and what an executor has counted when all steps are done is what its plans announced.
"""

from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    import torch

__all__ = ["DiskExecutor", "Executor"]

PlanT = TypeVar("PlanT")
Appended = TypeVar("Appended", contravariant=True)


@runtime_checkable
class Executor(Protocol[Appended]):
    """Carries out plans of one kind; it has state, and so it is closed."""

    @property
    def steps_left(self) -> int:
        """Steps that were appended and not yet carried out."""

    @property
    def memory_bytes(self) -> int:
        """Bytes of cache, staging and tables; outputs are the caller's."""

    def append(self, plan: Appended) -> None:
        """Queues a plan; what it moves may begin to move at once."""

    def step(self, out: "torch.Tensor | None" = None) -> "torch.Tensor":
        """The rows of the next step, in `out` where it is given.

        Raises:
            InputError: no step is queued, or `out` does not fit; then nothing was changed.
        """

    def counters(self) -> dict[str, Any]:
        """What was moved so far."""

    def explain(self) -> list[str]:
        """What counters do not say, a line each, for people."""

    def close(self) -> None:
        """Ends what runs and frees the memory."""


@runtime_checkable
class DiskExecutor(Executor[PlanT], Protocol[PlanT]):
    """An executor on a file, whose plans may take work before their turn comes."""

    def prepare(self, plan: PlanT) -> PlanT:
        """Does what can be done before `append`, in the calling thread: a sweep, for instance.

        Returns:
            The plan that will be carried out: this one, or what takes its place.
        """

    def cancel(self) -> None:
        """Ends a `prepare` that runs in another thread; only `close` may follow."""
