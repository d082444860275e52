"""in_order: tasks of a channel's thread that are not begun after one before them failed."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

__all__ = ["submit_after"]

Result = TypeVar("Result")


def submit_after(
    thread: Executor,
    before: "Future[Any] | None",
    work: Callable[..., Result],
    *arguments: Any,
) -> "Future[Result]":
    """Queues a task that fails as `before` did, without being begun, if that failed.

    So a chain of tasks may be queued ahead: after a failure no later one sends anything to ranks
    that have given up.

    Args:
        thread: runs one task at a time, in the order they were queued.
        before: a task queued earlier in the same thread, or None.
        work: the task.
        arguments: of the task.
    """

    def run() -> Result:
        if before is not None:
            before.result()  # done by now; raises what it raised
        return work(*arguments)

    return thread.submit(run)
