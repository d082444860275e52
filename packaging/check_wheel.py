"""check_wheel: installs a wheel into empty environments without a compiler, and uses it there.

    python packaging/check_wheel.py dist/foregather-*.whl                  # without torch
    python packaging/check_wheel.py dist/foregather-*.whl --torch 2.4.1 2.13.0    # and with PyG
    python packaging/check_wheel.py dist/foregather-*.whl --python python3.10 python3.13
    python packaging/check_wheel.py dist/foregather-*.whl --borrow DIR     # with packages of DIR

Every Python and every torch has an environment of its own, one after the other; without --python it
is the Python that runs this. Nothing of the repository is imported. A combination that fails does
not stop the others; the last lines say how each went, and the exit code is 1 if one failed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

GRAPHS = """
import sys, foregather
from foregather import Graph
from foregather.cli.main import main
assert main(["synth", "g", "--nodes", "2000", "--classes", "5"]) == 0
assert main(["verify", "g"]) == 0 and main(["info", "g"]) == 0
graph = Graph.open("g")
assert graph.num_nodes == 2000 and graph.num_classes == 5
assert "torch" not in sys.modules, "graphs need no torch"
print("graphs without torch: fine, foregather", foregather.__version__)
"""
TRAINING = """
import torch
from foregather import Graph, Loader
from foregather.cli.main import main
batch = next(iter(Loader(Graph.open("g"), [5, 5], "train", batch_size=64)))
assert batch.x.shape[0] == batch.n_id.shape[0]
assert main(["train", "--graph", "g", "--run", "r", "--train.epochs", "1", "--json"]) == 0
assert main(["infer", "r", "g", "scores.npy"]) == 0 and main(["report", "r"]) == 0
print("training: fine, torch", torch.__version__, "batches are", type(batch).__module__)
"""
NEEDED = (
    "nanobind-backend>=1.0,<2",
    "numpy>=1.26",
    "safetensors>=0.4",
    "tomli>=2.0; python_version < '3.11'",
    "tqdm>=4.66",
    "tyro>=0.9.14",
)


def check(wheel: Path, python: str, torch: str, borrow: Path | None) -> None:
    """Makes one environment and runs the programs in it.

    Raises:
        CalledProcessError: something could not be installed, or a program failed.
    """
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        subprocess.run([python, "-m", "venv", str(home / "venv")], check=True)
        inside = str(home / "venv" / "bin" / "python")
        # No compiler, no make: only what is in the environment itself.
        clean = {"PATH": str(home / "venv" / "bin"), "HOME": place}
        kept = {key: os.environ[key] for key in os.environ if key.startswith("PIP_")}

        def run(*arguments: str) -> None:
            subprocess.run([inside, *arguments], check=True, cwd=place, env=clean | kept)

        for tool in ("c++", "g++", "gcc", "cc", "clang++", "clang"):
            if shutil.which(tool, path=clean["PATH"]):
                raise SystemExit(f"{tool} is on the path, so this would prove nothing")
        pip = ("-m", "pip", "-q", "--disable-pip-version-check", "install")
        run(*pip, "--only-binary=:all:", *NEEDED)
        run(*pip, "--no-deps", str(wheel))
        run("-c", GRAPHS)
        if torch:
            run(*pip, f"torch=={torch}", "torch-geometric>=2.6")
        if borrow:
            site = next((home / "venv" / "lib").glob("python*/site-packages"))
            (site / "borrowed.pth").write_text(f"{borrow.resolve()}\n")
        if torch or borrow:
            run("-c", TRAINING)


def main() -> int:
    """Checks every combination; returns the exit code."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("wheel", type=Path)
    options.add_argument("--torch", nargs="+", default=[""], help="versions from the package index")
    options.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters")
    options.add_argument("--borrow", type=Path, help="a site-packages folder with torch and PyG")
    given = options.parse_args()
    failed, said = False, []
    for python in given.python:
        told = subprocess.run([python, "--version"], capture_output=True, text=True, check=True)
        for torch in given.torch:
            what = f"{told.stdout.strip()}, {'torch ' + torch if torch else 'no torch'}"
            try:
                check(given.wheel.resolve(), python, torch, given.borrow)
                said.append(f"{what}: fine")
            except subprocess.CalledProcessError as error:
                failed = True
                said.append(f"{what}: failed, exit code {error.returncode}")
    print("\n".join([given.wheel.name, *said]))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
