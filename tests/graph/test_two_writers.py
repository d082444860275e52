"""Two processes make the same folder: one is stopped at each line in turn while the other runs.

The first process counts the lines it runs in the code that makes, swaps and clears folders, and
waits at a given one until the second process has ended. Whatever the line, each exit code must be
true: who says that the folder was made has made it, and nothing is left beside it.
"""

import os
import sys
from collections import Counter
from types import FrameType

import numpy as np
import pytest

from foregather.errors import StorageError
from foregather.graph.graph import Graph
from foregather.graph.on_disk import files, owned, workspace, writer
from foregather.graph.on_disk.writer import FolderWriter

WATCHED = {module.__file__ for module in (files, owned, workspace)}
OF_WRITER = {"__enter__", "_check_target", "finish", "__exit__"}  # not the writing of arrays
FIRST, SECOND = 3, 5  # edges of the graph that each makes


def make(path, overwrite, edges):
    """One attempt; the exit code of a command."""
    try:
        with FolderWriter(path, overwrite) as folder:
            folder.put("indptr", np.array([0, edges], np.int64))
            folder.put("indices", np.zeros(edges, np.uint32))
            folder.finish(1, edges)
    except StorageError:
        return 2
    return 0


def edges_of(path):
    """Opens the folder; its number of edges, which says who made it."""
    graph = Graph.open(path)
    assert graph.indptr.tolist() == [0, graph.num_edges] and not np.asarray(graph.indices).any()
    return graph.num_edges


def stop_at(line, here, go_on):
    """Waits at the line with that number, counted over all watched modules.

    Of a line that is run often, in a loop over names, two times are counted for each call.
    """
    count = 0
    told = []
    visits: Counter[tuple[FrameType, int]] = Counter()

    def trace(frame, event, argument):
        nonlocal count
        code = frame.f_code
        if code.co_filename not in WATCHED and (
            code.co_filename != writer.__file__ or code.co_name not in OF_WRITER
        ):
            return None
        if event == "line":
            visits[frame, frame.f_lineno] += 1
            count += visits[frame, frame.f_lineno] <= 2
            if count == line and not told:
                told.append(line)
                os.write(here, b"x")
                os.read(go_on, 1)
        return trace

    sys.settrace(trace)


def fork(work):
    """Runs `work` in a copy of this process that ends with its exit code."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        code = work()
    finally:
        os._exit(code)


def code_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def beside(path, overwrite, line, other):
    """Runs `other` while the first process waits at a line.

    Returns:
        Whether it got to that line, its exit code, and what `other` returned.
    """
    (seen, here), (wait, go_on) = os.pipe(), os.pipe()

    def first():
        os.close(seen)
        os.close(go_on)
        stop_at(line, here, wait)
        return make(path, overwrite, FIRST)

    child = fork(first)
    os.close(here)
    os.close(wait)
    reached = os.read(seen, 1) == b"x"
    told = other() if reached else None
    os.close(go_on)
    os.close(seen)
    return reached, code_of(child), told


def every_line(work, step=1):
    """Every line where FOREGATHER_EVERY_LINE is set, else every `step`-th."""
    line, step = 1, 1 if "FOREGATHER_EVERY_LINE" in os.environ else step
    while work(line):
        line += step
    assert line > 100  # it did look into the modules


@pytest.fixture(autouse=True)
def unsynced(monkeypatch):
    """What a power cut leaves is not asked here, and waiting for the disk would take longest."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.mark.slow
@pytest.mark.parametrize("overwrite", [False, True])
def test_two_writers_of_one_folder(tmp_path, overwrite):
    outcomes = set()

    def at(line):
        folder = tmp_path / str(line)
        folder.mkdir()
        path = folder / "g"
        if overwrite:
            assert make(path, False, 1) == 0
        second = lambda: code_of(fork(lambda: make(path, overwrite, SECOND)))  # noqa: E731
        reached, first, told = beside(path, overwrite, line, second)
        assert os.listdir(folder) == ["g"]
        found = edges_of(path)
        if not reached:
            assert (first, found) == (0, FIRST)
            return False
        outcomes.add((first, told, found))
        return True

    every_line(at, step=3 if overwrite else 1)
    # First alone, second alone; with --overwrite also one after the other, in either order.
    alone = {(0, 2, FIRST), (2, 0, SECOND)}
    assert outcomes == ({(0, 2, FIRST), (0, 0, FIRST), (0, 0, SECOND)} if overwrite else alone)


@pytest.mark.slow
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_person_puts_something_there(tmp_path, overwrite):
    """A folder at the target, or a note in the old graph, at each line: it is never lost."""
    outcomes = set()

    def at(line):
        path = tmp_path / str(line) / "g"
        path.parent.mkdir()
        if overwrite:
            assert make(path, False, 1) == 0

        def put():
            path.mkdir(exist_ok=True)
            (path / "thesis.txt").write_text("years of work")

        reached, first, _ = beside(path, overwrite, line, put)
        assert os.listdir(path.parent) == ["g"]
        if reached:
            assert (path / "thesis.txt").read_text() == "years of work"
        if first == 0:
            assert edges_of(path) == FIRST
        outcomes.add(first)
        return reached

    every_line(at, step=4)
    assert outcomes == {0, 2}
