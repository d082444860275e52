"""renamed: old names of modules of release 0.1, and of what is in them, work with a warning."""

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

from foregather.renamed import RENAMED, RENAMED_INSIDE, install

OLD = ("graph.writer", "train.batch", "train.loader")


@pytest.mark.parametrize("old", sorted(RENAMED))
def test_new_names_exist_and_old_ones_do_not(old):
    assert find_spec(f"foregather.{RENAMED[old]}") is not None
    home, _, name = old.rpartition(".")
    assert (
        not hasattr(import_module(f"foregather.{home}"), name) or f"foregather.{old}" in sys.modules
    )


@pytest.mark.parametrize("home", sorted(RENAMED_INSIDE))
def test_what_was_renamed_inside_a_module_is_found_under_both_names(home):
    """Under the old one only by those who import the module by its old name."""
    code = (
        "import sys, warnings\n"
        "from importlib import import_module\n"
        "old_module, module, old, new = sys.argv[1:]\n"
        "made = import_module(module)\n"
        "assert not hasattr(made, old)\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    exec(f'from {old_module} import {old} as found')\n"
        "assert found is getattr(made, new) and not hasattr(made, 'nothing')\n"
        "texts = [str(one.message) for one in seen if one.category is DeprecationWarning]\n"
        "print(*[text.split(';')[0] for text in texts if 'foregather' in text], sep='\\n')\n"
    )
    (before,) = [old for old, new in RENAMED.items() if new == home]
    for old, new in RENAMED_INSIDE[home].items():
        argv = [f"foregather.{before}", f"foregather.{home}", old, new]
        ran = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True)
        said = [
            f"foregather.{before} is now called foregather.{home}",
            f"{old} of foregather.{home} is now called {new}",
        ]
        assert ran.stdout.splitlines() == said, ran.stderr


def test_an_old_name_is_the_module_of_the_new_one():
    code = (
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    from foregather.train.loader import Loader\n"
        "    import foregather.graph.writer as old\n"
        "    from foregather.train import batch\n"
        "    from foregather.dist.features import FeatureBlock\n"
        "import foregather.loader.loader as new, foregather.graph.on_disk.writer as writer\n"
        "assert Loader is new.Loader and old is writer\n"
        "assert new.__name__ == new.__spec__.name == 'foregather.loader.loader'\n"
        "texts = [str(one.message) for one in seen if one.category is DeprecationWarning]\n"
        "print(sorted({text.split()[0] for text in texts if 'foregather' in text}))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    names = ["FeatureBlock", *(f"foregather.{name}" for name in OLD)]
    assert ran.stdout.strip() == str(names), ran.stderr


def test_names_that_never_were_are_not_found():
    install()
    with pytest.raises(ModuleNotFoundError):
        import_module("foregather.train.nothing")
    with pytest.raises(AttributeError):
        import_module("foregather.dist.features").nothing  # noqa: B018
