"""Docs: the messages that the page of questions quotes are those that the code says."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "faq.md"
_GAP = "\0"  # what a message has of the user's
_TABLE = re.compile(r"^\| the message \|.*\n\|---\|---\|\n((?:\|.*\n)+)", re.MULTILINE)


def template(node: ast.AST) -> str | None:
    """A string of a Python file with a gap for each value in it; None for other nodes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else _GAP for part in node.values]
        return "".join(map(str, parts))
    return None


@cache
def said() -> tuple[str, ...]:
    """Strings of the package; those of a file of the core in one, since it joins them by +."""
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        found += [text for text in map(template, nodes) if text is not None]
    for path in sorted((ROOT / "csrc").rglob("*.[ch]pp")):
        literals = re.findall(r'"((?:[^"\\\n]|\\.)*)"', path.read_text(encoding="utf-8"))
        found.append(_GAP.join(literals))
    return tuple(found)


def is_said(message: str) -> bool:
    """Whether a string of the code has these words, with something of the user's at each "..."."""
    words = [re.escape(part.strip()) for part in message.split("...") if part.strip()]
    pattern = re.compile(rf"\s*{_GAP}.{{0,40}}?".join(words), re.DOTALL)
    return any(pattern.search(text) for text in said())


def quoted() -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return [
        row.split(" | ")[0].removeprefix("| ")
        for t in _TABLE.findall(text)
        for row in t.splitlines()
    ]


@pytest.mark.parametrize("message", quoted())
def test_the_code_says_what_is_quoted(message: str) -> None:
    assert is_said(message)


def test_there_are_messages_of_every_kind() -> None:
    assert len(quoted()) >= 30
    text = PAGE.read_text(encoding="utf-8")
    for kind in ("Splits", "Budgets and disks", "Runs", "Ranks", "Accelerated models"):
        assert re.search(rf"^\*\*{kind}", text, re.MULTILINE), kind


def test_words_that_no_code_says_are_found() -> None:
    assert is_said("there is no split ...; the graph has: ...")
    for wrong in ("there is no division", "the graph has: ... there is no split", "no ... has:"):
        assert not is_said(wrong), wrong
