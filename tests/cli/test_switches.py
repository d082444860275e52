"""Flags of yes or no, the config file of `train`, and words that no command has a place for."""

import itertools
from dataclasses import fields, replace

import pytest

from foregather.cli.flags import commands_of, flags_of, places_of_words, with_switches
from foregather.cli.main import Command, _parse, main
from foregather.train.settings import LinkSettings, Settings

COMMANDS = commands_of(Command)


def refused(capsys, *args):
    """The one sentence that a command line is refused with."""
    assert main([*map(str, args)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("foregather: ") and err.count("\n") == 1
    return err.removeprefix("foregather: ").rstrip()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def parsed(line, flag):
    value = _parse(line.split())
    for name in flag.replace("-", "_").split("."):
        value = getattr(value, name)
    return value


WHOLE = {
    "train": "train --train.task link",
    "train-full": "train-full g",
    "infer": "infer r g",
    "convert": "convert a b",
}


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("train", "--link.both-ends"),  # off unless it is given
        ("train", "--watch.trace"),  # on unless it is given
        ("train", "--trust-code"),
        ("train-full", "--initial-again"),
        ("train-full", "--overwrite"),
        ("infer", "--json"),
        ("convert", "--undirected"),
        ("convert", "--splits"),
    ],
)
@pytest.mark.parametrize("form", [" {}", "={}"])
@pytest.mark.parametrize(("word", "value"), [("True", 1), ("true", 1), ("False", 0), ("false", 0)])
def test_a_flag_means_the_value_after_it(command, flag, form, word, value):
    name = flag.removeprefix("--")
    name = f"settings.{name}" if "." in name else name
    for line in (
        f"{WHOLE[command]} {flag}{form.format(word)}",
        WHOLE[command].replace(command, f"{command} {flag}{form.format(word)}", 1),
    ):
        assert parsed(line, name) is bool(value)


@pytest.mark.parametrize("word", ["0", "1", "yes", "no", "off", "TRUE", "None"])
@pytest.mark.parametrize("form", [["--overwrite", "{}"], ["--overwrite={}"]])
def test_another_word_is_refused_by_name(capsys, word, form):
    said = refused(capsys, "infer", "r", "g", *(part.format(word) for part in form))
    assert said == f"--overwrite is {word!r}, expected True or False"


def test_a_word_that_is_neither_is_refused_where_nothing_else_can_be_meant(capsys, here):
    told = "--link.both-ends is 'garbage', expected True or False"
    assert refused(capsys, "train", "--link.both-ends", "garbage") == told
    assert refused(capsys, "train", "--link.both-ends=garbage") == told
    assert refused(capsys, "verify", "g", "--json", "junk").startswith("--json is 'junk', expected")
    said = refused(capsys, "train", "--link.no-both-ends", "True")
    assert said.startswith("--link.no-both-ends is 'True', but it takes no value")


def test_every_flag_of_yes_or_no_of_every_command_is_written_without_its_value():
    for name, command in COMMANDS.items():
        for flag in (flag for flag, kind in flags_of(command).items() if kind is bool):
            off = ".".join([*flag.split(".")[:-1], f"no-{flag.split('.')[-1]}"])
            assert with_switches([name, f"--{flag}", "true", "x"], COMMANDS) == [
                *(name, f"--{flag}", "x")
            ]
            assert with_switches([name, f"--{flag}=False"], COMMANDS) == [name, f"--{off}"]
    line = ["train", "--run", "False", "--options", "true", "--", "--json", "False"]
    assert with_switches(line, COMMANDS) == line


def test_a_flag_wins_over_the_file_both_ways(here):
    (here / "on.toml").write_text("[link]\nboth_ends = true\n[train]\ntask = 'link'\n")
    flag = "settings.link.both_ends"
    assert parsed("train on.toml", flag) is True
    assert parsed("train on.toml --link.both-ends False", flag) is False
    assert parsed("train on.toml --link.no-both-ends", flag) is False
    assert parsed("train on.toml --link.both-ends", flag) is True


def test_every_place_of_the_config_and_every_name_are_read(here):
    (here / "runs").mkdir()
    flags = [["--graph", "g.toml"], ["--run=r.toml"], ["--json"], ["--model.hidden", "8"]]
    for name in ("my.cfg", "runs/c"):
        (here / name).write_text("[train]\nepochs = 7\n")
        for place, order in itertools.product(range(5), (flags, flags[::-1])):
            parts = [*order[:place], [name], *order[place:]]
            made = _parse(["train", *itertools.chain(*parts)])
            assert (str(made.config), made.settings.train.epochs) == (name, 7)
            assert (made.settings.graph, made.settings.run) == ("g.toml", "r.toml")


def test_a_value_that_ends_like_a_config_is_none(here):
    (here / "exp.toml").write_text("[train]\nepochs = 7\n")
    made = _parse(["train", "--run", "exp.toml", "--graph", "g"])
    assert made.config is None and made.settings == Settings(graph="g", run="exp.toml")
    rest = ["--sampler.fanouts", "3", "2", "--run", "a.toml", "--json", "b.cfg", "--resume=c"]
    assert [rest[place] for place in places_of_words(rest, flags_of(COMMANDS["train"]))] == [
        "b.cfg"
    ]


def test_what_is_no_config_is_refused(capsys, here):
    (here / "g.fg").mkdir()
    (here / "n2").mkdir()
    (here / "edges.npy").write_bytes(b"\x93NUMPY\x01")
    (here / "two.toml").write_text("")
    assert refused(capsys, "train", "g.fg", "--graph", "g.fg") == (
        "g.fg is a folder, expected a config file (.toml); a graph is named by --graph g.fg"
    )
    for line in ("train --resume n2 n3", "train n3", "train n3 --graph g.fg"):
        assert refused(capsys, *line.split()).startswith("cannot read n3: there is no such file")
    assert refused(capsys, "train", "edges.npy").startswith("edges.npy is not TOML")
    assert refused(capsys, "train", "--graph", "g.fg", "two.toml", "configs").startswith(
        "train is given 'two.toml' and 'configs', expected [CONFIG]; leave out 'configs'"
    )
    assert refused(capsys, "convert", "a", "b", "c").startswith(
        "convert is given 'a' and 'b' and 'c', expected SRC DST; leave out 'c'"
    )


def test_flags_are_applied_before_the_file_is_checked(capsys, here):
    (here / "lk.toml").write_text('[link]\nrelation = "*"\n')
    made = _parse(["train", "lk.toml", "--train.task", "link"])
    link = LinkSettings(relation="*")
    assert made.settings == replace(
        Settings(), link=link, train=replace(Settings().train, task="link")
    )
    said = refused(capsys, "train", "lk.toml")
    assert said.startswith("in lk.toml, link.relation is '*', but train.task is 'auto'")
    said = refused(capsys, "train", "lk.toml", "--train.task", "link", "--link.negatives", "0")
    assert said == "link.negatives is 0, expected 1 or more"  # not of the file


def test_the_config_of_train_full_is_checked_with_its_flags(capsys, here):
    text = "[train]\nmethod = 'full-graph'\npatience = 3\n[full_graph]\nvalidate = 0\n"
    (here / "f.toml").write_text(text)
    made = _parse(["train-full", "g", "--config", "f.toml", "--validate", "2"]).settings()
    assert (made.train.patience, made.full_graph.validate) == (3, 2)
    said = refused(capsys, "train-full", "g", "--config", "f.toml")
    assert said.startswith("in f.toml, train.patience is 3, but full_graph.validate is 0")


def test_every_section_of_unchecked_settings_is_there(here):
    (here / "c.toml").write_text("[model]\nhidden = 5\n")
    made = _parse(["train", "c.toml"]).settings
    assert {one.name for one in fields(Settings)} == vars(made).keys()
    assert made == replace(Settings(), model=replace(Settings().model, hidden=5))
