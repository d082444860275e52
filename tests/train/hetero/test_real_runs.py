"""Runs on real typed graphs learn far more than a constant answer."""

from dataclasses import replace

import numpy as np
import pytest

from foregather.graph.hetero import HeteroGraph
from foregather.train.settings import (
    CheckpointSettings,
    ModelSettings,
    OptimizerSettings,
    SamplerSettings,
    Settings,
    TrainSettings,
    TypedSettings,
)
from tests.train.hetero.shop import train_typed
from tests.typed_data import load_typed

OPTIMIZER = OptimizerSettings(lr=0.005)


@pytest.mark.parametrize(
    "kind",
    ["hetero-sage", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("rgcn", "hgt"))],
)
def test_papers(tmp_path, kind):
    """ACM: papers and authors have words, subjects have nothing; 20 labelled papers of a class."""
    load_typed("acm").with_reverse().save(tmp_path / "acm.fg")
    settings = Settings(
        graph=str(tmp_path / "acm.fg"),
        run=str(tmp_path / "r"),
        model=ModelSettings(kind, hidden=16),
        optimizer=OPTIMIZER,
        train=TrainSettings(epochs=20, batch_size=30, threads=1),
        checkpoint=CheckpointSettings(epochs=20),
    )
    facts = train_typed(settings)
    assert facts["target"] == "paper" and facts["scored"] == "exact"
    assert facts["test"] > facts["baseline"]["test"] + 0.2


@pytest.mark.slow
def test_entities_without_features(tmp_path):
    """AIFB: one type, 90 relations, a learned row for each entity; no validation split."""
    load_typed("aifb").with_reverse().save(tmp_path / "aifb.fg")
    settings = Settings(
        graph=str(tmp_path / "aifb.fg"),
        run=str(tmp_path / "r"),
        sampler=SamplerSettings(fanouts=(-1, -1)),
        model=ModelSettings("rgcn", hidden=16, options={"bases": 30}),
        train=TrainSettings(epochs=15, batch_size=140, threads=1),
    )
    facts = train_typed(settings)
    assert "valid" not in facts and facts["test"] > facts["baseline"]["test"] + 0.3


@pytest.mark.slow
def test_flights_with_times(tmp_path):
    """Flights of a year: will one be late? Trees see no later flight; some of the rows."""
    graph = load_typed("nycflights13_graph").with_reverse()
    table = graph.nodes["flight"]
    rng = np.random.default_rng(0)
    sizes = {"train": 6000, "val": 1500, "test": 1500}
    splits = {name: rng.permutation(table.split(name))[:size] for name, size in sizes.items()}
    nodes = {**graph.nodes, "flight": replace(table, splits=splits)}
    HeteroGraph(nodes, graph.edges).save(tmp_path / "flights.fg")
    settings = Settings(
        graph=str(tmp_path / "flights.fg"),
        run=str(tmp_path / "r"),
        sampler=SamplerSettings(fanouts=(8, 4)),
        model=ModelSettings("hetero-sage", hidden=32, dropout=0.2),
        optimizer=OPTIMIZER,
        train=TrainSettings(epochs=3, batch_size=256, threads=1, metric="auc"),
        typed=TypedSettings(time="node", encode_time=True),
    )
    facts = train_typed(settings)
    assert facts["metric"] == "roc_auc" and facts["test"] > 0.6  # a constant answer: 0.5
    assert facts["scored"] == "sampled"  # an airline's flights up to a day are a large tree
