"""write_behind: jobs run in order, errors reach the caller, no interrupt leaves a thread."""

import signal
import sys
import threading

import pytest

from foregather.graph.on_disk import write_behind
from foregather.graph.on_disk.write_behind import DEPTH, Ring, WriteBehind


def test_jobs_run_in_order_and_few_wait():
    done, gate = [], threading.Event()
    with WriteBehind() as behind:
        behind.submit(gate.wait)
        for number in range(DEPTH):
            behind.submit(lambda number=number: done.append(number))
        assert done == []
        gate.set()
        for number in range(DEPTH, 50):
            behind.submit(lambda number=number: done.append(number))
        behind.drain()
        assert done == list(range(50))


def test_the_first_error_is_raised_and_stops_what_follows():
    done = []

    def fail():
        raise OSError("no")

    with pytest.raises(OSError, match="no"), WriteBehind() as behind:
        behind.submit(fail)
        behind.submit(lambda: done.append(1))
        behind.drain()
    assert done == []


def test_an_interrupt_at_every_line_ends_the_thread():
    """An interrupt in `submit`, `drain` and the end of the block, each line in turn."""
    reached, usual = 0, sys.gettrace()  # usual: of coverage, if it is measured
    for line in range(1, 200):
        count, before = 0, threading.active_count()

        def trace(frame, event, argument, line=line):
            nonlocal count
            if frame.f_code.co_filename != write_behind.__file__:
                return None
            if event == "line":
                count += 1
                if count == line:
                    raise KeyboardInterrupt
            return trace

        behind = None
        try:
            sys.settrace(trace)
            with WriteBehind() as behind:
                for _ in range(4):
                    behind.submit(int)
                behind.drain()
            sys.settrace(usual)
            break
        except KeyboardInterrupt:
            sys.settrace(usual)
            reached += 1
        if behind is not None and behind._thread.ident is not None:
            behind._jobs.put(None)  # where the very end of the block was interrupted
            behind._thread.join(600)
            assert not behind._thread.is_alive(), line
        assert threading.active_count() == before
    assert reached > 20


def test_a_signal_while_waiting_ends_the_thread():
    """A handler that raises while the caller waits for room."""

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before, usual = threading.active_count(), signal.signal(signal.SIGUSR1, interrupt)
    try:
        for _ in range(20):
            gate, waiting = threading.Event(), threading.Event()

            def send(gate=gate, waiting=waiting):
                waiting.wait()
                signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
                gate.set()

            sender = threading.Thread(target=send)
            sender.start()
            with pytest.raises(KeyboardInterrupt), WriteBehind() as behind:
                behind.submit(gate.wait)
                for number in range(DEPTH + 2):
                    if number == DEPTH:
                        waiting.set()
                    behind.submit(int)
            sender.join()
            assert threading.active_count() == before
    finally:
        signal.signal(signal.SIGUSR1, usual)


def test_buffers_take_turns():
    ring = Ring("int64")
    first = ring.take(4)
    assert all(ring.take(4).base is not first.base for _ in range(DEPTH + 1))
    assert ring.take(2).base is first.base
