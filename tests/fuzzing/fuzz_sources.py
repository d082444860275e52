"""Readers of what others wrote (edge lists, archives, tables, OGB's folders), for the fuzzer."""

import gzip
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from foregather import NodeFile, ReadOptions, SplitRule, convert
from foregather.graph.convert.reading.npz import ZipArrays
from foregather.graph.convert.sources.text import TextSource
from tests.fuzzing.fuzz_case import Case
from tests.fuzzing.fuzz_files import array_bytes, in_archive, in_gzip, with_digest
from tests.helpers_ogb import OgbLayout, tiny_ogb, write_ogb

__all__ = ["ogb_cases", "source_cases"]


def _read_text(path: Path) -> None:
    for chunk in TextSource(path).edges(64):
        assert chunk is not None


def _read_zip(path: Path) -> None:
    with ZipArrays(path) as archive:
        for name in archive.names():
            if archive.header(name).shape == ():
                archive.whole(name, 1 << 20)
                continue
            for part in archive.chunks(name, 16):
                assert part is not None


def _convert(source: Path, **options: Any) -> None:
    target = source.parent / "converted"
    try:
        convert(source, target, memory="2GB", threads=1, **options)
    finally:
        shutil.rmtree(target, ignore_errors=True)


def source_cases(folder: Path) -> dict[str, Case]:
    """Writes one small source of every kind that `convert` reads, and says how each is read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    pairs = rng.integers(0, 20, (2, 60))
    csv, packed = folder / "edges.csv", folder / "edges.txt.gz"
    csv.write_text("source,target\n" + "1,2\n3,4\n" * 6)
    names = folder / "names.tsv"
    names.write_text("from\tto\tweight\n" + "a\tb\t1.5\nb\tc\t2\n" * 3)
    nodes, rows = folder / "nodes.csv", folder / "nodes.parquet"
    nodes.write_text(
        "id,x,label,split,time\na,1,u,train,2020-01-01\nb,2,v,,2020-06-01\nc,,u,test,2021-01-01\n"
    )
    pq.write_table(pa.table({"id": ["a", "b", "c"], "x": [1.5, 2, 3], "y": ["u", "v", None]}), rows)
    text = b"# c\n1 2\n3 4\n" * 9
    packed.write_bytes(gzip.compress(text, mtime=0))
    stored, compressed = folder / "arrays.npz", folder / "packed.npz"
    arrays: dict[str, Any] = {
        "edge_index": pairs,
        "x": rng.random((20, 3), np.float32),
        "y": np.arange(20) % 3,
        "num_nodes": np.array(20),
        "train_mask": np.arange(20) < 9,
    }
    np.savez(stored, **arrays)
    np.savez_compressed(compressed, a=pairs)
    (folder / "edges.npy").write_bytes(array_bytes(pairs))
    (folder / "rows.npy").write_bytes(array_bytes(arrays["x"]))
    table = folder / "edges.parquet"
    pq.write_table(pa.table({"source": pairs[0], "target": pairs[1]}), table)

    def inside(member: str, weight: int) -> Case:
        good, mend = in_archive(stored, f"{member}.npy")
        return Case(stored, lambda: _convert(stored), weight, good, mend)

    def joined(path: Path, **options: Any) -> Case:
        asked = NodeFile(path, fill=0)
        reading = ReadOptions(ids="string", weight="weight", table=asked)
        return Case(path, lambda: _convert(names, reading=reading, **options), 4)

    return {
        "node table": joined(nodes),
        "node table, by time": joined(nodes, splits=SplitRule(times=("2020-02-01", "2020-12-31"))),
        "node table, Parquet": joined(rows),
        "edge list": Case(csv, lambda: _read_text(csv), 60),
        "edge list, converted": Case(csv, lambda: _convert(csv), 4),
        "edge list of names, converted": Case(
            names, lambda: _convert(names, reading=ReadOptions(ids="string", weight="weight")), 4
        ),
        "edge list, gzip": Case(packed, lambda: _read_text(packed), 20),
        "edge list, inside gzip": Case(packed, lambda: _read_text(packed), 20, text, in_gzip),
        "npz": Case(stored, lambda: _read_zip(stored), 30),
        "npz, compressed": Case(compressed, lambda: _read_zip(compressed), 20),
        "npz, converted": Case(stored, lambda: _convert(stored), 3),
        **{f"npz, converted, inside {name}": inside(name, 3) for name in arrays},
        "npy, converted": Case(folder / "edges.npy", lambda: _convert(folder / "edges.npy"), 4),
        "features of their own": Case(
            folder / "rows.npy",
            lambda: _convert(stored, features=folder / "rows.npy"),
            3,
        ),
        "Parquet, converted": Case(table, lambda: _convert(table), 4),
        "folder, converted": Case(
            folder / "graph/meta.json", lambda: _convert(folder / "graph"), 3, mend=with_digest
        ),
    }


def ogb_cases(folder: Path, layout: OgbLayout) -> dict[str, Case]:
    root = folder / layout
    root.mkdir()
    data = write_ogb(root, tiny_ogb(num_nodes=12, num_edges=24), layout)
    found = {}
    for path in sorted(data.rglob("*.*z")):
        if path.parent.name == "mapping":
            continue
        name = f"OGB {layout}, {path.relative_to(data)}"
        found[name] = Case(path, lambda: _convert(data), 2)
        if path.suffix == ".gz":
            text = gzip.decompress(path.read_bytes())
            found[f"{name}, inside"] = Case(path, lambda: _convert(data), 2, text, in_gzip)
            continue
        with ZipArrays(path) as archive:
            members = archive.names()
        for member in members:
            good, mend = in_archive(path, f"{member}.npy")
            found[f"{name}, inside {member}"] = Case(path, lambda: _convert(data), 2, good, mend)
    return found
