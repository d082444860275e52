"""Sanitizers under Python: the Python tests of the core, with a core that looks at every access.

    python tests/sanitized.py --report

The extension is built with AddressSanitizer and UndefinedBehaviorSanitizer in a copy of the
project, and the tests of readers, samplers, plans and disk run with it. Leaks are not looked for:
the interpreter and torch leave memory at their end. What is run is what the table says.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.project_copy import ProjectCopy

#: Tests by what they are about. Tests that limit memory or count threads do not fit: a sanitized
#: process reserves terabytes of addresses. Nor does the one that waits for SIGBUS, which the
#: sanitizer takes itself.
TESTS = {
    "readers": "tests/graph tests/observe/test_reader.py tests/fuzzing/test_fuzz.py --deselect "
    "tests/graph/test_mapped.py::test_a_page_of_a_map_that_cannot_be_read_is_named",
    "samplers": "tests/sampling",
    "plans": "tests/plan",
    "disk": "tests/gather tests/loader/disk/test_out_of_core.py "
    "tests/loader/disk/test_disk_faults.py",
    "loader": "tests/loader/test_loader.py tests/loader/disk/test_repack.py "
    "tests/loader/batches/test_array_pool.py",
}
_LIMIT = 3600


def library(name: str) -> str:
    """Where the compiler keeps a sanitizer's runtime."""
    asked = ["c++", f"-print-file-name={name}"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    """Runs all parts, or those asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(TESTS))
    parser.add_argument("--deselect", default="", help="-k expression of pytest")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    environment = {
        "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }
    rows, failed = [], False
    with tempfile.TemporaryDirectory(prefix="sanitized-") as folder:
        copy = ProjectCopy(Path(folder), "address,undefined", environment)
        for name in given.only or TESTS:
            begin = time.monotonic()
            options = ["-k", given.deselect] if given.deselect else []
            outcome, first = copy.test([*TESTS[name].split(), *options], _LIMIT)
            closing = re.findall(r"=* ?(\d+ passed.*?|\d+ failed.*?) in ", copy.output)
            count = closing[-1] if closing else outcome
            rows.append([name, f"`{TESTS[name]}`", count, f"{time.monotonic() - begin:.0f} s"])
            print(name, outcome, count, first, flush=True)
            if outcome != "passed":
                failed = True
                print(copy.output[-6000:])
    if given.report:
        from benchmarks.common.report import Report

        report = Report("sanitized", __doc__)
        report.table(["part", "tests", "outcome", "time"], rows)
        report.write()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
