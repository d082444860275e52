"""beside: what a Loader in memory holds beside the graph, as far as its loops have seen."""

from foregather.units import format_bytes

__all__ = ["Beside"]


def _alive(prefetch: int) -> int:
    """Batches at once: a loop holds one until it has the next."""
    return max(2, prefetch + 1)


class Beside:
    """The largest parts so far; written by the thread that makes batches.

    Attributes:
        sample: bytes of a sample.
        together: samples made at once.
        batch: bytes of a batch.
        lists: bytes of the lists of its edges, made for a model.
        tables: bytes that the sampler keeps, of all threads.
    """

    def __init__(self) -> None:
        self.sample = self.together = self.batch = self.lists = self.tables = 0

    def note(self, sample: int, together: int, batch: int) -> None:
        """Notes the bytes of a sample or of a batch, and how many were made together."""
        self.sample, self.batch = max(self.sample, sample), max(self.batch, batch)
        self.together = max(self.together, together)

    def total(self, prefetch: int) -> int:
        """Bytes at most: tables, samples, and batches in use, waiting and being made."""
        batches = _alive(prefetch) * (self.batch + self.lists)
        return self.tables + self.together * self.sample + batches

    def explain(self, prefetch: int) -> str:
        """One line for people; empty before the first batch."""
        if not self.batch:
            return ""
        said = f"{_alive(prefetch)} batches of {format_bytes(self.batch)}"
        if self.lists:
            said = f"{said} and {format_bytes(self.lists)} of lists"
        said = f"{said} (prefetch {prefetch}"
        parts = [f"{said})" if prefetch else f"{said}: 1 if let go before the next)"]
        if self.sample:
            parts.append(f"{self.together} samples of {format_bytes(self.sample)}")
        parts.append(f"{format_bytes(self.tables)} of tables")
        return f"beside it up to {format_bytes(self.total(prefetch))}: {', '.join(parts)}"
