"""Cases that may end by a signal, each in a process of its own, with a file of its graph cut."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

# Each case runs in a fork of one process that has imported everything: it gets a graph of its own,
# opened, and `cut`, which cuts one of its files behind the header.
CHILD = """
import faulthandler, gc, json, mmap, os, re, shutil, signal, sys, threading
from pathlib import Path
import numpy as np
from foregather import *
from foregather.cli.main import main as command
from foregather.graph import graph as opening
from foregather.graph.integrity import verify as verifying
from foregather.graph.on_disk.npy import map_array
from foregather.sampling import Full, Labor, Ladies, Neighbor, RandomWalk, Saint

source, results = Path(sys.argv[1]), {}
for number, (case, (name, code)) in enumerate(json.load(sys.stdin).items()):
    folder = source.with_name(f"case-{number}")
    out, err = folder.with_suffix(".out"), folder.with_suffix(".err")
    if os.fork() == 0:
        shutil.copytree(source, folder)
        os.dup2(os.open(out, os.O_CREAT | os.O_WRONLY), 1)
        os.dup2(os.open(err, os.O_CREAT | os.O_WRONLY), 2)
        cut = lambda: os.truncate(folder / name, 4096)
        graph = None if code.startswith("later") else Graph.open(folder)
        status = 0
        try:
            exec(code.removeprefix("later"))
        except ForegatherError as error:
            print(error, file=sys.stderr)
            status = 2
        except SystemExit as ended:
            status = ended.code
        sys.stdout.flush()
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.wait()[1])
    results[case] = (status, out.read_text(), err.read_text())
    shutil.rmtree(folder)
print(json.dumps(results))
"""


def run_cases(folder: Path, cases: dict[str, Any]) -> dict[str, list[Any]]:
    """What each case, (file to cut, code), ended with: exit code, standard output, error."""
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout))
