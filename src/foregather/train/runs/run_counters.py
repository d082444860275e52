"""run_counters: counts what a training moved, each byte exactly once.

A loader counts from its first loop on, and forgets its disk counters when its cache is freed. The
meter reads them before that, so at any moment what epochs used and what was moved for other
purposes (the trial step, validation, final scores) add up to the counts of the executors and the
ledger. A killed process loses only the counts since its last checkpoint.
"""

from collections.abc import Mapping
from typing import Any

from foregather.train.metrics import reads
from foregather.train.metrics.reads import PHASE

__all__ = ["Meter"]

Counts = dict[str, int]
_MOVED, _BESIDE = "moved.", "beside."
_USED = ("rows", "local", "hits")  # of batches; all else are bytes and requests


class Meter:
    """Counts what a loader, and those made by its `beside`, read and sent on this rank.

    Args:
        loader: from its first loop on.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._seen = dict.fromkeys(reads(loader), 0)
        self._moved: Counts = {}
        self._beside: Counts = {}
        self._training = False
        # Over ranks the rows fetched for the trial step stay in the cache for the first epoch, so
        # their cost is counted there.
        self._early = loader.ranks is not None

    def _look(self) -> None:
        """Records what was moved since the last call."""
        now = reads(self._loader)
        for name, count in now.items():
            before = self._seen[name] if count >= self._seen[name] else 0  # 0: it was reset
            early = self._early and name not in _USED
            book = self._moved if self._training or early else self._beside
            book[name] = book.get(name, 0) + count - before
        self._seen = now

    def start(self) -> None:
        """An epoch starts or continues: what follows counts for it."""
        self._look()
        self._early, self._training = False, True

    def stop(self) -> None:
        """The epoch's batches are done: what follows counts as `beside`."""
        self._look()
        self._training = False

    def give_back(self) -> None:
        """Frees the loader's cache, keeping its counts."""
        self._look()
        self._loader.close()
        self._seen = reads(self._loader)

    def switch(self, loader: Any) -> None:
        """Continues with another loader, after reading the first one's counts a last time."""
        self._loader, self._seen = loader, dict.fromkeys(reads(loader), 0)

    def note(self, **counts: int) -> None:
        """Records what others moved, as `beside`; names as in `reads`."""
        for name, count in counts.items():
            self._beside[name] = self._beside.get(name, 0) + count

    def take_moved(self) -> Counts:
        """Returns what the stopped epoch used, and resets it."""
        found, self._moved = self._moved, {}
        return dict.fromkeys(self._seen, 0) | found

    def take_beside(self) -> Counts:
        """Returns what was moved as `beside` since the last call, and resets it.

        Seconds by phase are given for epochs only.
        """
        self._look()
        found, self._beside = self._beside, {}
        counts = dict.fromkeys(self._seen, 0) | found
        return {name: count for name, count in counts.items() if not name.startswith(PHASE)}

    # ---- in checkpoints ------------------------------------------------------------------------

    def state(self) -> dict[str, float]:
        """Counts that are not in a record yet, for a checkpoint."""
        self._look()
        found = {f"{_MOVED}{name}": float(count) for name, count in self._moved.items()}
        return found | {f"{_BESIDE}{name}": float(count) for name, count in self._beside.items()}

    def load(self, state: Mapping[str, float]) -> None:
        """Adds the counts of a checkpoint."""
        for prefix, book in ((_MOVED, self._moved), (_BESIDE, self._beside)):
            for name, count in state.items():
                if name.startswith(prefix):
                    key = name.removeprefix(prefix)
                    book[key] = book.get(key, 0) + int(count)
