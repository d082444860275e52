"""waiting: torch's threads sleep while they wait, in a process of the command line.

By default the OpenMP threads of torch spin for a while after each operation. Beside a loader that
makes batches on the same cores they take the time from it. Results do not depend on it.
"""

import os
import sys

__all__ = ["POLICIES", "let_threads_sleep"]

#: What decides how OpenMP threads wait: of the standard, of GNU's library, of LLVM's and Intel's.
POLICIES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def let_threads_sleep() -> bool:
    """Sets OMP_WAIT_POLICY=PASSIVE, unless the user decided, or torch has read it already.

    Returns:
        Whether it was set.
    """
    if "torch" in sys.modules or any(name in os.environ for name in POLICIES):
        return False
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # also for processes that this one starts
    return True
