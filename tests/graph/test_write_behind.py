"""write_behind: jobs run in order, errors reach the caller, no interrupt leaves a thread."""

import ctypes
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
    reached = 0
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
            sys.settrace(None)
            break
        except KeyboardInterrupt:
            sys.settrace(None)
            reached += 1
        if behind is not None and behind._thread.ident is not None:
            behind._jobs.put(None)  # where the very end of the block was interrupted
            behind._thread.join(600)
            assert not behind._thread.is_alive(), line
        assert threading.active_count() == before
    assert reached > 20


def test_an_interrupt_while_waiting_ends_the_thread():
    """Raised from outside while the caller waits for room, as a signal's handler would."""
    for _ in range(20):
        gate, waiting, ended = threading.Event(), threading.Event(), []

        def caller(gate=gate, waiting=waiting, ended=ended):
            try:
                with WriteBehind() as behind:
                    behind.submit(gate.wait)
                    for number in range(DEPTH + 2):
                        if number == DEPTH:
                            waiting.set()
                        behind.submit(int)
            except KeyboardInterrupt:
                ended.append("interrupted")

        thread = threading.Thread(target=caller)
        thread.start()
        waiting.wait()
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt)
        )
        gate.set()
        thread.join(600)
        assert not thread.is_alive() and ended == ["interrupted"]


def test_buffers_take_turns():
    ring = Ring("int64")
    first = ring.take(4)
    assert all(ring.take(4).base is not first.base for _ in range(DEPTH + 1))
    assert ring.take(2).base is first.base
