"""One launcher for all tests of ranks."""

import pytest

from dist.world import Launcher


@pytest.fixture(scope="session")
def launcher():
    with Launcher() as made:
        yield made
