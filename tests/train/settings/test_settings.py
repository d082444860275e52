"""Settings: TOML in and out, and refusals that name the key."""

from dataclasses import replace
from pathlib import Path

import pytest

from foregather.errors import InputError, StorageError
from foregather.train.settings import (
    ModelSettings,
    SamplerSettings,
    Settings,
    TrainSettings,
    difference,
    naming_file,
    read_settings,
    with_options,
    write_settings,
)


def read(folder: Path, text: str) -> Settings:
    path = folder / "c.toml"
    path.write_text(text, encoding="utf-8")
    return read_settings(path)


def test_written_settings_are_read_back(tmp_path):
    made = Settings(
        graph='a "b" \\ ü',
        model=ModelSettings("m:C", options={"heads": 2, "names": ["x y", "z"], "deep": {"a": 0.5}}),
        sampler=SamplerSettings(fanouts=(-1, 3)),
        train=TrainSettings(seed=2**63, valid=""),
    )
    assert read(tmp_path, write_settings(made)) == made
    assert read(tmp_path, write_settings(Settings())) == Settings()
    assert read(tmp_path, "") == Settings()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epoch = 3", "unknown key epoch; did you mean train.epochs?"),
        ("[train]\nepohcs = 3", "unknown key train.epohcs; did you mean train.epochs?"),
        ("[trian]\nepochs = 3", "unknown key trian; did you mean train?"),
        ("[optimizer]\nhidden = 3", "unknown key optimizer.hidden; did you mean model.hidden?"),
        ("[watch]\nqqqqqq = 3", "known are trace, profile, tensorboard"),
        ('[model]\nhidden = "64"', "model.hidden = '64', expected int"),
        ("[train]\nepochs = true", "train.epochs = True, expected int"),
        ('[optimizer]\nkind = "adm"', "expected one of adam, adamw, sgd"),
        ("[sampler]\nfanouts = 10", "sampler.fanouts = 10, expected integers"),
        ("model = 3", "expected a section"),
        ("graph = [", "is not TOML"),
        ("[train]\nepochs = 0", "train.epochs is 0, expected 1 or more"),
        ("[optimizer]\nlr = nan", "optimizer.lr is nan"),
        ("[model]\ndropout = 1.0", "model.dropout is 1.0"),
    ],
)
def test_refusals_name_the_key(tmp_path, text, words):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert words in str(caught.value)


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(StorageError, match="cannot read none.toml"):
        read_settings(tmp_path / "none.toml")


def test_difference_shows_both_values():
    old = Settings(graph="a")
    new = replace(old, graph="b", model=ModelSettings(hidden=128))
    assert difference(old, new) == [
        "graph was 'a' and is 'b'",
        "model.hidden was 64 and is 128",
    ]
    assert difference(old, new, ("graph", "model")) == []


def test_options_of_classes():
    made = with_options(Settings(), ["model.heads=2", "model.act=relu", "sampler.ks=[1, 2]"])
    assert made.model.options == {"heads": 2, "act": "relu"}
    assert made.sampler.options == {"ks": [1, 2]}
    with pytest.raises(InputError, match="expected model.NAME=VALUE"):
        with_options(made, ["heads=2"])


def test_a_byte_order_mark_is_no_part_of_a_config(tmp_path):
    plain, marked = tmp_path / "a.toml", tmp_path / "b.toml"
    text = 'graph = "g"\n[train]\nepochs = 7\n'
    plain.write_text(text, encoding="utf-8")
    marked.write_text(text, encoding="utf-8-sig")
    assert read_settings(marked) == read_settings(plain)
    assert read_settings(marked).train.epochs == 7


def test_settings_are_read_for_flags_to_change_and_then_checked(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("[train]\nepochs = 0\nseed = 4\n")
    made = read_settings(path, check=False)
    assert (made.train.epochs, made.train.seed, made.model) == (0, 4, ModelSettings())
    right = replace(made, train=replace(made.train, epochs=3))
    assert right == Settings(train=TrainSettings(epochs=3, seed=4))
    with pytest.raises(InputError, match=r"^train.epochs is 0"):
        replace(made, graph="g")
    with pytest.raises(InputError, match=r"^in c.toml, train.epochs is 0, expected 1 or more"):
        read_settings(path)
    path.write_text("[train]\nepohcs = 0\n")
    with pytest.raises(InputError, match="did you mean train.epochs"):
        read_settings(path, check=False)


def test_a_refusal_names_the_file_only_where_the_file_is_wrong(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("[model]\ndropout = 2.0\n")
    made = read_settings(path, check=False)
    with pytest.raises(InputError, match=r"^in c.toml, model.dropout"), naming_file(made, path):
        replace(made, graph="g")
    right = replace(made.model, dropout=0.5, hidden=0)
    with pytest.raises(InputError, match=r"^model.hidden"), naming_file(made, path):
        replace(made, model=right)
