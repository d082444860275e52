"""Typed conversion in bounded memory: the same folder for any budget, and that of the arrays."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foregather import convert
from foregather.graph.convert.typed import reader as reading
from foregather.graph.convert.typed import run
from foregather.graph.hetero import HeteroGraph
from tests.graph.convert.typed_tables import random_tables
from tests.some import some


@pytest.fixture(autouse=True)
def small_budgets(monkeypatch):
    """Budgets are what steps may use, however small: buffers and parts of a few records."""
    monkeypatch.setattr(run, "working_memory", lambda memory: memory)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # hundreds of small files


@settings(deadline=None, max_examples=8, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 1 << 30),
    size=st.sampled_from([0, 1, 7, 40, 300]),
    text=st.booleans(),
    end=st.sampled_from(["parquet", "csv"]),
    memory=st.sampled_from([8_000, 30_000, 200_000]),
)
def test_any_budget_gives_the_graph_of_the_arrays(tmp_path_factory, seed, size, text, end, memory):
    if size < 40:
        end = "parquet"  # in a text file a column without values has no type
    folder = tmp_path_factory.mktemp("g")
    made = random_tables(seed, size, text)
    path = made.write(folder, end)
    facts = convert(path, folder / "small", memory=memory, threads=1)
    convert(path, folder / "large", memory="4GB", threads=2)
    small, large = HeteroGraph.open(folder / "small"), HeteroGraph.open(folder / "large")
    assert small.verify().num_edges == made.graph.num_edges
    assert facts["dropped"] == made.dropped
    assert (folder / "small/meta.json").read_bytes() == (folder / "large/meta.json").read_bytes()
    assert small.digest == large.digest == made.graph.digest


def test_every_file_is_the_same_for_any_budget(tmp_path, monkeypatch):
    path = random_tables(3, 700, True).write(tmp_path)
    found = []
    for name, memory, rows in (("a", 8_000, 50), ("b", 100_000, 999), ("c", "1GB", 1 << 18)):
        monkeypatch.setattr(reading, "_MOST_ROWS", rows)
        convert(path, tmp_path / name, memory=memory)
        files = sorted(p for p in (tmp_path / name).rglob("*") if p.is_file())
        found.append({str(p.relative_to(tmp_path / name)): p.read_bytes() for p in some(files)})
    assert found[0] == found[1] == found[2]
    assert not [one for one in tmp_path.iterdir() if one.name.endswith(".partial")]
