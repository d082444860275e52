"""call_timeout: gives up a call that may block forever inside a library after some seconds.

Connections to a store that is stopped, or to a port of another program, have no timeout of their
own in torch. The call runs in a daemon thread. A thread that is still inside C++ code when Python
exits can take the whole process down (std::terminate), so after the timeout the links it waits on
are cut: the call then fails in its own thread, before the process ends.
"""

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

__all__ = ["Overdue", "cut_links", "within"]

T = TypeVar("T")

_FAIL = 5.0  # seconds for a call to fail once its links are cut


class Overdue(RuntimeError):
    """The call did not return in time."""


def within(seconds: float, call: Callable[[], T], give_up: Callable[[], None] | None = None) -> T:
    """Returns or raises what `call` does.

    Args:
        seconds: how long it may take.
        call: what is done.
        give_up: called when the time is over, to make the call fail.

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
    if thread.is_alive() and give_up is not None:
        give_up()
        thread.join(_FAIL)
        errors.clear()  # what it failed with is not the cause
    if errors:
        raise errors[0]
    if not results:
        raise Overdue(f"no answer within {seconds:g} s")
    return results[0]


def cut_links(host: str, port: int) -> None:
    """Shuts down this process's connections to a port, so that calls waiting on them fail.

    If the kernel does not list a process's files, nothing happens.
    """
    with suppress(OSError):
        addresses = {info[4][0] for info in socket.getaddrinfo(host, port)}
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError, ValueError):
                _cut(int(name), addresses, port)


def _cut(descriptor: int, addresses: set[str | int], port: int) -> None:
    if not os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:"):
        return
    with socket.socket(fileno=os.dup(descriptor)) as link:
        if link.family not in (socket.AF_INET, socket.AF_INET6):
            return
        address, to = link.getpeername()[:2]
        if to == port and (address.removeprefix("::ffff:") in addresses or address in addresses):
            link.shutdown(socket.SHUT_RDWR)
