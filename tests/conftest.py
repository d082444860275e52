"""Fixtures every test may use."""

import gc
import itertools
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import Phase, settings

# The machine may be busy: no test may fail because it was slow. The gate tries the same examples
# every time; by hand, each run tries new ones.
settings.register_profile("foregather", deadline=None, print_blob=True)
settings.register_profile("gate", deadline=None, derandomize=True)
# a planted bug is noticed or not: nobody reads the smallest example that shows it
settings.register_profile(
    "planted", deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate]
)
_PROFILE = "planted" if os.environ.get("FOREGATHER_PLANTED") else "gate"
settings.load_profile(_PROFILE if os.environ.get("CI") else "foregather")

# Threads of torch that wait for each other must sleep: where there are more processes than cores,
# waiting in a loop takes the core from the thread that is waited for, and most of the CPU seconds.
# To be said before torch is imported; processes that tests start inherit it.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Commands are called in the process of the tests, and budgets are tested there: none may keep what
# another freed (`keep_freed_memory`). This value changes nothing else.
os.environ.setdefault("MALLOC_PERTURB_", "0")

# A shell that starts the tests in the background ignores SIGINT, and what they start would too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_frozen = 0  # how many modules were imported when objects were last taken out of collections


def pytest_collection_finish() -> None:
    """What imports and collection made stays to the end: no collection of garbage walks it again.

    A run ends each epoch with `gc.collect()`; over torch, PyG and thousands of tests that is 0.3 s.
    """
    _freeze()


def pytest_runtest_setup() -> None:
    """The same for what tests imported since: torch's compiler alone makes a hundred thousand."""
    if len(sys.modules) > _frozen + 50:
        _freeze()


def _freeze() -> None:
    global _frozen
    gc.collect()
    gc.freeze()
    _frozen = len(sys.modules)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real graphs; tests that need it are skipped where it is not set."""
    folder = os.environ.get("FOREGATHER_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("FOREGATHER_DATA does not name the folder of real graphs")
    return Path(folder)


_caches = itertools.count()


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing a test stores reaches the user's own cache.

    Its name is counted here: `mktemp` lists all folders there are to number a new one.
    """
    cache = tmp_path_factory.getbasetemp() / f"own_cache{next(_caches)}"
    monkeypatch.setenv("FOREGATHER_CACHE", str(cache))
