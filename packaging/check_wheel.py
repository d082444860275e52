"""check_wheel: installs a wheel into an empty environment without a compiler, and uses it there.

    python packaging/check_wheel.py dist/foregather-*.whl                 # without torch
    python packaging/check_wheel.py dist/foregather-*.whl --torch 2.13.0  # with this torch, and PyG
    python packaging/check_wheel.py dist/foregather-*.whl --borrow DIR    # with packages of DIR

The environment is made with the Python that runs this; nothing of the repository is imported.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import venv
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


def main() -> None:
    """Makes the environment and runs both programs in it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("wheel", type=Path)
    options.add_argument("--torch", default="", help="version to install from the package index")
    options.add_argument("--borrow", type=Path, help="a site-packages folder with torch and PyG")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        venv.create(home / "venv", with_pip=True)
        python = str(home / "venv" / "bin" / "python")
        # No compiler, no make: only what is in the environment itself.
        clean = {"PATH": str(home / "venv" / "bin"), "HOME": place}
        kept = {key: os.environ[key] for key in os.environ if key.startswith("PIP_")}

        def run(*arguments: str) -> None:
            subprocess.run([python, *arguments], check=True, cwd=place, env=clean | kept)

        pip = ("-m", "pip", "-q", "--disable-pip-version-check", "install")
        run(*pip, "--only-binary=:all:", *NEEDED)
        run(*pip, "--no-deps", str(given.wheel.resolve()))
        run("-c", GRAPHS)
        if given.torch:
            run(*pip, f"torch=={given.torch}", "torch-geometric>=2.6")
        if given.borrow:
            site = next((home / "venv" / "lib").glob("python*/site-packages"))
            (site / "borrowed.pth").write_text(f"{given.borrow.resolve()}\n")
        if given.torch or given.borrow:
            run("-c", TRAINING)
    print(f"{given.wheel.name}: fine on Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
