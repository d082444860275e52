"""The process that ranks of test worlds are forked from, so that torch is imported once.

Reads one JSON command a line: {"start": task, ...} forks ranks, {"poll": [pids]} says which have
ended. Ends, and ends all ranks, when its input ends.
"""

import contextlib
import gc
import json
import os
import signal
import sys
from typing import Any

from tests.dist import rank as ranks


def start(command: dict[str, Any]) -> list[int]:
    pids = []
    for rank in range(command["processes"]):
        pid = os.fork()
        if pid:
            pids.append(pid)
            continue
        os.environ.update(command["env"])
        os.environ.update(command["of_rank"].get(str(rank), {}))
        os.environ["RANK"] = str(rank)
        out = os.open(f"{command['folder']}/out{rank}", os.O_CREAT | os.O_WRONLY)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.close(0)
        code = 1
        try:
            code = ranks.main(command["start"], command["folder"])
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return pids


def poll(pids: list[int]) -> dict[int, int]:
    codes = {}
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                codes[pid] = os.waitstatus_to_exitcode(status)
    return codes


def main() -> None:
    # What was imported is not walked by a rank's collections of garbage, which would also copy
    # every page of it that ranks share.
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        made: Any = start(command) if "start" in command else poll(command["poll"])
        print(json.dumps(made), flush=True)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
