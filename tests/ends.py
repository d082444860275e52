"""Processes that end while a loader works in a daemon thread; each must end quietly, with code 0.

`python -m tests.ends [--processes N]` starts that many, in every storage, and ends each at a random
moment. Prints how many did not end with 0; exits with 1 if any.
"""

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from foregather.graph.synthetic import synthesize

STORAGES = ("memory", "features", "disk")

CHILD = """
import sys, threading, time
import torch
from foregather import BatchContents, Graph, Loader
options = {} if sys.argv[2] == "memory" else {"memory": "80MB", "storage": sys.argv[2]}
loader = Loader(
    Graph.open(sys.argv[1]), [10, 10], None, 512, shuffle=True, bulk=4,
    contents=BatchContents(pyg=False), **options
)
ready = threading.Event()
def work():
    while True:
        for number, batch in enumerate(loader):
            batch.x.to(torch.float64).sum().item()
            if number == 2: ready.set()
threading.Thread(target=work, daemon=True).start()
ready.wait()
time.sleep(float(sys.argv[3]))
"""


def end_of_one(folder: Path, storage: str, seconds: float) -> str:
    """What was wrong with the end of a process, "" for nothing."""
    command = [sys.executable, "-c", CHILD, str(folder), storage, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode == 0 and done.stderr == "":
        return ""
    return f"{storage} after {seconds:.3f} s: code {done.returncode}, {done.stderr[-300:]!r}"


def main() -> int:
    """Starts and ends them all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--processes", type=int, default=200)
    count = parser.parse_args().processes
    rng, bad = random.Random(0), 0
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "g"
        synthesize(folder, 20_000, degree=8, features=96, classes=5, seed=3)
        for number in range(count):
            wrong = end_of_one(folder, STORAGES[number % 3], rng.random() * 0.1)
            if wrong:
                bad += 1
                print(wrong, flush=True)
    print(f"{count} processes, {bad} did not end with 0 and in silence")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
