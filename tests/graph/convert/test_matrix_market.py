"""MatrixMarket files against SciPy, which wrote them; what is no graph is refused by name."""

import io
from pathlib import Path

import numpy as np
import pytest

from foregather import Graph
from foregather.cli.main import main
from foregather.errors import FormatError, InputError
from foregather.graph.convert import ReadOptions, convert

BANNER = "%%MatrixMarket matrix coordinate"


def pairs(folder: Path) -> set[tuple[int, int]]:
    graph = Graph.open(folder)
    targets = np.repeat(np.arange(graph.num_nodes), np.diff(np.asarray(graph.indptr)))
    return set(zip(np.asarray(graph.indices).tolist(), targets.tolist(), strict=True))


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("name", ["m.mtx", "m.txt", "m.mtx.gz"])
def test_what_scipy_wrote(tmp_path: Path, name: str, symmetric: bool) -> None:
    sparse, files = pytest.importorskip("scipy.sparse"), pytest.importorskip("scipy.io")
    matrix = sparse.random(30, 30, 0.1, random_state=0, format="coo")
    matrix = (matrix + matrix.T).tocoo() if symmetric else matrix
    text = io.BytesIO()
    files.mmwrite(text, matrix, symmetry="symmetric" if symmetric else "general")
    data = text.getvalue()
    if name.endswith(".gz"):
        import gzip

        data = gzip.compress(data)
    (tmp_path / name).write_bytes(data)
    facts = convert(tmp_path / name, tmp_path / "g", reading=ReadOptions(weight="3"))
    assert facts["num_nodes"] == 30 and facts["num_edges"] == matrix.nnz
    assert pairs(tmp_path / "g") == set(zip(matrix.row.tolist(), matrix.col.tolist(), strict=True))
    graph = Graph.open(tmp_path / "g")
    rows, columns = np.asarray(graph.indices), np.repeat(np.arange(30), np.diff(graph.indptr))
    dense = np.zeros((30, 30))
    dense[rows, columns] = np.asarray(graph.edge_weight)
    np.testing.assert_allclose(dense, matrix.toarray(), rtol=1e-6)


def test_ids_count_from_one_and_the_size_is_no_edge(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text(f"{BANNER} pattern general\n% of a book\n\n5 5 2\n1 2\n\n2 3\n")
    facts = convert(path, tmp_path / "g")
    assert pairs(tmp_path / "g") == {(0, 1), (1, 2)} and facts["num_nodes"] == 5
    assert any("node v has id v + 1 in the file" in note for note in facts["notes"])
    path.write_text(f"{BANNER} pattern symmetric\n3 3 2\n2 1\n3 3\n")
    convert(path, tmp_path / "s")
    assert pairs(tmp_path / "s") == {(0, 1), (1, 0), (2, 2)}
    path.write_text(f"{BANNER} real general\n4 4 0\n")
    assert convert(path, tmp_path / "e")["num_nodes"] == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n", "coordinate"),
        (f"{BANNER} complex general\n2 2 1\n1 2 3 4\n", "complex"),
        (f"{BANNER} real skew-symmetric\n2 2 1\n2 1 3\n", "skew-symmetric"),
        (f"{BANNER} pattern\n2 2 1\n2 1\n", "expected matrix, coordinate"),
        (f"{BANNER} pattern general\n2 3 1\n1 3\n", "2 rows and 3 columns"),
        (f"{BANNER} pattern general\n2 2\n1 2\n", "line 2 has '2 2', expected the numbers of"),
        (f"{BANNER} pattern general\n", "has no edge among its first"),
        (f"{BANNER} pattern general\n3 3 3\n1 2\n2 3\n", "2 entries, but line 2 says 3"),
        (f"{BANNER} pattern general\n3 3 1\n1 2\n2 3\n", "2 entries, but line 2 says 1"),
    ],
)
def test_what_is_no_graph_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "m.txt").write_text(text)
    with pytest.raises(FormatError, match=message):
        convert(tmp_path / "m.txt", tmp_path / "g")
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize(
    ("line", "options", "message"),
    [
        ("0 1", {}, "entry 1 has row 0, expected 1 to 3"),
        ("1 0", {}, "entry 1 has column 0, expected 1 to 3"),
        ("1 4", {}, "entry 1 has column 4, expected 1 to 3"),
        ("1 2", {"ids": "sparse"}, "ids are rows and columns"),
        ("1 2", {"ids": "string"}, "ids are rows and columns"),
        ("1 2", {"header": True}, "--header"),
        ("1 2", {"num_nodes": 9}, "--nodes is 9, but m.mtx says it has 3"),
    ],
)
def test_entries_and_options_that_do_not_fit(
    tmp_path: Path, line: str, options: dict, message: str
) -> None:
    (tmp_path / "m.mtx").write_text(f"{BANNER} pattern general\n3 3 2\n1 2\n{line}\n")
    with pytest.raises(InputError, match=message):
        convert(tmp_path / "m.mtx", tmp_path / "g", reading=ReadOptions(**options))


def test_the_command_says_how_it_was_read(tmp_path: Path, capsys) -> None:
    (tmp_path / "m.mtx").write_text(f"{BANNER} pattern symmetric\n3 3 1\n2 1\n")
    assert main(["convert", str(tmp_path / "m.mtx"), str(tmp_path / "g")]) == 0
    said = capsys.readouterr().out
    assert "MatrixMarket" in said and "undirected and stored one way" in said
