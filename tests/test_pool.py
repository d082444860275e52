"""The core's helper threads: a forked child works, and the interpreter ends while they exist.

Each script runs in its own interpreter, as newer Pythons warn about any fork of a threaded process.
"""

import subprocess
import sys
import textwrap

import pytest

START = """
    import multiprocessing, os
    import numpy as np
    from foregather import _core

    words, index = np.ones(1 << 20, np.uint64), np.zeros(1 << 20, np.uint32)
    sums = lambda: _core.testing.read_lines(words, index, 8, 4)  # four parts, so three helpers
    assert sums() == 1 << 20
"""

SCRIPTS = {
    "os.fork": """
        for _ in range(5):
            child = os.fork()
            if child == 0:
                os._exit(0 if all(sums() == 1 << 20 for _ in range(20)) else 1)
            assert sums() == 1 << 20  # the parent goes on meanwhile
            assert os.waitpid(child, 0)[1] == 0
        assert sums() == 1 << 20
    """,
    "multiprocessing": """
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(sums_again, range(8)) == [1 << 20] * 8
        assert sums() == 1 << 20
    """,
    "exit": "",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_fork_and_exit(name):
    named = "def sums_again(_):\n    return sums()\n"
    script = textwrap.dedent(START) + named + textwrap.dedent(SCRIPTS[name]) + "\nprint('done')"
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (made.returncode, made.stdout, made.stderr) == (0, "done\n", "")
