"""import_name: classes that settings name as `module:Class`, imported and made.

That runs the user's own code, and only because the settings request it; no graph folder can.
"""

import importlib
import os
import sys
from typing import Any

from foregather.errors import InputError, MissingDependencyError

__all__ = ["call_class", "import_name"]


def import_name(name: str, what: str) -> Any:
    """Imports the object called `module:Class`.

    Raises:
        InputError: the module or the class does not exist.
    """
    module, _, inside = name.partition(":")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
        for part in inside.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        if error.name == "torch_geometric":
            raise MissingDependencyError(
                f"{what} {name} needs PyG; install it with: pip install 'foregather[pyg]'"
            ) from error
        raise InputError(
            f"{what} is {name}, but there is no module {error.name}; run in its folder"
        ) from error
    except AttributeError as error:
        raise InputError(f"{what} is {name}, but {module} has no {inside}") from error
    return found


def call_class(kind: Any, options: dict[str, Any], what: str) -> Any:
    """Makes an object of a class with these options.

    Raises:
        InputError: it does not take them.
    """
    try:
        return kind(**options)
    except (TypeError, ValueError, AssertionError) as error:
        raise InputError(f"{what} cannot be made with {options}: {error}") from error
