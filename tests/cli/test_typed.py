"""info, verify and synth on folders with node types and relations."""

import json

import pytest
import tyro

from foregather import FormatError, InputError
from foregather.cli.graphs.convert import Convert
from foregather.cli.graphs.info import Info
from foregather.cli.graphs.partition import PartitionCommand
from foregather.cli.graphs.synth import Synth
from foregather.cli.graphs.verify import Verify
from foregather.graph.hetero import HeteroGraph
from tests.flip import flip
from tests.graph.hetero.typed_graphs import typed_graph
from tests.some import some


@pytest.fixture
def folder(tmp_path):
    return typed_graph().save(tmp_path / "g.fg")


def test_info_tells_types_and_relations(folder):
    command = Info(folder, verify=True)
    facts = command.run()
    json.dumps(facts)
    shown = command.show(facts)
    for words in some(
        (
            "nodes        47 of 3 types",
            "edges        360 of 4 relations",
            "type         paper: 30 nodes",
            "features   words: 2 x 3 x int64",
            "features   x: 4 x float32",
            "labels     int64, 3 classes, 8 missing",
            "time       -5 to 4",
            "split      train: 15",
            "original ids are strings",
            "(author, at, place): 0 edges",
            "(author, writes, paper): 120 edges, in-degree mean 4.00, max 9, weights, features 2 x",
            "(paper, cites, paper): 120 edges, in-degree mean 4.00, max 8, times -5 to 4, weights",
            "every byte when it is read",
            "nodes/1/features_0",
            "360 edges: nothing wrong",
        )
    ):
        assert words in shown
    assert facts["digest"] == typed_graph().digest
    assert facts["edges"][2]["in_degree"]["max"] == 8


def test_info_tells_rows_by_time(folder):
    graph = HeteroGraph.open(folder).with_time_order("edge")
    other = graph.save(folder.with_name("timed"))
    assert "times -5 to 4, rows by time, weights" in Info(other).show(Info(other).run())


def test_info_draws_no_single_distribution(folder):
    with pytest.raises(InputError, match="has several relations, each with its own degrees"):
        Info(folder, plot=folder.with_name("a.png")).run()


def test_verify_reads_every_byte(folder):
    command = Verify(folder)
    shown = command.show(command.run())
    assert "26 arrays" in shown and "47 rows, 360 edges in range and in order" in shown
    flip(folder / "nodes/1/labels.npy", 4096)
    with pytest.raises(FormatError, match="nodes/1/labels.npy is corrupted"):
        command.run()
    with pytest.raises(FormatError, match="nodes/1/labels.npy is corrupted"):
        Verify(folder, add_checks=True).run()


def test_verify_adds_checks(folder):
    (folder / "checks.json").unlink()
    assert "no block checksums" in Verify(folder).show(Verify(folder).run())
    added = Verify(folder, add_checks=True)
    assert "25 blocks matched" in added.show(added.run())


def test_commands_for_plain_graphs_refuse_types(folder):
    with pytest.raises(FormatError, match="with node types and relations, expected a plain one"):
        PartitionCommand(folder, dry_run=True).run()


def test_synth_makes_types(tmp_path):
    text = "--nodes 2k --types 3 --relations 3 --times edge --weights --features 8 --classes 4"
    command = tyro.cli(Synth, args=[str(tmp_path / "g"), *text.split()])
    facts = command.run()
    shown = command.show(facts)
    for words in some(("2,000 of 3 types", "of 3 relations", "(t0, rev_r0, t1): 10,666", "edge")):
        assert words in shown
    graph = HeteroGraph.open(tmp_path / "g")
    assert graph.num_nodes == 2000 and graph.num_edges == facts["edges"] == 3 * 10_666
    assert graph.meta["provenance"]["relations"] == 3


def test_flags_that_do_not_fit_are_refused(tmp_path):
    for flags in some((["--times", "node"], ["--relations", "4"], ["--weights"])):
        with pytest.raises(InputError, match="is for a graph with types; give --types too"):
            tyro.cli(Synth, args=[str(tmp_path / "g"), "--nodes", "2k", *flags]).run()
    for flags in some((["--dtype", "int8"], ["--ids", "natural"], ["--community", "9"])):
        with pytest.raises(InputError, match="is for a plain graph; leave it out with --types"):
            tyro.cli(
                Synth, args=[str(tmp_path / "g"), "--nodes", "2k", "--types", "2", *flags]
            ).run()


def test_convert_tells_types_relations_and_what_was_left_out(tmp_path):
    (tmp_path / "e.csv").write_text("s,t\n0,1\n0,5\n")
    (tmp_path / "d.toml").write_text(
        '[nodes.a]\ncount = 2\n[[edges]]\ntype = ["a", "r", "a"]\nfile = "e.csv"\n'
        'source = "s"\ntarget = "t"\nmissing = "drop"'
    )
    command = tyro.cli(Convert, args=[str(tmp_path / "d.toml"), str(tmp_path / "g")])
    facts = command.run()
    shown = command.show(facts)
    json.dumps(facts)
    assert "2 nodes of 1 type, 1 edge of 1 relation from d.toml" in shown
    assert "(a, r, a): 1 edge\n" in shown
    assert "1 row of (a, r, a) was left out: an end is no node" in shown
