"""read_run: the parts of a run folder, as untrusted facts.

Only regular files of the folder within a size limit are read; what is missing or damaged is left
out and named, and what is known by name is a number where a number is expected.
"""

import json
import os
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from foregather.errors import FormatError
from foregather.files import read_regular
from foregather.units import format_number

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["is_numbers", "read_run"]

_MOST, _MOST_SMALL = 1 << 28, 1 << 24  # bytes of metrics or a trace, and of settings
_NEEDED = ("epoch", "loss", "seconds", "peak_memory")
_KNOWN = (
    "train", "valid", "test", "best_epoch", "best_valid", "waited", "bytes", "rows", "hits",
    "blocks", "block_bound", "sent", "requests", "feature_bytes", "feature_requests",
    "predicted_bytes", "predicted_seconds", "predicted_requests", "bytes_an_epoch",
)  # fmt: skip
#: What a page lacks without a file, and the file that is only there after it.
_LOST = {
    "summary": "the final scores are not shown",
    "environment": "machine, task and graph are not shown",
    "trace": "the timeline is not shown",
}
_BY_THEN = {"summary": "model.safetensors", "environment": "metrics.jsonl"}


def read_run(folder: Path) -> dict[str, Any]:
    """Reads the parts of a run folder, by name; missing or damaged parts are None.

    `damaged` has a sentence for each file that says less than it should.

    Raises:
        FormatError: it is not the folder of a run.
        StorageError: a part exists but cannot be read.
    """
    if not os.path.lexists(folder / "config.toml"):
        raise FormatError(f"{folder} is not a run folder; name one made by foregather train")
    config = read_regular(folder / "config.toml", _MOST_SMALL).decode(errors="replace")
    name = folder.resolve().name if folder.name in ("", ".", "..") else folder.name
    facts: dict[str, Any] = {"name": name, "config": config, "settings": _toml(config)}
    damaged = [] if facts["settings"] else ["config.toml is damaged, so no settings are shown"]
    for part in ("summary", "environment", "trace", "curve"):
        facts[part] = _json(_read(folder / f"{part}.json"))
    for part, lost in _LOST.items():
        sound = is_numbers(facts[part], ()) if part == "summary" else isinstance(facts[part], dict)
        if not sound:
            there, facts[part] = os.path.lexists(folder / f"{part}.json"), None
            if there or (part in _BY_THEN and os.path.lexists(folder / _BY_THEN[part])):
                state = "damaged" if there else "missing"
                damaged.append(f"{part}.json is {state}, so {lost}")
    if not (
        isinstance(facts["curve"], list)
        and all(is_numbers(point, ("memory", "blocks", "bound")) for point in facts["curve"])
    ):
        facts["curve"] = None
    lines = (_read(folder / "metrics.jsonl") or "").splitlines()
    facts["records"] = [r for r in map(_json, lines) if is_numbers(r, _NEEDED)]
    there = os.path.lexists(folder / "metrics.jsonl")
    if said := _said_of_metrics(there, len(lines), len(facts["records"]), facts["summary"] or {}):
        damaged.append(said)
    facts["damaged"] = damaged
    facts["date"] = _date(folder)
    return facts


def _said_of_metrics(there: bool, lines: int, read: int, summary: dict[str, Any]) -> str:
    """What is wrong with metrics.jsonl; empty if nothing is.

    Args:
        there: the file is.
        lines: of the file.
        read: lines that are records of epochs.
        summary: of a finished run, which says how many there were.
    """
    epochs = summary.get("epochs", 0)
    most = epochs if type(epochs) is int and 0 < epochs < 1 << 40 else 0
    if summary and not there:
        return "metrics.jsonl is missing, so the epochs are not shown"
    if read < lines:
        return f"metrics.jsonl is damaged: {read:,} of its {lines:,} lines are records of epochs"
    if read < most:
        return f"metrics.jsonl is damaged: it has {read:,} of {format_number(most, 'epoch')}"
    return ""


def is_numbers(value: Any, needed: Sequence[str]) -> bool:
    """Whether this is a dict that has the required entries and whose known entries are numbers."""
    if not isinstance(value, dict) or not all(name in value for name in needed):
        return False
    # a full-graph summary has its number of stages under this name
    stages = value.get("stages", {})
    known = [value[name] for name in (*needed, *_KNOWN) if name in value]
    known += stages.values() if isinstance(stages, dict) else [stages]
    phases = value.get("phases", {})
    known += phases.values() if isinstance(phases, dict) else [None]
    return all(type(one) in (int, float) and abs(one) < 1e300 for one in known)


def _date(folder: Path) -> str:
    """When the last epoch was recorded: the time of the file, or none."""
    for name in ("metrics.jsonl", "config.toml"):
        try:
            when = os.lstat(folder / name).st_mtime
            return datetime.fromtimestamp(when, timezone.utc).strftime("%d %B %Y, %H:%M UTC")
        except (OSError, OverflowError, ValueError):
            continue
    return ""


def _read(path: Path) -> str | None:
    """Returns the text; None if there is none, or not one of ours.

    A file that cannot be read is an error.
    """
    if not os.path.lexists(path):
        return None
    try:
        return read_regular(path, _MOST).decode(errors="replace")
    except FormatError:
        return None


def _json(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


def _toml(text: str) -> dict[str, Any]:
    try:
        return dict(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
