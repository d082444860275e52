"""Help says what a flag does, names its values, and leaks no types; other small commands."""

import re
import subprocess

import pytest

import foregather
from foregather.cli.flags import commands_of, flags_of
from foregather.cli.help import tidy
from foregather.cli.main import Command, main
from foregather.errors import InputError
from foregather.observe.progress import Progress, quiet
from tests.some import some

COMMANDS = sorted(commands_of(Command))


def help_of(command, capsys):
    assert main([command, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_no_type_is_leaked(command, capsys):
    check_help(command, help_of(command, capsys))


@pytest.mark.parametrize("columns", ["40", "100", "300"])
def test_nor_in_a_narrow_or_wide_terminal(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    text = help_of("train-full", capsys)
    check_help("train-full", text)
    assert 70 < max(map(len, text.splitlines())) <= 100


def check_help(command, text):
    assert "{" not in text and not re.search(r"\bNone\b", text)
    assert not re.search(r"\[(?:STR|INT|FLOAT|PATH)\b", text)
    assert not re.search(r"default:\s*True", text), "read beside --no-x it is the opposite"
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


def test_the_program_lists_its_commands_once(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: foregather [-h] COMMAND\n") and "{" not in text
    for command in some(COMMANDS):
        assert re.search(rf"• {command} ", text)


def test_the_list_of_commands_has_a_sentence_for_each(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "subcommands" not in text and "(required)" not in text
    assert "any number of threads" not in text, "the rest is in the command's own help"
    assert "any number of threads" in help_of("synth", capsys)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "no command is given; foregather --help lists them"),
        ("convert", "given no SRC and no DST; write foregather convert SRC DST, and see"),
        ("convert a.csv --columns x y", "convert is given no DST;"),
        ("bench", "bench is given no cache; write foregather bench cache, and see"),
        ("synth g", "synth is given no --nodes; write foregather synth DST --nodes ...,"),
        ("synth --nodes=9", "synth is given no DST;"),
        ("plan --memory 1GB g", "plan is given no GRAPH;"),
        ("info --json", "info is given no GRAPH;"),
        ("infer run --memory 1GB", "infer is given no GRAPH; write foregather infer RUN GRAPH,"),
        ("synth g --nodes many", "--nodes is 'many', which is not a number with a unit"),
        ("convert a.csv g --nodes 1.5", "--nodes '1.5' is not a whole number"),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(line, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("0,1\n")
    assert main(line.split()) == 2
    said = capsys.readouterr().err
    assert told in said and said.count("\n") == 1 and said.startswith("foregather: ")


@pytest.mark.parametrize(
    "line",
    [
        ["info", "nothing"],
        ["info", "--json", "nothing"],
        ["plan", "nothing", "--memory", "1GB", "2GB", "--fanouts", "-1"],
        ["plan", "--memory", "1GB", "--", "nothing"],
        ["convert", "--columns", "a", "b", "nothing", "here"],
    ],
)
def test_what_is_not_missing_is_not_asked_for(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(line) == 2
    assert "nothing" in capsys.readouterr().err


def test_a_folder_without_a_name_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["convert", ".", "g"]) == 2
    assert ". is not an OGB data set" in capsys.readouterr().err


def test_sentences_are_wrapped_by_the_width_alone(capsys):
    """Not where the source breaks them; a flag that became short stands beside its sentence."""
    text = help_of("convert", capsys)
    assert "  --columns STR STR       Source and target column of a table, by name or" in text
    assert "  --node-features STR ...  " in text and "--header auto|yes|no    Whether" in text
    assert re.search(r"or a \.toml that describes +\n +tables of several types", text)


def test_tidying_keeps_boxes_and_real_defaults():
    text = (
        "│ --a PATH   What. (default: None)      │\n"
        "│ --b INT    What else. (default: 3)    │\n"
        "│ --c        Long text (default:        │\n"
        "│            False)                     │\n"
        "│                                       │\n"
        "│ --d {None}|INT  What.                 │\n"
        "│ --e {None,x}  What.                   │\n"
        "│ --f {STR STR}                         │\n"
        "│            Two of them.               │\n"
        "│ --g [INT [INT ...]]                   │\n"
        "│            Many of them.              │\n"
        "│ --no-h     Not so. (default: True)    │\n"
    )
    made = tidy(text)
    assert "(default: 3)" in made and "None" not in made and "False" not in made
    lines = made.splitlines()
    assert "│ --d INT         What." in made and "│ --e x         What." in made
    assert "│ --f STR STR                           │\n│            Two of them. " in made
    assert "│ --g INT ...                           │\n│            Many of them. " in made
    assert "│ --no-h     Not so.  " in made
    assert {len(line) for line in some(lines)} == {41}
    assert len(lines) == 11, "a line that is now empty goes, one that was empty stays"


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


def test_a_missing_split_of_a_type_gives_the_way_out():
    from foregather.graph import NodeTable

    table = NodeTable.of(2, splits={"train": [0]})
    with pytest.raises(InputError, match=r"has: train; make some with .* --split 0\.6 0\.2 0\.2"):
        table.split("holdout")


def test_missing_features_name_the_flags_that_bring_them(tmp_path, capsys):
    from foregather.dist.features.feature_block import FeatureBlock
    from foregather.gather.feature_file import FeatureFile

    graph = foregather.Graph.from_edges([("a", "b")], y=[0, 1], splits={"train": [0]})
    graph.save(tmp_path / "g")
    assert main(["train", "--graph", str(tmp_path / "g"), "--run", str(tmp_path / "r")]) == 2
    assert "convert it with --features FILE or --node-table FILE" in capsys.readouterr().err
    with pytest.raises(InputError, match="--features FILE or --node-table FILE"):
        FeatureBlock.open(tmp_path / "g", 1, 0)
    with pytest.raises(InputError, match="--features FILE or --node-table FILE"):
        FeatureFile.of(foregather.Graph.open(tmp_path / "g"))


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
