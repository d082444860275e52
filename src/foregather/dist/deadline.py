"""deadline: a call that may block for ever inside a library, given up after some seconds.

Connections to a store that is stopped, or to a port of another program, have no timeout of their
own in torch. The call runs in a daemon thread, which is left behind if the time is over; the
process can still end.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["Overdue", "within"]

T = TypeVar("T")


class Overdue(RuntimeError):
    """The call did not return in time."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """What `call` returns or raises.

    Raises:
        Overdue: it did neither within the seconds.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="foregather-deadline", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise Overdue(f"no answer within {seconds:g} s")
    return results[0]
