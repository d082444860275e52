"""A copy of the project, for tests of code that was changed or built in another way."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.processes import ROOT

_LIMIT = 900  # seconds after which tests are said to hang

# The package is installed so that its name leads to the project; here it must lead to the copy.
_SITE = """
import os, sys
sys.meta_path[:] = [f for f in sys.meta_path if "Redirecting" not in type(f).__name__]
sys.path.insert(0, os.environ["FOREGATHER_COPY"])
"""


class ProjectCopy:
    """A copy of the project with a core of its own.

    Args:
        folder: where it is made.
        sanitize: sanitizers that the core is built with, as CMakeLists.txt names them.
        environment: further variables of the tests' processes.
        core: a built core to take; None: one is built.
    """

    def __init__(
        self,
        folder: Path,
        sanitize: str = "",
        environment: dict[str, str] | None = None,
        core: Path | None = None,
    ) -> None:
        self.folder = folder
        self._environment = environment or {}
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        for name in listed.stdout.splitlines():
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
        (folder / "site").mkdir()
        (folder / "site/sitecustomize.py").write_text(_SITE)
        if core is not None:
            shutil.copy(core, folder / "src/foregather" / core.name)
            return
        self._configure(sanitize)
        self.build()

    def _configure(self, sanitize: str) -> None:
        self._ninja = shutil.which("ninja", path=str(Path(sys.executable).parent)) or "ninja"
        where = subprocess.run(
            [sys.executable, "-m", "nanobind", "--cmake_dir"],
            capture_output=True,
            text=True,
            check=True,
        )
        self._run(
            [
                *(sys.executable, "-m", "cmake", "-S", ".", "-B", "build/copy", "-G", "Ninja"),
                *("-DSKBUILD=2", "-DSKBUILD_SABI_VERSION=3.10", "-DCMAKE_BUILD_TYPE=Release"),
                "-DCMAKE_CXX_FLAGS_RELEASE=-O1",  # the same results, built in half the time
                f"-DCMAKE_MAKE_PROGRAM={self._ninja}",
                f"-DPython_EXECUTABLE={sys.executable}",
                f"-Dnanobind_DIR={where.stdout.strip()}",
                f"-DFOREGATHER_SANITIZE={sanitize}",
            ]
        )

    def _run(self, command: list[str]) -> None:
        ended = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if ended.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}")

    def build(self) -> None:
        """Builds the core and puts it where the copy's package looks."""
        self._run([self._ninja, "-C", "build/copy", "_core"])
        built = next((self.folder / "build/copy").glob("_core*.so"))
        shutil.copy(built, self.folder / "src/foregather" / built.name)

    def test(self, tests: Iterable[str], limit: float = _LIMIT) -> tuple[str, str]:
        """How it ended ("passed", "failed", "hung"), and the first failure."""
        self.output = ""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder / "site"),
            "FOREGATHER_COPY": str(self.folder / "src"),
            "CI": "true",  # the same hypothesis examples every time
            **self._environment,
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
        try:
            ended = subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=limit,
            )
        except subprocess.TimeoutExpired:
            return "hung", ""
        self.output = ended.stdout + ended.stderr
        lines = [s for s in ended.stdout.splitlines() if s.startswith(("FAILED", "ERROR"))]
        first = lines[0].split(" - ")[0].split(" ", 1)[1] if lines else self._last(ended)
        return ("passed" if ended.returncode == 0 else "failed"), first

    @staticmethod
    def _last(ended: subprocess.CompletedProcess[str]) -> str:
        """What tests that name no failure left: the signal that ended them, or their last words."""
        if ended.returncode < 0:
            return f"the tests' process ended by {signal.Signals(-ended.returncode).name}"
        return ended.stdout[-400:]
