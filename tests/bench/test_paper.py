"""The papers' page: each published number has its figure; the page is what the results give."""

import importlib
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from foregather import bench
from tests.processes import ROOT

HERE = ROOT / "benchmarks"
PAGE = ROOT / "docs/papers/figures.md"
PAPERS = [name for name in ("mbs", "gnnpipe", "ginex") if (HERE / f"paper_{name}").is_dir()]


@pytest.fixture(scope="module")
def common():
    """Modules of the benchmarks, by name."""
    sys.path.insert(0, str(HERE))
    before = set(sys.modules)
    try:
        names = ("facts", "figures", "paper_charts", "paper_page", "results", "skip")
        found = {name: importlib.import_module(f"common.{name}") for name in names}
        found["paper"] = importlib.import_module("paper")
        yield found
    finally:
        sys.path.remove(str(HERE))
        for name in set(sys.modules) - before:
            first = name.partition(".")[0]
            if first in ("common", "beside", "paper", "paper_mbs", "paper_gnnpipe", "paper_ginex"):
                del sys.modules[name]


@pytest.fixture(scope="module")
def kept(common):
    return common["results"].draw_anew(common["results"].load(HERE / "results"))


@pytest.fixture
def figure(common):
    """One that fits a published record."""
    series = [common["figures"].Series(name, ["p = 1", "p = 2"], [1.0, 2.0]) for name in "ab"]
    return common["figures"].Figure(
        key="one",
        paper="mbs",
        title="One | figure <b>",
        setting="here",
        published=["mbs-quiver"],
        x_label="ranks",
        y_label="seconds",
        kind="bars",
        series=series,
        columns=["p", "s"],
        rows=[["1", "2 | 3"]],
        holds="yes",
        explanation="It does.",
        command="python benchmarks/paper.py --only one",
    )


def result(common, figure):
    return common["results"].Result(figure, True, "2026-11-18", "Machine: M; load average 1.", 60.0)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_published_number_has_a_figure_and_every_figure_its_numbers(common, kept, paper):
    numbers = common["results"].published()
    cited = {key for one in kept if one.figure.paper == paper for key in one.figure.published}
    assert cited == {key for key, number in numbers.items() if number.paper == paper}


def test_the_value_of_every_published_number_stands_in_a_figure_that_cites_it(common, kept):
    numbers = common["results"].published()
    page = common["paper_page"].page(kept, numbers)
    sections = {part.partition("\n")[0]: part for part in page.split("\n### ")[1:]}
    for key, number in numbers.items():
        shown = [f"{number.value:g}"] + [f"{100 * number.value:.1f}"] * (number.unit == "accuracy")
        own = [sections[one.figure.title] for one in kept if key in one.figure.published]
        found = [re.findall(r"[0-9]+(?:\.[0-9]+)?", part) for part in own]
        assert any(value in words for words in found for value in shown), key


def test_records_have_sources(common):
    for number in common["results"].published().values():
        assert number.source and number.hardware and number.item and number.unit, number.id
        assert number.paper in common["results"].PAPERS and number.value > 0, number.id
    versions = {n.version for n in common["results"].published().values() if n.paper == "gnnpipe"}
    assert versions == {"v1", "v2", "logs"}


def test_two_records_of_a_name_are_refused(common, tmp_path):
    record = (HERE / "published.toml").read_text().split("[[record]]")[1]
    (tmp_path / "twice.toml").write_text(f"[[record]]{record}\n[[record]]{record}")
    with pytest.raises(ValueError, match="two records 'mbs-quiver'; give each its own id"):
        common["results"].published(tmp_path / "twice.toml")
    (tmp_path / "less.toml").write_text('[[record]]\nid = "less"\nvalue = 1\n')
    with pytest.raises(ValueError, match="record 'less'"):
        common["results"].published(tmp_path / "less.toml")


def test_the_page_and_its_plots_are_what_the_results_give(common, kept):
    page, plots = common["paper_page"].page, common["paper_page"].plots
    assert PAGE.read_text(encoding="utf-8") == page(kept, common["results"].published())
    drawn = {path.name: path.read_text() for path in PAGE.with_suffix("").glob("*.svg")}
    assert drawn == plots(kept)


def test_no_number_of_ours_stands_without_its_setting(kept):
    assert {one.figure.paper for one in kept} >= {"mbs", "gnnpipe"}
    for one in kept:
        figure = one.figure
        assert figure.setting and figure.explanation and figure.command.startswith("python "), (
            figure.key
        )
        assert figure.kind == "table" or figure.series, figure.key


@pytest.mark.parametrize("paper", PAPERS)
def test_every_figure_was_measured(common, kept, paper):
    wanted = set(common["paper"].figures_of(paper))
    assert {one.figure.key for one in kept if one.figure.paper == paper} == wanted


def test_plots_can_be_read_on_a_phone_by_day_and_night(common, kept):
    for name, text in common["paper_page"].plots(kept).items():
        drawn = ElementTree.fromstring(text)
        assert int(drawn.get("width")) <= 400, name
        assert "prefers-color-scheme:dark" in text and "background:#0d1117" in text, name


@pytest.mark.parametrize("kind", ["bars", "stacked", "line"])
def test_text_of_a_figure_is_escaped(common, figure, kind):
    text = common["paper_charts"].plot(replace(figure, kind=kind))
    assert "<b>" not in text and "&lt;b&gt;" in text
    assert ElementTree.fromstring(text) is not None
    page = common["paper_page"].page([result(common, figure)], common["results"].published())
    assert "| 1 | 2 \\| 3 |" in page and "2.5x" in page and "128 GPUs" in page


def test_lines_of_many_points_and_tables(common, figure):
    Series = common["figures"].Series
    many = Series("curve", list(range(50)), [float(x * x) for x in range(50)])
    assert "polyline" in common["paper_charts"].plot(replace(figure, kind="line", series=[many]))
    assert common["paper_charts"].plot(replace(figure, kind="table", series=[])) == ""


def test_long_titles_are_whole_and_lines_can_be_told_apart(common, figure):
    words = "A title of so many words that it does not fit in a single line of a narrow plot"
    Series = common["figures"].Series
    same = [Series(name, [1, 2], [3.0, 3.0]) for name in "abcd"]
    long = replace(figure, title=words, kind="line", series=same)
    drawn = ElementTree.fromstring(common["paper_charts"].plot(long))
    assert drawn.get("aria-label") == words
    shown = [one.text for one in drawn.iter() if one.get("class") == "head"]
    assert " ".join(shown) == words and max(map(len, shown)) <= 46
    lines = [one for one in drawn.iter() if one.tag.endswith("polyline")]
    assert len({one.get("stroke-dasharray") for one in lines}) == 4


def test_bars_say_their_unit(common, figure):
    drawn = ElementTree.fromstring(common["paper_charts"].plot(replace(figure, y_label="seconds")))
    assert {"1.00 s", "2.00 s"} <= {one.text for one in drawn.iter() if one.text}


def test_gains_rise_only_beyond_their_spread():
    sys.path.insert(0, str(HERE))
    try:
        from benchmarks.paper_gnnpipe.sizes import gain_of, trend
    finally:
        sys.path.remove(str(HERE))
    assert gain_of([2.0, 4.0, 6.0], [2.0, 2.0, 2.0]) == (2.0, 1.0, 3.0)
    assert trend([(1.0, 0.9, 1.1), (1.5, 1.4, 1.6), (2.0, 1.9, 2.1)]) == "yes"
    assert trend([(1.0, 0.9, 2.0), (1.5, 1.4, 1.6), (2.0, 1.9, 2.1)]) == "partly"
    assert trend([(1.0, 0.9, 1.1), (3.0, 2.9, 3.1), (2.0, 1.9, 2.1)]) == "no"
    assert trend([(2.0, 1.9, 2.1), (1.5, 1.4, 2.2), (1.9, 1.8, 2.3)]) == "no"


def test_results_are_read_as_they_were_kept(common, figure, tmp_path, monkeypatch):
    results = common["results"]
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    spread = [replace(one, spread=[(0.5, 1.5), (1.0, 3.0)]) for one in figure.series]
    results.save(replace(figure, series=spread), True, 1.23, {"a": 1}, "Machine: M")
    [read] = results.load(tmp_path)
    assert read.figure == replace(figure, series=spread) and read.quick and read.seconds == 1.2
    assert read.facts == {"a": 1} and read.machine == "Machine: M" and read.load is None


def count(size):
    """Stands for a measurement."""
    calls.append(size)
    return {"seconds": (1.0, 2.0), "size": size}


calls: list[int] = []
SIZE = 3


def test_facts_are_measured_once_and_then_only_read(common, monkeypatch):
    facts, outdated = common["facts"].Facts, common["facts"].Outdated
    calls.clear()
    made = facts()
    assert made(count, 4) == made(count, 4) == {"seconds": [1.0, 2.0], "size": 4}
    assert calls == [4]
    again = facts(json.loads(json.dumps(made.known)))
    assert again(count, 4)["size"] == 4 and calls == [4]
    with pytest.raises(outdated, match="other constants"):
        again(count, 5)
    with pytest.raises(outdated, match="was not measured"):
        facts({})(count, 4)
    monkeypatch.setattr(sys.modules[__name__], "OTHER", [count], raising=False)
    assert again(count, 4)["size"] == 4  # functions say something else in every process
    monkeypatch.setattr(sys.modules[__name__], "SIZE", 5)
    with pytest.raises(outdated, match="other constants"):
        again(count, 4)


def test_words_are_of_today_and_old_ones_are_marked(common, figure, tmp_path, monkeypatch):
    """A sentence follows the code; one that cannot be made anew is shown as outdated."""
    results, page = common["results"], common["paper_page"].page

    def one(facts, quick):
        return replace(figure, key="one", explanation=f"New: {facts(count, 1)['size']}.")

    monkeypatch.setattr(results, "figures_of", lambda paper: {"one": one})
    measured = common["facts"].Facts()
    measured(count, 1)
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    results.save(replace(figure, explanation="Old."), True, 1.0, measured.known, "Machine: M")
    text = page(results.draw_anew(results.load(tmp_path)), results.published())
    assert "New: 1." in text and "Old." not in text and "outdated" not in text
    results.save(replace(figure, explanation="Old."), True, 1.0, {}, "Machine: M")
    text = page(results.draw_anew(results.load(tmp_path)), results.published())
    assert "Old." in text and "| **outdated** |" in text and "| yes (outdated) |" in text


def test_the_load_of_the_runs_is_on_the_page(common, figure):
    found = [
        replace(result(common, figure), machine=f"M: 2 cores; load average before the run {n}")
        for n in ("20.10 1.00 1.00.", "68.40 1.00 1.00.")
    ]
    text = common["paper_page"].page(found, common["results"].published())
    assert "load average 20 to 68 before the runs: other programs ran." in text


def run(common, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["paper.py", *arguments])
    return common["paper"].main()


@pytest.fixture
def two(common, figure, tmp_path, monkeypatch):
    """Two figures of a paper, of which the second fails at first; what was measured."""
    measured, fails = [], [True]

    def first(facts, quick):
        if not facts.frozen:
            measured.append(("first", quick))
        return replace(figure, key="first")

    def second(facts, quick):
        if not facts.frozen:
            measured.append(("second", quick))
        if fails.pop() if fails else False:
            raise RuntimeError("cut")
        return replace(figure, key="second")

    monkeypatch.setattr(common["results"], "FOLDER", tmp_path / "results")
    monkeypatch.setattr(common["paper"], "PAGE", tmp_path / "figures.md")
    found = {"first": first, "second": second}
    for module in ("paper", "results"):
        monkeypatch.setattr(common[module], "figures_of", lambda paper: found)
    original = common["results"].load
    load = lambda: original(tmp_path / "results")  # noqa: E731
    monkeypatch.setattr(common["results"], "load", load)
    return measured, tmp_path


def test_a_cut_run_goes_on_after_what_it_finished(common, two, monkeypatch):
    measured, folder = two
    with pytest.raises(RuntimeError, match="cut"):
        run(common, monkeypatch, "--paper", "mbs", "--quick")
    assert run(common, monkeypatch, "--paper", "mbs", "--quick", "--continue") == 0
    assert measured == [("first", True), ("second", True), ("second", True)]
    assert "### One" in (folder / "figures.md").read_text()
    # one that came to its end leaves nothing to go on with
    assert run(common, monkeypatch, "--paper", "mbs", "--quick", "--continue") == 0
    assert len(measured) == 5
    measured.clear()
    assert run(common, monkeypatch, "--paper", "mbs", "--redraw") == 0
    assert measured == []


def test_only_some_figures_and_unknown_ones(common, two, monkeypatch, capsys):
    measured, _ = two
    assert run(common, monkeypatch, "--paper", "mbs", "--only", "first") == 0
    assert measured == [("first", False)]
    with pytest.raises(SystemExit):
        run(common, monkeypatch, "--paper", "mbs", "--only", "third")
    assert "no figure is called third; --list names them" in capsys.readouterr().err


def test_a_figure_that_cannot_be_run_here_stays_as_it_is(common, figure, tmp_path, monkeypatch):
    def draw(facts, quick):
        common["skip"].skip("there is no disk")

    monkeypatch.setattr(common["results"], "FOLDER", tmp_path)
    assert not common["paper"].measure("mbs/one", draw, True)
    assert not list(tmp_path.rglob("*.json"))


# ---- python -m foregather.bench ----------------------------------------------------------------


def test_bench_runs_the_script_of_the_checkout(monkeypatch):
    called = []

    def fake(command, cwd):
        called.append((command, cwd))
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(bench.subprocess, "run", fake)
    monkeypatch.chdir(ROOT / "docs")
    assert bench.main(["paper", "--paper", "mbs", "--quick"]) == 3
    [(command, cwd)] = called
    assert command[1:] == [str(HERE / "paper.py"), "--paper", "mbs", "--quick"] and cwd == ROOT


def test_without_a_checkout_bench_says_so_in_one_sentence(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "__file__", str(tmp_path / "a/b/bench.py"))
    assert bench.main(["paper"]) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith("there is no checkout of foregather here") and "clone" in said


@pytest.mark.parametrize("arguments", [[], ["papers"]])
def test_bench_names_what_it_can_run(arguments, capsys):
    assert bench.main(arguments) == 2
    assert "python -m foregather.bench paper --quick" in capsys.readouterr().err


def test_a_result_that_is_damaged_is_an_error_and_not_a_figure(common, tmp_path):
    (tmp_path / "mbs").mkdir()
    (tmp_path / "mbs/bad.json").write_text(json.dumps({"figure": {}, "quick": True}))
    with pytest.raises((KeyError, TypeError)):
        common["results"].load(Path(tmp_path))
