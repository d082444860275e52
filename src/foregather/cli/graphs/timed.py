"""timed: an edge list with times, described as a graph of one node type and one relation."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foregather.errors import InputError, StorageError

__all__ = ["described"]

_TABLES = (".csv", ".tsv", ".txt", ".parquet")


@contextmanager
def described(
    src: Path, time: str, columns: tuple[str, str] | None, weight: str | None
) -> Iterator[Path]:
    """A description of an edge list whose edges have times, in a file that is removed again.

    Args:
        src: the edge list.
        time: column of times, by name or position.
        columns: of sources and targets; None: the first two.
        weight: column of weights.

    Raises:
        InputError: it is no table.
        StorageError: it does not exist.
    """
    if Path(src.name.lower().removesuffix(".gz")).suffix not in _TABLES:
        raise InputError(
            f"--time is for an edge list ({', '.join(_TABLES)}), but the source is {src.name}; "
            "give the time column in the description, or leave it out"
        )
    if not src.exists():
        raise StorageError(f"{src.name} does not exist; check the name of the edge list")
    ends = columns or ("1", "2")
    keys = {"file": str(src.absolute()), "source": ends[0], "target": ends[1], "time": time}
    if weight is not None:
        keys["weight"] = weight
    lines = ["[nodes.node]", "[[edges]]", 'type = ["node", "to", "node"]']
    lines += [f"{name} = {json.dumps(value)}" for name, value in keys.items()]
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, f"{src.name}.toml")
        path.write_text("\n".join(lines) + "\n")
        yield path
