"""Readers of graph folders, verified or used as they are, for the fuzzer."""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from foregather import BatchContents, Graph, Loader, convert
from foregather.dist.features.feature_block import FeatureBlock
from foregather.dist.sampling.partition import Partition
from foregather.gather.store import open_store
from foregather.graph.integrity.blocks import array_sums
from foregather.graph.on_disk.meta import read_meta
from foregather.graph.on_disk.npy import read_header
from foregather.sampling import FastGCN, Full, Labor, Ladies, Neighbor, RandomWalk, Saint, Sampler
from foregather.sampling.disk import DiskTopology
from tests.fuzzing.fuzz_case import Case
from tests.fuzzing.fuzz_files import array_bytes, payload_damage, with_digest

__all__ = ["check_cases", "folder_cases", "use_cases", "write_folder"]


def write_folder(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    made = Graph.from_edge_index(
        rng.integers(0, 20, (2, 60)),
        20,
        x=rng.random((20, 3), np.float32),
        y=np.arange(20) % 3,
        edge_weight=rng.random(60, np.float32),
        edge_attr=rng.random((60, 2), np.float32),
        splits={"train": np.arange(9), "valid": np.arange(9, 14), "test": np.arange(14, 20)},
    )
    made.save(folder / "plain")
    convert(folder / "plain", folder / "graph", dtype="int8")
    meta = json.loads((folder / "graph/meta.json").read_text())
    meta["partition"] = {"row_starts": [0, 9, 20]}
    (folder / "graph/meta.json").write_bytes(with_digest(json.dumps(meta).encode()))
    shutil.copytree(folder / "graph", folder / "checked")
    # Block checksums would refuse most damage before a reader has seen it.
    (folder / "graph/checks.json").unlink()
    return folder / "graph"


def _verify(graph: Path) -> None:
    Graph.open(graph).verify()


def folder_cases(graph: Path) -> dict[str, Case]:
    header = graph.parent / "header.npy"
    header.write_bytes(array_bytes(np.ones((2, 3), np.float32)))
    meta = graph / "meta.json"
    files = sorted(p.relative_to(graph) for p in graph.rglob("*.npy"))
    return {
        "npy header": Case(header, lambda: read_header(io.BytesIO(header.read_bytes()), "x"), 60),
        "meta.json": Case(meta, lambda: read_meta(graph), 40),
        "meta.json, mended": Case(meta, lambda: read_meta(graph), 60, mend=with_digest),
        "folder, meta.json, mended": Case(meta, lambda: _verify(graph), 20, mend=with_digest),
        **{f"folder, {file}": Case(graph / file, lambda: _verify(graph), 6) for file in files},
    }


def _check_all(graph: Path) -> None:
    opened = Graph.open(graph)
    for name in opened.stored_arrays():
        sums = array_sums(opened, name)
        assert sums is not None
        data = (graph / f"{name}.npy").read_bytes()
        sums.check(0, np.frombuffer(data, np.uint8))


def check_cases(graph: Path) -> dict[str, Case]:
    """Block checksums: their list, their tables, and rows that are read with them."""
    listed, rows = graph / "checks.json", graph / "features.npy"
    tables = ("features.crc", "splits/train.crc")

    def use() -> None:
        _check_all(graph)

    return {
        "checks.json": Case(listed, use, 10),
        "checks.json, mended": Case(listed, use, 30, mend=with_digest),
        **{f"checks, {file}": Case(graph / file, use, 5) for file in tables},
        "checked rows": Case(rows, lambda: _store(graph), 5, how=payload_damage),
        "checked partition": Case(rows, lambda: _partition(graph), 5, how=payload_damage),
    }


# ---- folders that are used without being verified first ----------------------------------------


def _train_batches(graph: Path, sampler: Sampler, **options: Any) -> None:
    loader = Loader(
        Graph.open(graph),
        None,
        "train",
        4,
        sampler=sampler,
        threads=1,
        **options,
        contents=BatchContents(pyg=False),
    )
    try:
        for batch in loader:
            assert batch.x is not None
    finally:
        loader.close()


def _sample_disk(graph: Path) -> None:
    with DiskTopology(graph, "16MB") as topology:
        topology.sample_bulk(Neighbor([2, 2]), [np.arange(6)], seed=1, threads=1)


def _store(graph: Path) -> None:
    with open_store(Graph.open(graph), memory="1MB") as store:
        assert len(store[[0, 5, 19]]) == 3


def _partition(graph: Path) -> None:
    for block in (0, 1):
        Partition.open(graph, 2, block)
        FeatureBlock.open(graph, 2, block)


def use_cases(graph: Path) -> dict[str, Case]:
    found = {}
    topology, rows = ("indptr", "indices"), ("features", "features_scale")
    uses: list[tuple[str, Callable[[Path], None], tuple[str, ...], int]] = [
        ("Neighbor", _by(Neighbor([2, 2])), (*topology, *rows, "labels", "splits/train"), 3),
        ("weighted Neighbor", _by(Neighbor([2, 2], weights=True)), (*topology, "edge_weight"), 3),
        ("Labor", _by(Labor([2, 2])), topology, 3),
        ("Ladies", _by(Ladies([6, 6])), topology, 3),
        ("FastGCN", _by(FastGCN([6, 6])), topology, 3),
        ("Saint", _by(Saint("edge", 8)), topology, 3),
        ("RandomWalk", _by(RandomWalk(3)), topology, 3),
        ("Full", _by(Full(2)), topology, 3),
        ("batches from disk", _batches_from_disk, (*topology, *rows), 2),
        ("topology on disk", _sample_disk, topology, 4),
        ("rows on disk", _store, rows, 4),
        ("partition", _partition, (*topology, "features"), 6),
    ]
    for what, read, names, weight in uses:
        for name in names:
            path = graph / f"{name}.npy"

            def use(read: Callable[[Path], None] = read) -> None:
                read(graph)

            found[f"{what}, {name}"] = Case(path, use, weight, how=payload_damage)
    meta = graph / "meta.json"
    found["partition, meta.json, mended"] = Case(
        meta, lambda: _partition(graph), 10, mend=with_digest
    )
    return found


def _by(sampler: Sampler) -> Callable[[Path], None]:
    return lambda graph: _train_batches(graph, sampler)


def _batches_from_disk(graph: Path) -> None:
    _train_batches(graph, Neighbor([2, 2]), memory="64MB", storage="disk")
