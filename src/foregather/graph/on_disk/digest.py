"""digest: a checksum of a JSON object's contents, independent of whitespace and key order."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from foregather import _core

__all__ = ["json_digest"]


def json_digest(text: Mapping[str, Any]) -> str:
    """XXH64 of the object with its keys sorted, without the field `digest`."""
    body = {key: value for key, value in text.items() if key != "digest"}
    data = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"{_core.xxh64(np.frombuffer(data.encode(), np.uint8)):016x}"
