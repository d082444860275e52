"""bench: runs the benchmarks of a checkout: `python -m foregather.bench paper --paper mbs --quick`.

Benchmarks are in the repository and not in the package, since they need its data and baselines.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]

_SCRIPTS = {"paper": "paper.py", "all": "run.py"}


def find_benchmarks(start: Path) -> Path | None:
    """The folder of benchmarks of the checkout that `start` or this package is in; None: none."""
    for place in (start.resolve(), *start.resolve().parents, Path(__file__).resolve().parents[2]):
        if (place / "benchmarks" / "paper.py").is_file() and (place / "pyproject.toml").is_file():
            return place / "benchmarks"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a script with the arguments that follow its name; returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] not in _SCRIPTS:
        asked = f"{given[0]!r} is no benchmark" if given else "no benchmark is named"
        print(f"{asked}; run `python -m foregather.bench paper --quick`, or `all`", file=sys.stderr)
        return 2
    folder = find_benchmarks(Path.cwd())
    if folder is None:
        print(
            "there is no checkout of foregather here, and the benchmarks are not in the installed "
            "package; clone the repository and run this inside it",
            file=sys.stderr,
        )
        return 2
    script = folder / _SCRIPTS[given[0]]
    return subprocess.run([sys.executable, str(script), *given[1:]], cwd=folder.parent).returncode


if __name__ == "__main__":
    sys.exit(main())
