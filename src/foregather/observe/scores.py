"""scores: a score for people: its metric, its value, and what the best constant answer reaches."""

from collections.abc import Mapping
from typing import Any

__all__ = ["show_left_out", "show_score"]


def show_score(facts: Mapping[str, Any], name: str, value: float) -> str:
    """The score of a split; facts are those of a summary or an inference.

    Args:
        facts: with `metric`, and `baseline` by split and `baseline_is` where they are known.
        name: of the split.
        value: its score.
    """
    shown = f"{facts.get('metric', 'accuracy')} {value:.4f}"
    guess = facts.get("baseline", {}).get(name)
    if guess is None:
        return shown
    return f"{shown}, {facts.get('baseline_is', 'a constant answer')} {guess:.4f}"


def show_left_out(facts: Mapping[str, Any], name: str) -> str:
    """What of a split could not be rated and was left out; empty if all could, or none is known."""
    by_split = facts.get("left_out")
    found = by_split.get(name) if isinstance(by_split, dict) else None
    told = found.get("told") if isinstance(found, dict) else None
    return told[:200] if isinstance(told, str) else ""
