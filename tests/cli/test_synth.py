"""The synth command: flags in, facts and a readable summary out."""

import json

import numpy as np
import pytest
import tyro

from foregather.cli.graphs.synth import Synth
from foregather.errors import InputError


def test_flags_reach_the_graph(tmp_path):
    text = (
        "--nodes 2k --edges 10k --features 8 --classes 5 --dtype float16 "
        "--ids natural --skew 2 --mixing 0.25 --community 100 --label-noise 0 --signal 3 "
        "--split 0.5 0.25 0.25 --seed 4 --threads 1"
    )
    command = tyro.cli(Synth, args=[str(tmp_path / "g"), *text.split()])
    facts = command.run()
    provenance = json.loads((tmp_path / "g" / "meta.json").read_text())["provenance"]
    expected = dict(
        nodes=2000, edges=10_000, features=8, classes=5, dtype="float16", ids="natural", skew=2,
        mixing=0.25, community=100, communities=20, label_noise=0.0, signal=3.0,
        split=[0.5, 0.25, 0.25], seed=4,
    )  # fmt: skip
    assert expected.items() <= provenance.items()
    assert np.load(tmp_path / "g" / "indices.npy").size == 10_000
    json.dumps(facts)
    shown = command.show(facts)
    for word in ("2,000", "10,000", "8 x float16", "MB/s", "at its peak", "foregather info"):
        assert word in shown


def test_defaults_are_those_of_the_library(tmp_path):
    from foregather.graph.recipe import Recipe

    command = Synth(tmp_path / "g", "600")
    command.run()
    provenance = json.loads((tmp_path / "g" / "meta.json").read_text())["provenance"]
    assert provenance == json.loads(json.dumps(Recipe(600).provenance()))


def test_show_says_when_edges_were_capped(tmp_path):
    command = Synth(tmp_path / "g", "4", degree=3, features=0, classes=2)
    facts = command.run()
    assert facts["edges_capped"] > 0
    assert "fewer than requested" in command.show(facts)
    assert "features  none" in command.show(facts)


def test_bad_flags_are_input_errors(tmp_path):
    for bad in (dict(nodes="ten"), dict(nodes="0"), dict(nodes="100", edges="1.5")):
        with pytest.raises(InputError):
            Synth(tmp_path / "g", **bad).run()
