"""Blocks of rows: borders, what is read, renumbered folders and the command."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregather import Graph
from foregather.cli.main import main
from foregather.dist.forecast.cut_quality import measure_cut
from foregather.dist.renumber import metis_order, renumber
from foregather.dist.sampling.partition import Partition, cut_rows
from foregather.errors import FormatError, InputError, MissingDependencyError
from tests.dist import cases


@given(
    degrees=st.lists(st.integers(0, 50), max_size=40),
    blocks=st.integers(1, 9),
    balance=st.sampled_from(["edges", "nodes"]),
)
def test_blocks_cover_all_rows_and_are_balanced(degrees, blocks, balance):
    indptr = np.cumsum([0, *degrees])
    starts = cut_rows(indptr, blocks, balance)
    assert len(starts) == blocks + 1
    assert starts[0] == 0 and starts[-1] == len(degrees) and (np.diff(starts) >= 0).all()
    counts = np.diff(indptr[starts]) if balance == "edges" else np.diff(starts)
    slack = max(degrees, default=0) if balance == "edges" else 1
    assert counts.max() <= counts.sum() / blocks + slack + 1


@pytest.mark.parametrize("name", ["plain", "weighted wide"])
def test_a_block_is_its_rows(tmp_path, name):
    graph = cases.graph(name)
    graph.save(tmp_path / "graph")
    for opened in (True, False):
        rows, columns, weights = [], [], []
        for block in range(3):
            if opened:
                part = Partition.open(tmp_path / "graph", 3, block)
            else:
                part = Partition.of(graph, 3, block)
            assert part.digest == graph.digest and part.num_blocks == 3
            rows.append(part.indptr[:-1])
            columns.append(part.indices)
            weights.append(part.edge_weight)
        assert np.array_equal(np.concatenate(rows), graph.indptr[:-1])
        assert np.array_equal(np.concatenate(columns), graph.indices)
        if graph.edge_weight is not None:
            assert np.array_equal(np.concatenate(weights), graph.edge_weight)


def test_wrong_blocks(tmp_path):
    graph = cases.graph("plain")
    with pytest.raises(InputError, match=r"block is 3, but there are 3 blocks"):
        Partition.of(graph, 3, 3)
    with pytest.raises(InputError, match="blocks is 0"):
        cut_rows(graph.indptr, 0)
    with pytest.raises(InputError, match="balance is 'weight'"):
        cut_rows(graph.indptr, 2, "weight")


def test_a_damaged_indptr_is_found(tmp_path):
    cases.graph("plain").save(tmp_path / "graph")
    file = tmp_path / "graph" / "indptr.npy"
    raw = bytearray(file.read_bytes())
    raw[4096 + 8 * 10 : 4096 + 8 * 11] = (10**6).to_bytes(8, "little")
    file.write_bytes(raw)
    with pytest.raises(FormatError, match="indptr.npy: block 0 .* does not match its checksum"):
        Partition.open(tmp_path / "graph", 4, 0, "nodes")
    (tmp_path / "graph/checks.json").unlink()  # an unchecked folder
    with pytest.raises(FormatError, match="indptr does not ascend"):
        Partition.open(tmp_path / "graph", 4, 0, "nodes")


MEMORY = """
import sys
from foregather.dist.sampling.partition import Partition

def resident():
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["VmRSS"].split()[0]) * 1024

before = resident()
part = Partition.open(sys.argv[1], 8, 3)
print(resident() - before, part.nbytes)
"""


def test_a_rank_holds_its_share_in_memory(tmp_path):
    edges, nodes = 16_000_000, 100_000
    indptr = np.arange(nodes + 1, dtype=np.int64) * (edges // nodes)
    indices = np.tile(np.arange(edges // nodes, dtype=np.uint32), nodes)
    graph = Graph(nodes, edges, indptr, indices)
    graph.save(tmp_path / "graph")
    run = [sys.executable, "-c", MEMORY, str(tmp_path / "graph")]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    grown, held = map(int, done.stdout.split())
    share = graph.nbytes / 8
    assert 0.9 * share < held < 1.1 * share
    assert grown < 1.5 * share, f"{grown} bytes for a share of {share}"


def shuffled(tmp_path):
    rng = np.random.default_rng(5)
    graph = Graph.from_edge_index(
        rng.integers(0, 50, (2, 400)),
        50,
        x=rng.random((50, 3)).astype(np.float32),
        y=rng.integers(0, 4, 50),
        edge_weight=rng.random(400),
        edge_attr=rng.random((400, 2)),
        splits={"train": np.arange(0, 50, 3)},
    )
    order = rng.permutation(50)
    renumber(graph, order, np.array([0, 20, 50]), tmp_path / "new", how="test")
    return graph, order, Graph.open(tmp_path / "new")


def edges_of(graph, name):
    """Edges with their weight and features, in the ids that `name` gives."""
    target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
    data = zip(
        name[graph.indices],
        name[target],
        graph.edge_weight,
        map(tuple, graph.edge_features.data),
        strict=True,
    )
    return sorted(data)


def test_a_renumbered_graph_is_the_same_graph(tmp_path):
    graph, order, made = shuffled(tmp_path)
    made.verify()
    assert np.array_equal(made.extra["mapping"], order)
    assert edges_of(made, order) == edges_of(graph, np.arange(50))
    assert np.array_equal(made.features.data, graph.features.data[order])
    assert np.array_equal(made.labels, graph.labels[order])
    assert set(order[made.splits["train"]]) == set(graph.splits["train"])
    assert [Partition.open(tmp_path / "new", 2, b).first_row for b in (0, 1)] == [0, 20]
    assert Partition.open(tmp_path / "new", 3, 0).num_blocks == 3


def test_mappings_are_composed(tmp_path):
    _, first, made = shuffled(tmp_path)
    second = np.arange(50)[::-1].copy()
    renumber(made, second, np.array([0, 50]), tmp_path / "again", how="test")
    assert np.array_equal(Graph.open(tmp_path / "again").extra["mapping"], first[second])


@pytest.mark.parametrize("order", [[0, 1, 1], [0, 1], [0, 1, 3]])
def test_orders_that_are_no_permutation(tmp_path, order):
    graph = Graph.from_edge_index(np.array([[0], [1]]), 3)
    with pytest.raises(InputError, match="expected a permutation"):
        renumber(graph, np.array(order), np.array([0, 3]), tmp_path / "new", how="test")
    assert not (tmp_path / "new").exists()


def test_cut_halo_and_balance_by_hand():
    # 0 -> 1, 0 -> 2, 3 -> 2, 2 -> 3, 1 -> 3; blocks {0, 1}, {2, 3}
    graph = Graph.from_edge_index(np.array([[0, 0, 3, 2, 1], [1, 2, 2, 3, 3]]), 4)
    facts = measure_cut(graph, np.array([0, 0, 1, 1]), 2)
    assert facts["edges"] == [1, 4] and facts["cut"] == [0, 2] and facts["halo"] == [0, 2]
    assert facts["cut_share"] == 0.4 and facts["balance_edges"] == 1.6
    scattered = measure_cut(graph, np.array([0, 1, 0, 1]), 2)
    assert scattered["edges"] == [2, 3] and scattered["cut"] == [1, 2]


def test_the_command(tmp_path, capsys):
    cases.graph("plain").save(tmp_path / "graph")
    assert main(["partition", str(tmp_path / "graph"), "--parts", "4", "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "in 4 blocks, order natural" in text and "balance" in text
    out = str(tmp_path / "out")
    run = ["partition", str(tmp_path / "graph"), out, "--parts", "4", "--json"]
    assert main(run) == 0
    facts = json.loads(capsys.readouterr().out)
    assert sum(facts["nodes"]) == 400 and facts["made"] == "out"
    starts = Graph.open(out).meta["partition"]["row_starts"]
    assert np.array_equal(np.diff(starts), facts["nodes"])
    assert main(["partition", str(tmp_path / "graph"), "--parts", "4"]) == 2
    assert "no target folder was given" in capsys.readouterr().err


def test_metis_order_cuts_few_edges():
    pytest.importorskip("pymetis", reason="pymetis (foregather[metis]) is not installed")
    rng = np.random.default_rng(0)
    block = rng.permutation(200) % 2
    pairs = rng.integers(0, 200, (2, 6000))
    pairs = pairs[:, block[pairs[0]] == block[pairs[1]]]
    graph = Graph.from_edge_index(pairs, 200)
    order, starts = metis_order(graph, 2)
    part = np.empty(200, np.int64)
    part[order] = np.repeat([0, 1], np.diff(starts))
    assert measure_cut(graph, part, 2)["cut_share"] < 0.1


def test_metis_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(MissingDependencyError, match=r"foregather\[metis\]"):
        metis_order(cases.graph("plain"), 2)
