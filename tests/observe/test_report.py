"""The page of a run: complete, small, without requests, readable at the width of a phone."""

import html
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

from foregather.cli.main import main
from foregather.errors import FormatError
from foregather.graph.synthetic import synthesize
from foregather.observe.report import charts_of, read_run, write_report
from foregather.observe.svg import bar_chart, line_chart, timeline

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
MEASURE = """<script>
const texts = [...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect());
document.title = JSON.stringify({
  wide: document.documentElement.scrollWidth, window: innerWidth,
  charts: document.querySelectorAll('.charts svg').length,
  requests: performance.getEntriesByType('resource').length,
  smallest: Math.min(...texts.map(r => r.height)),
  outside: texts.filter(r => r.right > innerWidth + 1 || r.left < -1).length,
  drawn: [...document.querySelectorAll('.charts svg')].every(s => s.getBoundingClientRect().height > 100),
});
</script>"""  # noqa: E501 - a script


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    base = tmp_path_factory.mktemp("report")
    synthesize(base / "g", 2000, degree=8, features=16, classes=5, seed=0)
    flags = ["--memory.budget", "60MB", "--memory.storage", "features", "--train.threads", "1"]
    flags += ["--train.epochs", "3", "--train.batch-size", "100", "--json"]
    assert main(["train", "--graph", str(base / "g"), "--run", str(base / "r"), *flags]) == 0
    assert main(["report", str(base / "r")]) == 0
    return base / "r"


def test_the_page_has_everything_and_asks_for_nothing(run):
    page = (run / "report.html").read_text(encoding="utf-8")
    assert len(page) < 2_000_000
    for title in (
        "Loss", "accuracy", "Where the training thread was", "Reads against the lower bound",
        "Miss curve: reads per batch by cache size", "Pipeline of the first batches",
    ):  # fmt: skip
        assert f'aria-label="{title}"' in page
    assert "default-src 'none'" in page and "<script" not in page
    assert not re.search(r"""(src|href|url)\s*[=(]\s*["']?""", page.split("<pre>")[0])
    names = {path.name for path in (run / "plots").iterdir()}
    assert {"loss.svg", "scores.svg", "stages.svg", "curve.svg", "timeline.svg"} <= names
    for path in (run / "plots").iterdir():
        ElementTree.fromstring(path.read_text(encoding="utf-8"))  # well-formed on its own


def test_in_a_browser_at_the_width_of_a_phone(run, tmp_path):
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no headless browser is installed")
    page = (run / "report.html").read_text(encoding="utf-8")
    page = re.sub(r"<meta http-equiv=[^>]*>", "", page)  # it would forbid the measuring script too
    (tmp_path / "page.html").write_text(page.replace("</body>", MEASURE + "</body>"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=390,800", "--dump-dom"]
    command = [browser, *flags, f"--user-data-dir={tmp_path / 'user'}"]
    done = subprocess.run(
        [*command, (tmp_path / "page.html").as_uri()], capture_output=True, text=True, timeout=300
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None, done.stderr[-500:]
    found = json.loads(html.unescape(title[1]))
    assert found["window"] <= 500
    assert found["wide"] <= found["window"], "nothing is wider than the window"
    assert found["charts"] >= 7 and found["drawn"] and found["outside"] == 0
    assert found["requests"] == 0
    assert found["smallest"] >= 8


def test_hostile_text_is_escaped(run, tmp_path):
    bad = "<script>alert(1)</script>"
    facts = read_run(run) | {"name": bad, "config": bad, "environment": {bad: bad}}
    page = write_report(run, facts)
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "<script" not in line_chart(bad, bad, bad, {bad: [(1, 2)]})
    assert "<script" not in timeline(bad, {bad: [(bad, 0.0, 1.0)]})
    with pytest.raises(FormatError, match="not a run folder"):
        read_run(tmp_path)


def test_missing_and_damaged_parts_are_left_out(tmp_path):
    (tmp_path / "config.toml").write_text("")
    assert "No epoch is finished yet" in write_report(tmp_path, read_run(tmp_path))
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 1, "lo')
    (tmp_path / "trace.json").write_text("[")
    facts = read_run(tmp_path)
    assert charts_of(facts) == {} and "No epoch" in write_report(tmp_path, facts)


def drawn(chart: str, shape: str) -> int:
    """How many shapes of a kind a chart has; it is XML, and all its numbers are numbers."""
    root = ElementTree.fromstring(chart)
    values = [value for part in root.iter() for value in part.attrib.values()]
    assert not {"nan", "inf", "-inf"} & set(re.split(r"[\s,MHV]", " ".join(values).lower()))
    return sum(part.tag.endswith(shape) for part in root.iter())


def test_charts_of_odd_numbers():
    odd = {0: [], 1: [(1, float("nan")), (2, 1e300), (3, float("inf"))], 2: [(1, 0), (2, 0)]}
    for count, points in [*odd.items(), (1, [(1, 1)]), (1, [(0, -5)])]:
        for zero in (False, True):
            assert drawn(line_chart("t", "x", "y", {"a": points}, zero=zero), "circle") == count
    assert drawn(bar_chart("t", "x", "y", []), "rect") == 0
    few = drawn(bar_chart("t", "x", "y", [{"a": 1.0}] * 500), "rect") - 1  # one is the legend's
    assert 50 <= few <= 60
    assert drawn(timeline("t", {}), "rect") == 0
