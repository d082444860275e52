"""run_counters: what a training moved, none of it twice and none of it lost.

A loader counts from its first loop on, and forgets what it read from disk when its cache is given
back. The meter looks at it before that, so at any moment: what epochs trained with, and what was
moved beside (trying the model, validation, final scores), add up to what the executors and the
ledger count. A killed process takes with it only what it moved after its last checkpoint.
"""

from collections.abc import Mapping
from typing import Any

from foregather.train.metrics import reads

__all__ = ["Meter"]

Counts = dict[str, int]
_MOVED, _BESIDE = "moved.", "beside."
_USED = ("rows", "local", "hits")  # of batches; all else are bytes and requests


class Meter:
    """Counts what a loader, and those beside it, read and sent on this rank.

    Args:
        loader: from its first loop on.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._seen = dict.fromkeys(reads(loader), 0)
        self._moved: Counts = {}
        self._beside: Counts = {}
        self._training = False
        # Over ranks the rows fetched to try the model stay in the cache, for the first epoch: what
        # they cost is that epoch's, though it was not the one that used them then.
        self._early = loader.ranks is not None

    def _look(self) -> None:
        """Books what was moved since the last look."""
        now = reads(self._loader)
        for name, count in now.items():
            before = self._seen[name] if count >= self._seen[name] else 0  # 0: it began anew
            early = self._early and name not in _USED
            book = self._moved if self._training or early else self._beside
            book[name] = book.get(name, 0) + count - before
        self._seen = now

    def start(self) -> None:
        """An epoch begins, or goes on: what follows is moved to train with."""
        self._look()
        self._early, self._training = False, True

    def stop(self) -> None:
        """The epoch's batches are done: what follows is beside."""
        self._look()
        self._training = False

    def give_back(self) -> None:
        """Frees the loader's cache, with what it counted kept."""
        self._look()
        self._loader.close()
        self._seen = reads(self._loader)

    def switch(self, loader: Any) -> None:
        """Goes on with another loader, after the first was looked at for the last time."""
        self._loader, self._seen = loader, dict.fromkeys(reads(loader), 0)

    def note(self, **counts: int) -> None:
        """Books what was moved by others, beside: names as in `reads`."""
        for name, count in counts.items():
            self._beside[name] = self._beside.get(name, 0) + count

    def take_moved(self) -> Counts:
        """What the epoch that has stopped was trained with; begins anew."""
        found, self._moved = self._moved, {}
        return dict.fromkeys(self._seen, 0) | found

    def take_beside(self) -> Counts:
        """What was moved beside since this was last asked; begins anew."""
        self._look()
        found, self._beside = self._beside, {}
        return dict.fromkeys(self._seen, 0) | found

    # ---- in checkpoints ------------------------------------------------------------------------

    def state(self) -> dict[str, float]:
        """What is booked and in no record yet, for a checkpoint."""
        self._look()
        found = {f"{_MOVED}{name}": float(count) for name, count in self._moved.items()}
        return found | {f"{_BESIDE}{name}": float(count) for name, count in self._beside.items()}

    def load(self, state: Mapping[str, float]) -> None:
        """Adds what a checkpoint had booked."""
        for prefix, book in ((_MOVED, self._moved), (_BESIDE, self._beside)):
            for name, count in state.items():
                if name.startswith(prefix):
                    key = name.removeprefix(prefix)
                    book[key] = book.get(key, 0) + int(count)
