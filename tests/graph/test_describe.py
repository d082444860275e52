"""describe against NumPy, and the info command."""

import json
import sys

import numpy as np
import pytest

from foregather import Graph, InputError, MissingDependencyError, StorageError
from foregather.cli.graphs.info import Info
from foregather.graph.describe import describe, plot_degrees


def random_graph(seed: int, **options) -> Graph:
    rng = np.random.default_rng(seed)
    nodes = 400
    return Graph.from_edge_index(
        (nodes * rng.random((2, 3000)) ** 2).astype(np.int64) // 2 * 2,  # odd nodes are isolated
        nodes,
        x=rng.random((nodes, 3), np.float32),
        y=rng.integers(-1, 5, nodes).astype(np.int32),
        splits={"train": np.arange(7)},
        **options,
    )


@pytest.mark.parametrize("options", [{}, {"undirected": True}, {"self_loops": True}])
def test_facts_equal_numpy(options):
    graph = random_graph(2, **options)
    target = np.repeat(np.arange(400), graph.in_degree())
    source = graph.indices.astype(np.int64)
    facts = describe(graph)
    for name, ends in (("in_degree", target), ("out_degree", source)):
        degree = np.bincount(ends, minlength=400)
        assert facts[name]["min"] == degree.min() and facts[name]["max"] == degree.max()
        assert facts[name]["mean"] == pytest.approx(degree.mean())
        for key, q in (("p25", 0.25), ("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
            want = np.quantile(degree, q, method="inverted_cdf")
            assert facts[name]["quantiles"][key] == want
        assert facts[name]["zero"] == (degree == 0).sum()
        for at, share in facts[name]["ccdf"]:
            assert share == (degree >= at).mean()
    ends = np.bincount(source, minlength=400) + np.bincount(target, minlength=400)
    assert facts["isolated"] == (ends == 0).sum()
    assert facts["self_loops"] == (source == target).sum()
    pairs = set(zip(source.tolist(), target.tolist(), strict=True))
    assert facts["duplicate_edges"] == graph.num_edges - len(pairs)
    assert facts["symmetric"] == (pairs == {(v, u) for u, v in pairs})
    assert facts["symmetric"] == ("undirected" in options)
    y = graph.labels
    known = (y[source] >= 0) & (y[target] >= 0)
    assert facts["homophily"] == pytest.approx((y[source] == y[target])[known].mean())
    assert facts["homophily_edges"] == known.sum()
    classes, counts = np.unique(y[y >= 0], return_counts=True)
    assert sorted(facts["labels"]["top_classes"]) == [
        [c, n] for c, n in zip(classes, counts, strict=True)
    ]
    assert facts["labels"]["missing"] == (y < 0).sum()
    assert facts["splits"] == {"train": 7}
    assert facts["bytes"] == graph.nbytes
    assert facts["features"] == {"width": 3, "dtype": "float32", "row_bytes": 12}
    json.dumps(facts)


def test_facts_do_not_depend_on_the_pieces(monkeypatch):
    import foregather.graph.chunks as chunks

    graph = random_graph(3)
    want = describe(graph)
    pieces = chunks.edge_pieces
    for step in (1, 7, 1000):
        monkeypatch.setattr(
            "foregather.graph.describe.edge_pieces", lambda g, step=step: pieces(g, step)
        )
        monkeypatch.setattr("foregather.graph.describe._INDPTR_STEP", step)
        assert describe(graph) == want


def test_symmetry_counts_pairs_not_copies():
    assert describe(Graph.from_edge_index([[0, 1, 1], [1, 0, 0]]))["symmetric"]
    assert not describe(Graph.from_edge_index([[0, 1, 1], [1, 0, 2]]))["symmetric"]


def test_empty_graphs_are_described():
    nothing = describe(Graph.from_edge_index(np.empty((2, 0), np.int64), 0))
    assert nothing["in_degree"] is None and nothing["homophily"] is None
    bare = describe(Graph.from_edge_index(np.empty((2, 0), np.int64), 3))
    assert bare["isolated"] == 3 and bare["in_degree"]["max"] == 0


def test_info_command(tmp_path):
    path = random_graph(4).save(tmp_path / "tiny")
    command = Info(path, plot=tmp_path / "degrees.png", verify=True)
    facts = command.run()
    json.dumps(facts)
    text = command.show(facts)
    for part in ("tiny", "400", "in-degree", "homophily", "train: 7", "nothing wrong", "degrees"):
        assert part in text
    assert (tmp_path / "degrees.png").read_bytes()[:4] == b"\x89PNG"
    empty = Info(Graph.from_edge_index(np.empty((2, 0), np.int64), 0).save(tmp_path / "none"))
    assert "no nodes" in empty.show(empty.run())


def test_plot_says_what_is_wrong(tmp_path, monkeypatch):
    graph = random_graph(5)
    assert plot_degrees(graph, tmp_path / "a.svg").exists()
    with pytest.raises(InputError, match=r"\.png"):
        plot_degrees(graph, tmp_path / "a.xyz")
    with pytest.raises(StorageError, match="cannot write"):
        plot_degrees(graph, tmp_path / "a.svg" / "a.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r"foregather\[plot\]"):
        plot_degrees(graph, tmp_path / "b.png")
