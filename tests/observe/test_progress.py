"""Bars and forked processes: nobody waits for a lock that nobody holds any more."""

import subprocess
import sys

import pytest

HELD = """
import os, threading
from foregather.observe.progress import Progress, bars

def end(process):
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0

def show():
    with Progress("rows", 3, "rows") as bar:
        bar.advance(3)
"""

BY_A_CHILD = """
show()
process = os.fork()
if not process:
    bars().get_lock().acquire()
    os._exit(0)  # as if killed: the lock is not given back
end(process)
show()
"""

BY_A_THREAD = """
held, over = threading.Event(), threading.Event()

def hold():
    with bars().get_lock():
        held.set()
        over.wait()

thread = threading.Thread(target=hold)
thread.start()
held.wait()
process = os.fork()
if not process:
    show()
    os._exit(0)
end(process)
over.set()
thread.join()
show()
"""


@pytest.mark.parametrize("case", [BY_A_CHILD, BY_A_THREAD])
def test_a_lock_held_across_a_fork_stops_nobody(case):
    command = [sys.executable, "-c", HELD + case]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_bars_have_no_thread():
    code = HELD + "show(); assert threading.active_count() == 1"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
