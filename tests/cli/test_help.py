"""Help says what a flag does, names its values, and leaks no types; other small commands."""

import re
import subprocess

import pytest

import foregather
from foregather.cli.flags import commands_of, flags_of
from foregather.cli.help import tidy
from foregather.cli.main import Command, main
from foregather.observe.progress import Progress, quiet
from tests.some import some

COMMANDS = sorted(commands_of(Command))


def help_of(command, capsys):
    assert main([command, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_no_type_is_leaked(command, capsys):
    text = help_of(command, capsys)
    assert "{None" not in text and "None}" not in text and "(default: None)" not in text
    usage = re.sub(r"\[--[^]]*\]", "", text.partition("\n\n")[0])
    assert "PATH" not in usage, "positional arguments have names"


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_negative_flag_does_is_said(command, capsys):
    """The sentence of --no-x is about what --no-x does, and names the flag."""
    text = re.sub(r"\s*[│|]?\n[│|]?\s*", " ", help_of(command, capsys))
    flags = set(re.findall(r"--(?:[a-z-]+\.)?no-[a-z-]+", text))
    known = flags_of(commands_of(Command)[command])
    for flag in sorted(flags - {f"--{name}" for name in known}):
        assert flag.replace("no-", "", 1)[2:] in known
        assert text.count(flag) >= 2, f"the help of {flag} does not say what {flag} does"


def test_positional_arguments_have_names(capsys):
    assert "RUN GRAPH [OUT]" in help_of("infer", capsys)
    assert "RUN [RUN ...]" in help_of("report", capsys)
    assert "--no-splits leaves the splits of the source out" in help_of("convert", capsys)


def test_tidying_keeps_boxes_and_real_defaults():
    text = (
        "│ --a PATH   What. (default: None)      │\n"
        "│ --b INT    What else. (default: 3)    │\n"
        "│ --c        Long text (default:        │\n"
        "│            False)                     │\n"
        "│                                       │\n"
        "│ --d {None}|INT  What.                 │\n"
        "│ --e {None,x}  What.                   │\n"
    )
    made = tidy(text)
    assert "(default: 3)" in made and "None" not in made and "False" not in made
    lines = made.splitlines()
    assert "│ --d INT         What." in made and "│ --e {x}" in made
    assert {len(line) for line in some(lines)} == {41}
    assert len(lines) == 6, "a line that is now empty goes, one that was empty stays"


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"foregather {foregather.__version__}\n"


def test_completion(tmp_path, capsys):
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert "train-full" in script and "--batch-size" in script
    (tmp_path / "c.sh").write_text(script)
    subprocess.run(["bash", "-n", str(tmp_path / "c.sh")], check=True)


def test_a_missing_split_gives_the_way_out(tmp_path, capsys):
    graph = foregather.Graph.from_edges([("a", "b")], x=[[1.0], [2.0]], y=[0, 1])
    graph.save(tmp_path / "g")
    assert main(["train", "--graph", str(tmp_path / "g"), "--run", str(tmp_path / "r")]) == 2
    said = capsys.readouterr().err
    assert "there is no split 'train'" in said and "--split 0.6 0.2 0.2" in said


def test_a_budget_that_is_too_small_is_said_below_the_table(tmp_path, capsys):
    from foregather.graph.synthetic import synthesize

    synthesize(tmp_path / "g", 3000, degree=8, features=64, classes=3, seed=0)
    assert main(["plan", str(tmp_path / "g"), "--memory", "1MB", "1GB", "--batches", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if line.lstrip().startswith("1 MB"))
    assert row.split("MB")[1].strip() == "not enough"
    assert any(line.startswith("1 MB is not enough: ") for line in lines)


def test_progress_in_pipes(capsys, monkeypatch):
    from foregather.observe import progress

    monkeypatch.setattr(progress, "EVERY", 0.0)
    monkeypatch.delenv("FOREGATHER_QUIET", raising=False)
    with Progress("reading edges", 200, "edges") as bar:
        bar.advance(50)
        bar.advance(50)
    first, second = capsys.readouterr().err.splitlines()
    assert re.match(r"reading edges: 50/200 edges in \d:\d\d:\d\d, .*/s, .* left", first)
    assert second.startswith("reading edges: 100/200 edges in ")
    with quiet(), Progress("reading edges", 200, "edges") as bar:
        bar.advance(50)
    assert capsys.readouterr().err == ""
