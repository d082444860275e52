"""Docs in a real browser: at the widths of a desk and a phone no page is wider than its window."""

import html
import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.some import some

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WIDTHS = (390, 1280)
TOGETHER = 10  # pages a browser has open at once
MEASURE = """<script>
const light = text => { const c = text.match(/[0-9.]+/g).map(Number); return c[0] + c[1] + c[2]; };
const rolls = e => e && e.tagName != 'ARTICLE' &&
  (['auto', 'scroll'].includes(getComputedStyle(e).overflowX) || rolls(e.parentElement));
onload = () => { const found = []; for (const frame of document.querySelectorAll('iframe')) {
  const d = frame.contentDocument, root = d.documentElement, seen = [];
  for (const theme of ['light', 'dark']) {
    d.body.dataset.theme = theme;
    const style = frame.contentWindow.getComputedStyle(d.body);
    const text = frame.contentWindow.getComputedStyle(d.querySelector('article p') || d.body);
    const out = [...d.querySelectorAll('article *')].filter(e => !rolls(e) &&
      e.getBoundingClientRect().right > root.clientWidth + 1);
    seen.push({theme, wide: root.scrollWidth, window: root.clientWidth,
      back: light(style.backgroundColor), text: light(text.color),
      narrow: [...d.images].filter(i => i.naturalWidth &&
        i.width < Math.min(i.naturalWidth, 340) - 1).length,
      broken: [...d.images].filter(i => !i.naturalWidth).length,
      out: out.slice(0, 3).map(e => e.tagName + ': ' + e.textContent.trim().slice(0, 60))});
  }
  found.push({page: frame.title, width: frame.width, seen});
} document.title = JSON.stringify(found); };
</script>"""

READ = """<script>
onload = () => { const found = []; for (const frame of document.querySelectorAll('iframe')) {
  const svg = frame.contentDocument.documentElement, all = svg.getBoundingClientRect();
  const told = t => t.textContent.trim().slice(0, 40);
  const texts = [...svg.querySelectorAll('text')].filter(t => t.getBoundingClientRect().width);
  const sizes = texts.map(t =>
    parseFloat(frame.contentWindow.getComputedStyle(t).fontSize) *
      Math.hypot(t.getScreenCTM().a, t.getScreenCTM().b));
  const boxes = texts.map(t => t.getBoundingClientRect());
  const cut = texts.filter((t, i) => boxes[i].left < all.left || boxes[i].right > all.right ||
    boxes[i].top < all.top || boxes[i].bottom > all.bottom).map(told);
  const over = [];
  boxes.forEach((a, i) => boxes.slice(0, i).forEach((b, j) => {
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4)
      over.push(told(texts[i]) + ' / ' + told(texts[j]));
  }));
  found.push({name: frame.title, wide: all.width, smallest: Math.min(...sizes), cut, over});
} document.title = JSON.stringify(found); };
</script>"""  # noqa: E501 - a script
ROOM, LEAST = 340, 9  # pixels: a picture's room on a phone, and its smallest text


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The documentation, built here."""
    if find_spec("sphinx") is None or find_spec("furo") is None:
        pytest.skip("the docs cannot be built; install foregather[docs]")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(ROOT / "docs")]
    subprocess.run([*command, str(folder / "html")], check=True, timeout=1800)
    return folder / "html"


def browse(browser: str, site: Path, pages: list[str], width: int, folder: Path) -> list[dict]:
    """What the browser measures of pages in frames of that width, in both themes."""
    frames = "".join(
        f'<iframe title="{page}" width="{width}" height="800" src="{(site / page).as_uri()}">'
        "</iframe>"
        for page in pages
    )
    return run_script(browser, frames + MEASURE, folder)


def run_script(browser: str, body: str, folder: Path) -> list[dict]:
    """What a page's script leaves in its title."""
    (folder / "frames.html").write_text(f"<html><body>{body}</body></html>")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += ["--allow-file-access-from-files", f"--user-data-dir={folder / 'user'}"]
    done = subprocess.run(
        [*command, (folder / "frames.html").as_uri()], capture_output=True, text=True, timeout=600
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None, done.stderr[-500:]
    found: list[dict] = json.loads(html.unescape(title[1]))
    return found


def look(browser: str, pictures: list[Path], folder: Path) -> list[dict]:
    """What the browser measures of pictures: their widths, smallest texts, cut and covered ones."""
    frames = "".join(
        f'<iframe title="{path.name}" width="900" height="900" src="{path.as_uri()}"></iframe>'
        for path in pictures
    )
    return run_script(browser, frames + READ, folder)


@pytest.fixture(scope="module")
def browser():
    found = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if found is None:
        pytest.skip("no headless browser is installed")
    return found


def test_a_box_that_is_too_wide_is_found(site, browser, tmp_path):
    """The theme hides what is too wide, so the width of the page alone would say nothing."""
    text = (site / "why.html").read_text(encoding="utf-8")
    planted = text.replace("</h1>", '</h1><p style="width:900px">planted</p>', 1)
    copy = shutil.copytree(site / "_static", tmp_path / "copy" / "_static").parent
    (copy / "planted.html").write_text(planted, encoding="utf-8")
    found = browse(browser, copy, ["planted.html"], 390, tmp_path)
    assert [seen["out"] for seen in found[0]["seen"]] == [["P: planted"], ["P: planted"]]


def test_no_page_is_wider_than_its_window(site, browser, tmp_path):
    names = sorted(str(path.relative_to(site)) for path in site.rglob("*.html"))
    pages = [name for name in names if not name.startswith(("_", "genindex", "search"))]
    assert {"index.html", "gallery.html", "measured.html", "howto/run.html"} <= set(pages)
    wrong = []
    for width in WIDTHS:
        for first in range(0, len(pages), TOGETHER):
            part = pages[first : first + TOGETHER]
            found = browse(browser, site, part, width, tmp_path)
            assert len(found) == len(part)
            for page, seen in some([(one["page"], seen) for one in found for seen in one["seen"]]):
                readable = abs(seen["back"] - seen["text"]) > 300
                dark = seen["back"] < 200 if seen["theme"] == "dark" else seen["back"] > 600
                fits = seen["wide"] <= seen["window"] and not seen["out"]
                if not (fits and readable and dark and not seen["broken"] and not seen["narrow"]):
                    wrong.append((page, width, seen))
    assert not wrong


def test_text_that_is_small_cut_or_covered_is_found(browser, tmp_path):
    texts = (
        '<text x="5" y="20" font-size="14">left and long</text>',
        '<text x="9" y="22" font-size="14">over it</text>',
        '<text x="170" y="60" font-size="14">beyond the edge</text>',
        '<g transform="scale(.5)"><text x="5" y="160" font-size="14">small</text></g>',
    )
    size = 'width="200" height="100" viewBox="0 0 200 100"'
    picture = tmp_path / "planted.svg"
    picture.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(texts)}</svg>')
    [seen] = look(browser, [picture], tmp_path)
    assert seen["wide"] == 200 and seen["smallest"] == 7
    assert seen["cut"] == ["beyond the edge"] and seen["over"] == ["over it / left and long"]


def test_pictures_of_the_pages_can_be_read_on_a_phone(browser, tmp_path):
    pictures = sorted((ROOT / "docs").glob("images/**/*.svg"))
    pictures += sorted((ROOT / "docs" / "papers" / "figures").glob("*.svg"))
    found = look(browser, some(pictures), tmp_path)
    assert len(found) == len(pictures)
    wrong = [
        seen
        for seen in some(found)
        if seen["smallest"] * min(1, ROOM / seen["wide"]) < LEAST or seen["cut"] or seen["over"]
    ]
    assert not wrong
