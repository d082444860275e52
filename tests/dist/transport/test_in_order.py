"""Tasks queued ahead in a channel's thread: after a failure none behind it is begun."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from foregather.dist.transport.in_order import submit_after


@pytest.mark.parametrize("fails", [0, 1, 3, None])
def test_nothing_behind_a_failure_is_begun(fails):
    begun, gate = [], threading.Event()

    def work(number):
        gate.wait(600)  # all are queued before the first ends
        begun.append(number)
        if number == fails:
            raise ValueError(f"task {number}")
        return number * number

    with ThreadPoolExecutor(1) as thread:
        tasks: list[Future] = []
        for number in range(5):
            tasks.append(submit_after(thread, tasks[-1] if tasks else None, work, number))
        gate.set()
    last = 4 if fails is None else fails
    assert begun == list(range(last + 1))
    for number, task in enumerate(tasks):
        if fails is not None and number >= fails:
            with pytest.raises(ValueError, match=f"task {fails}"):
                task.result()
        else:
            assert task.result() == number * number
