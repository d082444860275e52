"""The page of a run: complete, small, without requests, readable at the width of a phone."""

import html
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from foregather.cli.main import main
from foregather.errors import FormatError
from foregather.graph.graph import Graph
from foregather.graph.synthetic import synthesize
from foregather.observe.charts.bars import bar_chart, show_seconds
from foregather.observe.charts.lines import line_chart
from foregather.observe.charts.palette import MEANINGS, kind_of
from foregather.observe.charts.scale import Axis, choose_unit, nice_number
from foregather.observe.charts.timeline import timeline
from foregather.observe.page.about import figures
from foregather.observe.report import charts_of, read_run, write_comparison, write_report
from foregather.train.infer import infer
from foregather.train.runs.run_folder import load_model
from tests.some import some

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
MEASURE = """<script>
for (const d of document.querySelectorAll('details')) d.open = true;
const box = t => t.getBoundingClientRect();
const seen = [...document.querySelectorAll('svg text')].filter(t => box(t).width > 0);
const texts = seen.map(box);
const cut = [...document.querySelectorAll('figure svg:not([height]), .figures, h1, dl')].filter(
  s => box(s).right > innerWidth + 1 || box(s).left < -1).length;
let overlaps = 0;
for (const svg of document.querySelectorAll('svg')) {
  const own = [...svg.querySelectorAll('text.soft')].map(box).filter(r => r.width > 0);
  for (let i = 0; i < own.length; i++) for (let j = 0; j < i; j++) {
    const a = own[i], b = own[j];
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4)
      overlaps++;
  }
}
document.title = JSON.stringify({
  wide: document.documentElement.scrollWidth, window: innerWidth,
  charts: document.querySelectorAll('.charts svg').length,
  requests: performance.getEntriesByType('resource').length,
  smallest: Math.min(...texts.map(r => r.height)), overlaps, cut,
  outside: texts.filter(r => r.right > innerWidth + 1 || r.left < -1).length,
  drawn: [...document.querySelectorAll('.charts svg')].every(s => box(s).height > 40),
});
</script>"""  # noqa: E501 - a script


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of one graph: features from disk, and all in memory."""
    base = tmp_path_factory.mktemp("report")
    synthesize(base / "g", 2000, degree=8, features=16, classes=5, seed=0)
    disk = ["--memory.budget", "60MB", "--memory.storage", "features"]
    for name, flags in {"disk": disk, "memory": []}.items():
        flags += ["--train.epochs", "3", "--train.batch-size", "100", "--train.threads", "1"]
        where = ["--graph", str(base / "g"), "--run", str(base / name)]
        assert main(["train", *where, *flags, "--json"]) == 0
        assert main(["report", str(base / name)]) == 0
    return base


@pytest.fixture(scope="module")
def run(runs):
    return runs / "disk"


def test_the_page_has_everything_and_asks_for_nothing(run):
    page = (run / "report.html").read_text(encoding="utf-8")
    assert len(page) < 2_000_000
    for title in (
        "Loss", "Accuracy", "Where the training thread was", "Reads against the lower bound",
        "Miss curve: reads per batch by cache size", "Pipeline of the first batches",
        "Which classes are taken for which (test)",
    ):  # fmt: skip
        assert f'aria-label="{html.escape(title)}"' in page
    for words in ("test accuracy", "majority class", "waiting for batches", "peak memory"):
        assert words in page
    assert "Predicted and measured" in page and "best epoch" in page
    assert "default-src 'none'" in page and "<script" not in page
    assert not re.search(r"""(src|href|url)\s*[=(]\s*["']?""", page.split("<pre>")[0])
    names = {path.name for path in (run / "plots").iterdir()}
    assert {"loss.svg", "scores.svg", "stages.svg", "curve.svg", "timeline.svg"} <= names
    for path in some((run / "plots").iterdir()):
        ElementTree.fromstring(path.read_text(encoding="utf-8"))  # well-formed on its own


PHASES = {
    "sampled": {"frontier": 1.0, "picks": 2.0, "picks (links)": 4.0, "gather (links)": 0.5},
    "stages": {"compute": 3.0, "rows": 1.5, "weights": 0.25},
}


@pytest.mark.parametrize("kind", PHASES)
def test_phases_of_ranks_are_a_chart_and_a_table(run, kind):
    facts = read_run(run)
    assert "phases" not in charts_of(facts) and "Computing and links" not in write_report(facts)
    facts["records"] = [{**record, "phases": PHASES[kind]} for record in facts["records"]]
    said = charts_of(facts)["phases"].sentence
    total = len(facts["records"]) * sum(PHASES[kind].values())
    assert show_seconds(total) in said
    assert ("samples, links 53%" if kind == "sampled" else "compute 63%") in said
    page = html.unescape(write_report(facts))
    rows = {"sampled": "<td>picks</td><td>6.00 s</td><td>12.0 s</td>",
            "stages": "<td>rows</td><td>4.50 s</td>"}  # fmt: skip
    assert rows[kind] in page


@pytest.mark.parametrize("phases", [[1.0], {"picks": "1"}, {"picks": None}, 3])
def test_damaged_phases_are_left_out(run, tmp_path, phases):
    copy = shutil.copytree(run, tmp_path / "copy")
    lines = (run / "metrics.jsonl").read_text().splitlines()
    damaged = json.dumps({**json.loads(lines[0]), "phases": phases})
    (copy / "metrics.jsonl").write_text("\n".join([damaged, *lines[1:]]))
    facts = read_run(copy)
    assert len(facts["records"]) == len(lines) - 1 and write_report(facts)


def test_what_does_not_apply_is_not_there(runs):
    page = (runs / "memory" / "report.html").read_text(encoding="utf-8")
    assert "Miss curve" not in page and "read from disk" not in page
    assert "Predicted and measured" not in page and "cache hits" not in page
    assert not (runs / "memory" / "curve.json").exists()


def test_classes_are_counted_as_inference_says(run, tmp_path):
    model, settings = load_model(run)
    graph = Graph.open(settings.graph)
    infer(model, graph, tmp_path / "scores.npy")
    nodes = graph.split("test")
    given, true = np.load(tmp_path / "scores.npy")[nodes].argmax(1), graph.labels[nodes]
    expected = [[int(((true == a) & (given == b)).sum()) for b in range(5)] for a in range(5)]
    summary = json.loads((run / "summary.json").read_text())
    assert summary["per_class"] == {"split": "test", "counts": expected}
    right = sum(expected[k][k] for k in range(5))
    assert right / len(nodes) == pytest.approx(summary["test"])


def browse(page: str, folder, width: int) -> dict:
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no headless browser is installed")
    page = re.sub(r"<meta http-equiv=[^>]*>", "", page)  # it would forbid the measuring script too
    (folder / "page.html").write_text(page.replace("</body>", MEASURE + "</body>"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},800"]
    command = [browser, *flags, "--dump-dom", f"--user-data-dir={folder / 'user'}"]
    done = subprocess.run(
        [*command, (folder / "page.html").as_uri()], capture_output=True, text=True, timeout=300
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None, done.stderr[-500:]
    found: dict = json.loads(html.unescape(title[1]))
    return found


@pytest.mark.parametrize(("kind", "width"), [("one", 390), ("one", 1280), ("compared", 390)])
def test_in_a_browser(runs, tmp_path, kind, width):
    page = (runs / "disk" / "report.html").read_text(encoding="utf-8")
    if kind == "compared":
        page = write_comparison([read_run(runs / "disk"), read_run(runs / "memory")])
    found = browse(page, tmp_path, width)
    assert found["wide"] <= found["window"], "nothing is wider than the window"
    assert found["charts"] >= 7 and found["drawn"] and found["outside"] == 0
    assert found["requests"] == found["overlaps"] == found["cut"] == 0
    assert found["smallest"] >= 8


def test_runs_are_compared(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    both = [str(runs / "disk"), str(runs / "memory")]
    assert main(["report", *both, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"] == "comparison.html"
    page = (tmp_path / "comparison.html").read_text(encoding="utf-8")
    assert "Validation accuracy by epoch" in page and "memory.storage" in page
    assert "train.epochs" not in page, "settings that are the same are not shown"
    assert main(["report", *both]) == 0, "a comparison may be replaced"
    (tmp_path / "comparison.html").write_text("mine")
    assert main(["report", *both]) == 2
    assert (tmp_path / "comparison.html").read_text() == "mine"
    assert main(["report", *(both * 5)]) == 2
    assert "up to 8" in capsys.readouterr().err


def test_runs_of_other_metrics_or_without_epochs_are_compared(run):
    facts = read_run(run)
    other = facts | {"records": [{**r, "metric": "rmse"} for r in facts["records"]]}
    page = write_comparison([facts, other, facts | {"records": [], "summary": None}])
    assert "Validation rmse by epoch" in page and "Validation accuracy by epoch" in page
    assert "disk (2)" in page and "disk (3)" in page, "runs of one name are told apart"


def test_equal_lines_are_both_seen(runs):
    page = write_comparison([read_run(runs / "memory"), read_run(runs / "disk")])
    assert "Dashed ones are equal to the line below: disk." in page
    lines = {"run1": [(1, 2), (2, 3)], "run2": [(1, 2), (2, 3)], "run3": [(1, 2), (2, 4)]}
    parts = line_chart("t", ("x", "y"), lines).parts
    dashed = [part for part in parts if "polyline" in part and "dasharray" in part]
    assert len(dashed) == 1 and "s-run2" in dashed[0]


def test_a_run_of_one_epoch_has_bars_and_no_curves(run):
    facts = read_run(run)
    charts = charts_of(facts | {"records": facts["records"][:1], "curve": None})
    assert "loss" not in charts and "polyline" not in charts["scores"].svg()
    summary = facts["summary"]
    shown = charts["scores"].svg()
    assert f"{summary['test']:.3f}" in shown and f"{summary['baseline']['test']:.3f}" in shown
    bars = facts["records"][0]["stages"]
    parts = [name for name in bars if name in ("wait", "forward", "backward", "step", "evaluate")]
    assert drawn(charts["stages"], "rect") == len(parts)
    assert all(f">{name}</text>" in charts["stages"].svg() for name in parts)


def test_the_timeline_ends_where_scoring_begins():
    def event(name, start, thread):
        return {"ph": "X", "name": name, "ts": start, "dur": 5.0, "tid": thread}

    main = [event("forward", 0, 1), event("backward", 6, 1), event("evaluate", 20, 1)]
    later = [event("sample", 2, 2), event("gather", 21, 2), event("forward", 9000, 1)]
    facts = {"records": [], "trace": {"traceEvents": [*main, *later]}}
    shown = charts_of(facts)["timeline"].svg()
    assert shown.count("<rect") == 3 and "f-gather" not in shown


@pytest.mark.parametrize(
    ("method", "budget", "told"),
    [
        ("sampled", "60MB", "of the whole process; budget of the Loader: 60MB"),
        ("full-graph", "4GB", "of the whole process; its budget: 4GB"),
        ("sampled", "none", "of the whole process"),
    ],
)
def test_the_peak_says_what_it_is_of(run, method, budget, told):
    facts = read_run(run)
    facts["settings"]["train"]["method"] = method
    facts["settings"]["memory"]["budget"] = budget
    [peak] = [one for one in figures(facts) if one.what == "peak memory"]
    assert peak.beside == told


def test_hostile_text_is_escaped(run, tmp_path):
    bad = "<script>alert(1)</script>"
    facts = read_run(run) | {"name": bad, "config": bad, "environment": {bad: bad}, "date": bad}
    facts["settings"] = {"graph": bad, "model": {"kind": bad}, bad: {bad: bad}}
    facts["summary"] = {**facts["summary"], "metric": bad, "not_scored": [bad], "target": bad}
    for page in (write_report(facts), write_comparison([facts, facts])):
        assert "<script" not in page and "&lt;script&gt;" in page
    for chart in (
        line_chart(bad, (bad, bad), {bad: [(1, 2)]}),
        timeline(bad, {bad: [(bad, 0.0, 1.0)]}),
        bar_chart(bad, (bad, bad), [{bad: 1.0}]),
    ):
        assert "<script" not in chart.file() + chart.figure()
    with pytest.raises(FormatError, match="not a run folder"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    "counts", [[[1, 2]], [[1, -1], [0, 1]], [["a"]], {}, 3, [[1.5]], [], [[0, 0], [0, 0]]]
)
def test_damaged_counts_of_classes_are_left_out(run, counts):
    facts = read_run(run)
    facts["summary"]["per_class"] = {"split": "test", "counts": counts}
    assert "classes" not in charts_of(facts)


def test_many_classes_are_bars(run):
    facts = read_run(run)
    facts["summary"]["per_class"] = {"split": "test", "counts": np.eye(60, dtype=int).tolist()}
    chart = charts_of(facts)["classes"]
    assert "7 worst and 7 best of 60" in chart.title and drawn(chart, "rect") == 29


def drawn(chart, shape: str) -> int:
    """How many shapes of a kind a chart has; it is XML, and all its numbers are numbers."""
    root = ElementTree.fromstring(chart.file())
    values = [value for part in root.iter() for value in part.attrib.values()]
    assert not {"nan", "inf", "-inf"} & set(re.split(r"[\s,MHV%]", " ".join(values).lower()))
    return sum(part.tag.endswith(shape) for part in root.iter())


def test_charts_of_odd_numbers():
    odd = {0: [], 1: [(1, float("nan")), (2, 1e300), (3, float("inf"))], 2: [(1, 0), (2, 0)]}
    for count, points in [*odd.items(), (1, [(1, 1)]), (1, [(0, -5)])]:
        for zero in (False, True):
            chart = line_chart("t", ("x", "y"), {"valid": points}, zero=zero)
            assert drawn(chart, "circle") == count
    assert drawn(bar_chart("t", ("x", "y"), []), "rect") == 0
    few = drawn(bar_chart("t", ("x", "y"), [{"wait": 1.0}] * 500), "rect") - 1  # the legend's
    assert 50 <= few <= 60
    assert drawn(timeline("t", {}), "rect") == 0
    assert drawn(timeline("t", {"a": [("wait", float("nan"), 1.0)]}), "rect") == 0


def test_labels_can_be_read():
    """Every span from tiny to huge: few labels, all different, none with an exponent."""
    for kind in ("", "seconds", "bytes", "count"):
        for power in range(-5, 14):
            for low, high in ((0.0, 3.7), (1.0, 9.99), (0.8, 0.81)):
                axis = Axis.over([low * 10.0**power, high * 10.0**power], kind)
                told = [words for _, words in axis.labels(320, across=True)]
                assert 1 <= len(told) == len(set(told)) <= 10
                assert not any("e" in words for words in told)
                assert sum(len(words) * 7 for words in told) <= 320
    assert [words for _, words in Axis.over([1, 12], whole=True).labels(320, True)][:2] == [
        "2",
        "4",
    ]
    for low, high in ((0.43, 0.89), (0.0, 1.0), (12.0, 97.0)):
        assert 4 <= len(Axis.over([low, high]).labels(178, across=False)) <= 6
    assert choose_unit("seconds", 20.0).name == "seconds"
    assert show_seconds(0.0204) == "20.4 ms" and show_seconds(7200) == "2.00 hours"
    assert nice_number(4000.0) == "4,000" and nice_number(-0.0) == "0"


def test_one_meaning_has_one_colour():
    assert kind_of("valid (exact)") == kind_of("valid") == "valid"
    assert kind_of("blocks read") == "read" and kind_of("epoch") == "forward"
    assert kind_of("<odd>") == "other"
    single = [pair for name, pair in MEANINGS.items() if not name.startswith("run")]
    shared = {"bound", "predicted"}  # both are what was worked out beforehand
    assert len({light for light, _ in single}) == len(single) - len(shared) + 1
