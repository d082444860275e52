"""renamed: every module of release 0.1 is found under its old name, with a warning."""

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

from foregather.renamed import RENAMED, install

OLD = ("graph.writer", "train.batch", "train.loader")


@pytest.mark.parametrize("old", sorted(RENAMED))
def test_new_names_exist_and_old_ones_do_not(old):
    assert find_spec(f"foregather.{RENAMED[old]}") is not None
    home, _, name = old.rpartition(".")
    assert (
        not hasattr(import_module(f"foregather.{home}"), name) or f"foregather.{old}" in sys.modules
    )


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
