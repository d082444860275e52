"""The list of planted bugs stays true: every text is in its file once, every test is there."""

import pytest

from tests.mutants.bringing import BRINGING
from tests.mutants.core import CORE
from tests.mutants.links import LINKS
from tests.mutants.mutant import ROOT
from tests.mutants.python import PYTHON
from tests.mutants.tables import TABLES

ALL = [*CORE, *PYTHON, *BRINGING, *TABLES, *LINKS]


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_the_bug_can_be_planted(mutant):
    text = (ROOT / mutant.file).read_text()
    assert mutant.planted(text) != text
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert f"def {name}" in (ROOT / file).read_text()


def test_there_are_enough_and_names_differ():
    assert len([m for m in ALL if not m.same]) >= 60
    assert len({mutant.name for mutant in ALL}) == len(ALL)
