"""timed: an edge list with times, described as a graph of one node type and one relation."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foregather.errors import InputError, StorageError
from foregather.graph.convert.typed.table_header import Asked, find_header, header_note

__all__ = ["described"]

_TABLES = (".csv", ".tsv", ".txt", ".parquet")


@contextmanager
def described(
    src: Path,
    time: str,
    columns: tuple[str, str] | None,
    weight: str | None,
    header: bool | None,
) -> Iterator[tuple[Path, list[str]]]:
    """A description of an edge list whose edges have times, in a file that is removed again.

    What was assumed of the edge list comes with it, in whole sentences.

    Args:
        src: the edge list.
        time: column of times, by name or position.
        columns: of sources and targets; None: the first two.
        weight: column of weights.
        header: whether its first line names columns; None: as it looks.

    Raises:
        InputError: it is no table, or its first line is in doubt.
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
    keys: dict[str, str | bool] = {"file": str(src.absolute())}
    keys |= {"source": ends[0], "target": ends[1], "time": time}
    if weight is not None:
        keys["weight"] = weight
    read = [str(one) for name, one in keys.items() if name != "file"]
    asked = [Asked(src, tuple(read), header, "--header yes", "--header no")]
    found = find_header(asked)
    if found is not None:
        keys["header"] = found
    lines = ["[nodes.node]", "[[edges]]", 'type = ["node", "to", "node"]']
    lines += [f"{name} = {json.dumps(value)}" for name, value in keys.items()]
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, f"{src.name}.toml")
        path.write_text("\n".join(lines) + "\n")
        yield path, header_note(asked, found)
