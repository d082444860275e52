"""Interrupts in turn at lines of the loop's machinery: the next loop is right, no thread is left.

Every n-th line; `python -m tests.interrupts` does them all.
"""

import pytest

from tests.interrupts import enumerate_interrupts
from tests.loader.loops import small_folder


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return small_folder(tmp_path_factory.mktemp("interrupts") / "g")


@pytest.mark.parametrize(
    ("storage", "way", "every"),
    [
        ("memory", "all", 11),
        ("memory", "break", 5),
        ("features", "break", 11),
        ("disk", "nested", 53),
        ("repack", "break", 31),
    ],
)
def test_an_interrupt_and_a_new_loop(graph, storage, way, every):
    report = enumerate_interrupts(graph, storage, way, every)
    # a run with less waiting has fewer lines, and may be over before its turn
    assert report.loops >= report.interrupts >= 10
    assert report.batches == 8 * report.loops
    assert (report.wrong, report.orphans) == (0, 0)
