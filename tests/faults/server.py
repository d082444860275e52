"""server: runs commands with a fault in one call each, in forks of one process.

Starting Python with torch takes seconds, a fork takes milliseconds. So this process imports
everything, starts no thread, and forks a seat for each socket it was given, which answers requests:
each is a command run in a fork, with the shim armed. It is started with the shim in LD_PRELOAD.
"""

import ctypes
import gc
import json
import os
import resource
import select
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

LONGEST = 180.0  # seconds until a command counts as hanging, whatever else the machine does


def import_all() -> None:
    """What commands import while they run; a fault there would be a fault of the interpreter."""
    import importlib
    import pkgutil

    import torch

    import foregather

    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(foregather.__path__, "foregather."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in ("torch_geometric.nn", "safetensors.torch", "tyro"):
        with suppress(ImportError):
            importlib.import_module(name)


def run_child(request: dict[str, Any], answer: int) -> None:
    """In the fork: runs the command and says how it ended."""
    from foregather.cli import main as module
    from foregather.graph.convert.typed import run as typed

    shim = ctypes.CDLL(None)
    shim.shim_arm.argtypes = (ctypes.c_int, ctypes.c_long)
    shim.shim_count.restype = shim.shim_fired.restype = ctypes.c_long
    shim.shim_fired_name.restype = ctypes.c_char_p
    said = os.open(request["log"], os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    for descriptor in (1, 2):
        os.dup2(said, descriptor)
    os.environ["FAULTS_ROOT"] = request["root"]
    os.chdir(request["root"])
    parsed = request["parsed"]
    if parsed is not None:
        replaced: Any = module
        replaced._parse = lambda _: parsed
    if work := request["work"]:
        steps: Any = typed
        steps.working_memory = lambda *_: work
    shim.shim_arm(request["kind"], request["number"])
    try:
        code = module.main(request["argv"])
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    facts = {"count": shim.shim_count(), "fired": shim.shim_fired()}
    shim.shim_arm(0, 0)
    sys.stdout.flush()
    sys.stderr.flush()
    name = shim.shim_fired_name().decode()
    os.write(answer, json.dumps({"code": code, "call": name, **facts}).encode())


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Forks, waits, and returns how the command ended."""
    seen, answer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.close(seen)
            run_child(request, answer)
            code = 0
        finally:
            os._exit(code)
    os.close(answer)
    ready = select.select([seen], [], [], LONGEST)[0]
    text = os.read(seen, 1 << 16) if ready else b""
    os.close(seen)
    if not ready:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said = Path(request["log"]).read_text(errors="replace")
    if not ready:
        return {"code": "hangs", "said": said, "count": 0, "fired": 1, "call": ""}
    if not text:  # it died before it could say anything
        return {"code": status, "said": said, "count": 0, "fired": 1, "call": "killed"}
    return {**json.loads(text), "said": said}


def parse(argv: list[str]) -> Any:
    """The command line once for all forks; None where it depends on files (train)."""
    from foregather.cli.main import _parse

    return None if argv[0] == "train" else _parse(argv)


def serve(seat: int) -> None:
    """Answers requests from a socket until it ends."""
    known: dict[str, Any] = {}
    with os.fdopen(os.dup(seat), encoding="utf-8") as requests:
        for line in requests:
            request = json.loads(line)
            text = json.dumps(request["argv"])
            if text not in known:
                known[text] = parse(request["argv"])
            answer = json.dumps(run({**request, "parsed": known[text]})) + "\n"
            with os.fdopen(os.dup(seat), "w", encoding="utf-8") as answers:
                answers.write(answer)


def main() -> None:
    """Imports, then forks the seats and waits for them."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import_all()
    gc.collect()
    gc.disable()  # collections in a fork would copy the memory that it shares
    gc.freeze()
    seats = [int(number) for number in os.environ["FAULTS_SEATS"].split()]
    children = []
    for seat in seats:
        child = os.fork()
        if child == 0:
            for other in seats:
                if other != seat:
                    os.close(other)
            serve(seat)
            os._exit(0)
        children.append(child)
    for seat in seats:
        os.close(seat)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
