"""absolute_links: makes the links and pictures of README absolute, for pages elsewhere.

    python packaging/absolute_links.py ADDRESS/blob/TAG README.md --pictures ADDRESS/raw/TAG

A package registry shows README alone, so `docs/install.md` points nowhere there. The file is
rewritten in place; run it in the clone from which the release is built, and commit nothing. Links
that are absolute, anchors of the page and code stay as they are.
"""

import argparse
import re
from pathlib import Path

__all__ = ["absolute"]

_CODE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)(\[(?:[^\[\]]|\[[^\]]*\]\([^)]*\))*\])\(([^()\s]+)\)")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#|//", re.IGNORECASE)


def absolute(text: str, pages: str, pictures: str) -> str:
    """README with links below one address and pictures below another."""
    parts, last = [], 0
    for code in _CODE.finditer(text):
        parts += [_rewritten(text[last : code.start()], pages, pictures), code[0]]
        last = code.end()
    return "".join([*parts, _rewritten(text[last:], pages, pictures)])


def _rewritten(prose: str, pages: str, pictures: str) -> str:
    def one(found: re.Match[str]) -> str:
        mark, words, target = found.groups()
        words = _rewritten(words[1:-1], pages, pictures)  # a picture may be what is clicked
        base = pictures if mark else pages
        if not _ELSEWHERE.match(target):
            target = f"{base.rstrip('/')}/{target.removeprefix('./')}"
        return f"{mark}[{words}]({target})"

    return _LINK.sub(one, prose)


def main() -> None:
    """Rewrites the file."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("pages", help="address of the repository's files, at the release's tag")
    options.add_argument("readme", type=Path)
    options.add_argument("--pictures", help="address of the files themselves; else that of pages")
    given = options.parse_args()
    if not re.match(r"https?://", given.pages):
        options.error(f"{given.pages} is no address; it begins with https://")
    text = given.readme.read_text(encoding="utf-8")
    made = absolute(text, given.pages, given.pictures or given.pages)
    given.readme.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
