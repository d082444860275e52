"""Docs: the pages keep to British spelling and to the words of the glossary."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")],
)
#: Word -> the one to use. Titles of papers and quoted code are not prose.
WRONG = {
    r"neighbors?(hood)?": "neighbour",
    r"behaviors?": "behaviour",
    r"colors?": "colour",
    r"(optimi|normali|initiali|quanti|randomi|serial|synchroni)z(e|es|ed|ing|ation)": "-ise",
    r"super-batch|hyperbatch(es)?": "bulk",
    r"manifest": "meta",
    r"dataset": "data set, or graph",
    r"symmetri[sz]ed?": "undirected",
    r"checksum-chunk": "checksum chunk",
    r"pre-?processing": "convert",
}
_CODE = re.compile(r"^( *)(```+).*?^\1\2 *$|`[^`\n]*`|^>.*$", re.MULTILINE | re.DOTALL)


def wrong_words(text: str) -> list[str]:
    prose = _CODE.sub(" ", text)
    return [
        f"{match[0]}: write {right}"
        for word, right in WRONG.items()
        for match in re.finditer(rf"\b(?:{word})\b", prose, re.IGNORECASE)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_our_words(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.name == "glossary.md":  # it names the words that are not used, in italics
        text = re.sub(r"\*Not:.*?\*", "", text, flags=re.DOTALL)
    assert wrong_words(text) == []


def test_glossary_entries_are_unique_and_in_form() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    entries = re.findall(r"^- (.*)$", text, re.MULTILINE)
    heads = [re.match(r"\*\*(.+?)\*\*(?: \((\w+)\))?: ", entry) for entry in entries]
    assert all(heads), [e for e, h in zip(entries, heads, strict=True) if h is None]
    names = [match.groups() for match in heads if match is not None]
    assert len(names) == len(set(names))


def test_a_wrong_word_is_found() -> None:
    assert wrong_words("its neighbors `neighbors` are\n```\nneighbors\n```\n") == [
        "neighbors: write neighbour"
    ]
