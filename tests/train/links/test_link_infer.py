"""Inference for links: pairs, best targets and rows agree with each other, by original ids."""

import csv
import json

import numpy as np
import pytest

from foregather import HeteroGraph
from foregather.cli.main import main
from tests.train.links.small_links import (
    BOUGHT,
    knowledge_graph,
    link_settings,
    plain_graph,
    saved,
    shop_graph,
)
from tests.train.runs import train


def table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    place = tmp_path_factory.mktemp("infer")
    saved(shop_graph(), place / "shop")
    train(
        link_settings(
            place / "shop",
            place / "run",
            train={"epochs": 1, "metric": "recall@5"},
            link={"loss": "bpr"},
        )
    )
    return place


def run(capsys, *words):
    code = main(["infer", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_pairs_best_targets_and_rows_agree(shop, capsys, tmp_path):
    best, rows = tmp_path / "best.csv", tmp_path / "rows.npy"
    code, said, _ = run(capsys, shop / "run", shop / "shop", best, "--top-k", 4)
    assert code == 0 and "the best 4 targets of 50 sources, known ones left out" in said
    code, _, _ = run(capsys, shop / "run", shop / "shop", rows, "--embeddings")
    assert code == 0
    left, right = (np.load(tmp_path / f"rows.{name}.npy") for name in ("user", "item"))
    scores = left @ right.T
    graph = HeteroGraph.open(shop / "shop")
    known = np.zeros(scores.shape, bool)
    edges = graph.relation(BOUGHT)
    known[edges.indices, np.repeat(np.arange(30), np.diff(edges.indptr))] = True
    for links in graph.links[BOUGHT].values():
        known[links.index[0], links.index[1]] = True
    allowed = np.where(known, -np.inf, scores)
    found = table(best)
    for user in range(50):
        mine = [row for row in found if row["source"] == str(user)]
        free = int((~known[user]).sum())
        assert len(mine) == min(4, free)
        expected = np.sort(allowed[user])[::-1][: len(mine)]
        assert np.allclose([float(row["score"]) for row in mine], expected, atol=1e-5)
        assert all(not known[user, int(row["target"]) - 1000] for row in mine)
    ids = (tmp_path / "rows.item.npy.ids.csv").read_text().splitlines()
    assert ids[:2] == ["id", "1000"]
    # the same scores for the same pairs
    pairs, out = tmp_path / "pairs.csv", tmp_path / "scores.csv"
    with open(pairs, "w", newline="") as file:
        csv.writer(file).writerows([["source", "target"], [3, 1004], [7, 1029]])
    code, said, _ = run(capsys, shop / "run", shop / "shop", out, "--pairs", pairs)
    assert code == 0 and "scores of 2 pairs" in said
    given = [float(row["score"]) for row in table(out)]
    assert np.allclose(given, [scores[3, 4], scores[7, 29]], atol=1e-5)


def test_parquet_and_json(shop, capsys, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    code, said, _ = run(
        capsys, shop / "run", shop / "shop", tmp_path / "r.parquet", "--embeddings", "--json"
    )
    assert code == 0 and json.loads(said)["width"] == 8
    found = parquet.read_table(tmp_path / "r.item.parquet").to_pydict()
    assert found["id"][:2] == [1000, 1001] and len(found["row"][0]) == 8


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "pass one of --pairs FILE, --top-k K and --embeddings; given: none of them"),
        (["--top-k", "3", "--embeddings"], "given: --top-k and --embeddings"),
        (["--top-k", "31"], "k is 31, but there are only 30 targets"),
        (["--embeddings", "--with-known"], "--with-known is for --top-k"),
        (["--top-k", "3", "--relation", "x"], "relation is 'x', but the links have 1"),
        (["--top-k", "3", "--memory", "1KB"], "too little for the 3 best targets"),
        (["--pairs", "none.csv"], "cannot read none.csv"),
    ],
)
def test_refused(shop, capsys, tmp_path, words, expected):
    code, _, error = run(capsys, shop / "run", shop / "shop", tmp_path / "out.csv", *words)
    assert code == 2 and expected in error, error
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("source,target\n", "has no rows"),
        ("source\n1\n", "has no column 'target', which is needed; it has: source"),
        ("source,target\n1,1000\n1,7\n", "name '7' in row 2, which is no node of type 'item'"),
        ("source,target\n1\n", "has no target in row 1"),
    ],
)
def test_bad_pairs(shop, capsys, tmp_path, text, expected):
    (tmp_path / "pairs.csv").write_text(text)
    words = (shop / "run", shop / "shop", tmp_path / "o.csv", "--pairs", tmp_path / "pairs.csv")
    code, _, error = run(capsys, *words)
    assert code == 2 and expected in error, error


def test_relations_are_named(tmp_path, capsys):
    saved(knowledge_graph(), tmp_path / "facts")
    link = {"relation": "*", "decoder": "distmult", "both_ends": True}
    train(
        link_settings(
            tmp_path / "facts",
            tmp_path / "run",
            model={"kind": "distmult"},
            train={"epochs": 1},
            link=link,
        )
    )
    words = (tmp_path / "run", tmp_path / "facts", tmp_path / "o.csv", "--top-k", 2)
    code, _, error = run(capsys, *words)
    assert code == 2 and "the links have 2 relation(s); name one of them" in error
    assert run(capsys, *words, "--relation", "next")[0] == 0
    (tmp_path / "pairs.csv").write_text("source,target,relation\n0,1,next\n0,20,opposite\n")
    words = (tmp_path / "run", tmp_path / "facts", tmp_path / "p.csv")
    assert run(capsys, *words, "--pairs", tmp_path / "pairs.csv")[0] == 0
    first = {
        row["target"]: row["score"] for row in table(tmp_path / "o.csv") if row["source"] == "0"
    }
    assert len(first) == 2


def test_plain_graph_and_other_graphs(tmp_path, capsys):
    saved(plain_graph(), tmp_path / "g")
    saved(plain_graph(features=False), tmp_path / "bare")
    train(link_settings(tmp_path / "g", tmp_path / "run", train={"epochs": 1}))
    out = tmp_path / "rows.npy"
    assert run(capsys, tmp_path / "run", tmp_path / "g", out, "--embeddings")[0] == 0
    assert np.load(out).shape == (60, 8)
    saved(shop_graph(), tmp_path / "shop")
    code, _, error = run(
        capsys, tmp_path / "run", tmp_path / "shop", tmp_path / "x.npy", "--embeddings"
    )
    assert code == 2 and "was trained on a plain one, but shop is a typed graph" in error
    train(link_settings(tmp_path / "bare", tmp_path / "learned", train={"epochs": 1}))
    saved(plain_graph(features=False, nodes=50), tmp_path / "fewer")
    words = (tmp_path / "learned", tmp_path / "fewer", tmp_path / "y.npy", "--embeddings")
    code, _, error = run(capsys, *words)
    assert code == 2 and "each node has a learned row" in error
