"""`foregather plan --ranks`: the forecast, its labels, and options that cannot be."""

import json

import pytest

from foregather.cli.main import main
from foregather.graph.synthetic import synthesize


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "g"
    synthesize(path, 2000, edges=20_000, features=8, classes=3)
    return str(path)


OPTIONS = ["--fanouts", "4", "3", "--batch-size", "50", "--rank-memory", "9MB"]


def test_all_ranks_rehearsed_is_exact(folder, capsys):
    more = ["--ranks", "4", "--replication", "2", "--rehearse", "9", "9", "--bulk", "2"]
    assert main(["plan", folder, *OPTIONS, *more, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["exact_bytes"] and facts["seconds_are"] == "modelled"
    assert facts["batches"] == 24 and facts["epoch_bulks"] == 3
    for mode in ("default", "paper"):
        for part in ("sampling", "features"):
            cost = facts[mode][part]
            assert cost["bytes"] > 0 and cost["messages"] > 0 and cost["seconds"] > 0
    assert facts["default"]["sampling"]["bytes"] < facts["paper"]["sampling"]["bytes"]
    assert facts["default"]["features"]["bytes"] < facts["paper"]["features"]["bytes"]


def test_where_the_topology_is(folder, capsys):
    """Replicated sends nothing for sampling, and is taken where a rank has the room."""
    found = {}
    for room in ("10MB", "1MB"):
        more = ["--ranks", "2", "--rank-room", room, "--json"]
        assert main(["plan", folder, *OPTIONS, *more]) == 0
        facts = json.loads(capsys.readouterr().out)
        found[room] = [(one["topology"], one["rank"]) for one in facts["layouts"]]
        costs = {one["topology"]: one for one in facts["layouts"]}
        features, sampling = (facts["default"][part] for part in ("features", "sampling"))
        assert costs["replicated"]["bytes"] == features["bytes"]
        assert costs["partitioned"]["bytes"] == features["bytes"] + sampling["bytes"]
        # 2000 rows of 8 float32 and 2001 offsets and 20000 neighbours: 160 kB, in two blocks; and
        # a label of a byte for each node
        held = 9_000_000 + 2000
        assert costs["partitioned"]["peak"] == pytest.approx(held + 160_008 // 2, abs=2)
        assert costs["replicated"]["peak"] == pytest.approx(held + 32_000 + 96_008, abs=2)
    assert found["10MB"] == [("replicated", "choice"), ("partitioned", "runner-up")]
    assert found["1MB"] == [("replicated", "too large"), ("partitioned", "too large")]
    more = ["--ranks", "2", "--rank-room", "9.1MB"]
    assert main(["plan", folder, *OPTIONS, *more]) == 0
    out = capsys.readouterr().out
    assert "choice     partitioned" in out and "too large  replicated" in out


def test_large_grids_are_labelled(folder, capsys):
    more = ["--ranks", "128", "--replication", "4", "--link", "25GB/s,2us"]
    assert main(["plan", folder, *OPTIONS, *more]) == 0
    text = capsys.readouterr().out
    assert "modelled: 8 of 128 ranks and 1 of 1 bulks were rehearsed" in text
    assert main(["plan", folder, *OPTIONS, "--ranks", "6", "--replication", "2"]) == 0
    assert "paper      cannot use this grid" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--ranks", "4", "--link", "fast"], "expected a bandwidth and a latency"),
        (["--ranks", "4", "--replication", "3"], "divides the number of ranks"),
        (["--ranks", "0"], "at least one rank"),
        (["--ranks", "4", "--split", "none"], "has no split"),
        (["--ranks", "4", "--rank-memory", "1MB"], "needs at least"),
    ],
)
def test_options_that_cannot_be(folder, capsys, more, says):
    assert main(["plan", folder, *OPTIONS, *more]) == 2
    assert says in capsys.readouterr().err
