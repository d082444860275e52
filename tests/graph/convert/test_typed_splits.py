"""--split and --split-time for the labelled type of a typed graph, as for plain graphs."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foregather import InputError, SplitRule, convert
from foregather.graph.convert.nodes.node_splits import divide_by_chance
from foregather.graph.convert.typed import run
from foregather.graph.hetero import HeteroGraph
from tests.some import some

SPEC = '[nodes.a]\nfile = "a.csv"\nlabels = "y"\ntime = "t"\nsplit = "part"\n[nodes.b]\ncount = 2\n'


def write(folder, labels, times):
    rows = [f"{y},{t},old" for y, t in zip(labels, times, strict=True)]
    (folder / "a.csv").write_text("\n".join(["y,t,part", *rows, ""]))
    (folder / "d.toml").write_text(SPEC)
    return folder / "d.toml"


@settings(deadline=None, max_examples=10, suppress_health_check=list(HealthCheck))
@given(count=st.integers(12, 200), seed=st.integers(0, 99), memory=st.sampled_from([400, 1 << 30]))
def test_the_division_is_that_of_plain_graphs(tmp_path_factory, count, seed, memory):
    folder = tmp_path_factory.mktemp("s")
    labels = ["" if k % 5 == 0 else k % 3 for k in range(count)]
    path = write(folder, labels, range(count))
    rule = SplitRule((0.5, 0.2, 0.2), seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "working_memory", lambda _: max(memory, 2 * count))
        patch.setattr(os, "fsync", lambda _: None)
        convert(path, folder / "g", splits=rule, memory="4GB")
    there = np.array([k for k, y in enumerate(labels) if y != ""], np.int64)
    splits = HeteroGraph.open(folder / "g").nodes["a"].splits
    expected = divide_by_chance(rule, there)
    assert splits.keys() == expected.keys()  # the column is replaced
    for name, ids in some(expected.items()):
        np.testing.assert_array_equal(splits[name], ids)


@pytest.mark.parametrize(
    ("times", "limits"),
    [
        ([5, 1, 9, 3, 7, 2], (3, 7)),
        ([f"2020-01-0{k} 12:00:00" for k in (5, 1, 9, 3, 7, 2)], ("2020-01-03", "2020-01-07")),
        (
            [f"2020-01-0{k} 23:59:59" for k in (5, 1, 9, 3, 7, 2)],
            ("2020-01-02 23:59:59.5", "2020-01-07"),
        ),
    ],
)
def test_the_division_by_time(tmp_path, times, limits):
    path = write(tmp_path, ["x", "y", "x", "y", "", "x"], times)
    convert(path, tmp_path / "g", splits=SplitRule(times=limits))
    graph = HeteroGraph.open(tmp_path / "g")
    found = {name: ids.tolist() for name, ids in graph.nodes["a"].splits.items()}
    assert found == {"train": [1, 5], "valid": [0, 3], "test": [2]}
    assert graph.meta["provenance"]["split"] == {"times": [str(one) for one in limits]}


def test_no_splits(tmp_path):
    path = write(tmp_path, [1, 2], [1, 2])
    convert(path, tmp_path / "g", splits=False)
    assert HeteroGraph.open(tmp_path / "g").nodes["a"].splits == {}


@pytest.mark.parametrize(
    ("spec", "rule", "words"),
    [
        (SPEC, SplitRule(times=(100, 200)), "leaves valid empty"),
        (SPEC, SplitRule((0.9, 0.05, 0.05)), "leaves valid empty"),
        (SPEC, SplitRule(times=("2020-01-01", "2020-01-02")), "expected a whole number"),
        (SPEC.replace('labels = "y"\n', ""), SplitRule(times=(1, 2)), "there are no labels"),
        (SPEC.replace('time = "t"\n', ""), SplitRule(times=(1, 2)), "'a' has no time"),
        (
            SPEC + '[nodes.c]\nfile = "a.csv"\nlabels = "y"\n',
            SplitRule((0.5, 0.2, 0.2)),
            "'a', 'c' have labels",
        ),
    ],
)
def test_divisions_that_cannot_be_are_refused(tmp_path, spec, rule, words):
    path = write(tmp_path, [1, 2, 3], [1, 2, 3])
    path.write_text(spec)
    with pytest.raises(InputError, match=words):
        convert(path, tmp_path / "g", splits=rule)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.csv", "d.toml"]
