"""How torch's threads wait in a process of the command line: asleep, unless the user decided."""

import json
import os
import subprocess
import sys

import pytest

from foregather.cli.waiting import POLICIES, let_threads_sleep
from tests.some import some

SHOWN = """
import json, os, sys
from foregather.cli.main import main
assert "torch" not in sys.modules, "too early: torch has read the variable"
assert main(["--help"]) == 0
print()
print(json.dumps([os.environ.get(name) for name in sys.argv[1:]]))
"""


def shown(**env: str) -> list[str | None]:
    """The variables after a command in a new process."""
    clean = {name: value for name, value in os.environ.items() if name not in POLICIES}
    done = subprocess.run(
        [sys.executable, "-c", SHOWN, *POLICIES],
        env=clean | env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found: list[str | None] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_threads_sleep_by_default() -> None:
    assert shown() == ["PASSIVE", None, None]


@pytest.mark.parametrize(
    "given", [{"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "1000"}, {"KMP_BLOCKTIME": "200"}]
)
def test_the_users_own_value_wins(given: dict[str, str]) -> None:
    assert shown(**given) == [given.get(name) for name in POLICIES]


def test_a_program_that_has_torch_already_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would change nothing there, and the processes it starts are its own."""
    for name in some(POLICIES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", sys)
    assert not let_threads_sleep()
    assert "OMP_WAIT_POLICY" not in os.environ
