"""The readers that the fuzzer feeds: each with a small good file of what it reads."""

import gzip
import io
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from foregather import Graph, Loader, convert
from foregather.dist.features.feature_block import FeatureBlock
from foregather.dist.sampling.partition import Partition
from foregather.errors import ForegatherError
from foregather.gather.store import open_store
from foregather.graph.convert.reading.npz import ZipArrays
from foregather.graph.convert.sources.text import TextSource
from foregather.graph.integrity.blocks import array_sums
from foregather.graph.on_disk.meta import read_meta
from foregather.graph.on_disk.npy import read_header
from foregather.observe.calibration import BlockRate, Calibration
from foregather.observe.report import charts_of, read_run, write_report
from foregather.observe.trace import Trace
from foregather.pipeline.state import load_state, save_state
from foregather.sampling import (
    Bulk,
    FastGCN,
    Full,
    Labor,
    Ladies,
    Neighbor,
    RandomWalk,
    Saint,
    Sampler,
)
from foregather.sampling.disk import DiskTopology
from foregather.train.checkpoints.checkpoint import _checksum, read_checkpoint, write_checkpoint
from foregather.train.from_settings import make_model
from foregather.train.run_folder import load_model
from foregather.train.settings import Settings, read_settings, write_settings
from tests.fuzz_files import (
    Mend,
    array_bytes,
    damage,
    in_archive,
    in_gzip,
    payload_damage,
    with_checksum,
    with_digest,
)
from tests.helpers_ogb import OgbLayout, tiny_ogb, write_ogb

__all__ = ["Case", "make_cases"]


@dataclass
class Case:
    """A reader, and the file it reads.

    Attributes:
        path: the file that is damaged.
        read: reads it.
        weight: its share of all executions.
        good: what is damaged; None: all of the file.
        mend: makes a file of what was damaged.
        how: damages bytes.
    """

    path: Path
    read: Callable[[], object]
    weight: int
    good: bytes | None = None
    mend: Mend = bytes
    how: Callable[[bytes, random.Random], bytes] = damage
    _whole: bytes = field(init=False)

    def __post_init__(self) -> None:
        self._whole = self.path.read_bytes()
        if self.good is None:
            self.good = self._whole

    def execute(self, number: int, name: str) -> bool:
        """One damaged file; whether it was refused.

        A file is written anew, not over the old one: a map of the last one may still be there.
        """
        self.path.unlink(missing_ok=True)
        rng = random.Random(f"{name} {number}")
        self.path.write_bytes(self.mend(self.how(self.good or b"", rng)))
        try:
            self.read()
        except ForegatherError:
            return True
        finally:
            self.path.unlink(missing_ok=True)
            self.path.write_bytes(self._whole)
        return False


def make_cases(folder: Path) -> dict[str, Case]:
    """Every reader of files, by a name that says what it reads."""
    graph = _graph(folder)
    return {
        **_folder_cases(graph),
        **_check_cases(graph.with_name("checked")),
        **_use_cases(graph),
        **_source_cases(folder),
        **_ogb_cases(folder, "csv"),
        **_ogb_cases(folder, "binary"),
        **_bulk_cases(folder, graph),
        **_state_cases(folder, graph),
        **_run_cases(folder),
    }


# ---- graph folders -----------------------------------------------------------------------------


def _graph(folder: Path) -> Path:
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


def _folder_cases(graph: Path) -> dict[str, Case]:
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


def _check_cases(graph: Path) -> dict[str, Case]:
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


def _train_batches(graph: Path, sampler: Sampler, **options: object) -> None:
    loader = Loader(
        Graph.open(graph), None, "train", 4, sampler=sampler, threads=1, pyg=False, **options
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


def _use_cases(graph: Path) -> dict[str, Case]:
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


# ---- what others wrote -------------------------------------------------------------------------


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


def _convert(source: Path, **options: object) -> None:
    target = source.parent / "converted"
    try:
        convert(source, target, memory="2GB", threads=1, **options)
    finally:
        shutil.rmtree(target, ignore_errors=True)


def _source_cases(folder: Path) -> dict[str, Case]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    pairs = rng.integers(0, 20, (2, 60))
    csv, packed = folder / "edges.csv", folder / "edges.txt.gz"
    csv.write_text("source,target\n" + "1,2\n3,4\n" * 6)
    names = folder / "names.tsv"
    names.write_text("from\tto\tweight\n" + "a\tb\t1.5\nb\tc\t2\n" * 3)
    text = b"# c\n1 2\n3 4\n" * 9
    packed.write_bytes(gzip.compress(text, mtime=0))
    stored, compressed = folder / "arrays.npz", folder / "packed.npz"
    arrays = {
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

    return {
        "edge list": Case(csv, lambda: _read_text(csv), 60),
        "edge list, converted": Case(csv, lambda: _convert(csv), 4),
        "edge list of names, converted": Case(
            names, lambda: _convert(names, ids="string", weight="weight"), 4
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


def _ogb_cases(folder: Path, layout: OgbLayout) -> dict[str, Case]:
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


# ---- what foregather itself leaves -------------------------------------------------------------


def _read_bulk(path: Path) -> None:
    bulk = Bulk.load(path)
    assert bulk.digest and bulk.summary()


def _bulk_cases(folder: Path, graph: Path) -> dict[str, Case]:
    path = folder / "bulk.npz"
    seeds = [np.arange(4), np.array([7, 7, 8])]
    Neighbor([2, 2]).sample_bulk(Graph.open(graph), seeds, seed=3).save(path)
    found = {"bulk": Case(path, lambda: _read_bulk(path), 10)}
    members = ("head", "seed", "0.node", "0.num_nodes", "0.row", "1.num_edges", "1.once")
    for member in members:
        good, mend = in_archive(path, f"{member}.npy")
        found[f"bulk, inside {member}"] = Case(path, lambda: _read_bulk(path), 4, good, mend)
    return found


def _state_cases(folder: Path, graph: Path) -> dict[str, Case]:
    config = folder / "config.toml"
    config.write_text(write_settings(Settings(graph="g")))
    state = {"model": {"w": torch.ones(4, 3)}, "list": [1, (2.5, None)], "map": {1: "a"}}
    checkpoint = write_checkpoint(folder, 1, 2, state)
    from safetensors import safe_open

    with safe_open(checkpoint, "pt") as file:
        text = file.metadata()["state"].encode()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    whole = folder / "full.safetensors"
    moments = {"0.weight/step": torch.ones(1)}
    save_state({"epoch": 3, "weights": {"0.weight": torch.ones(2, 3)}, "optimizer": moments}, whole)
    rates = (BlockRate(4096, 1e5, 64), BlockRate(65536, 4e4, 32))
    disk = folder / "disk.json"
    Calibration(
        "vda", "ext4", "io_uring", 512, "2026-11-16", 1 << 20, rates, 1e-4, 1e9, 1e9, ("a",)
    ).save(disk)
    return {
        "config.toml": Case(config, lambda: read_settings(config), 20),
        "checkpoint": Case(checkpoint, lambda: read_checkpoint(checkpoint), 30),
        "checkpoint, mended": Case(
            checkpoint,
            lambda: read_checkpoint(checkpoint),
            30,
            text,
            with_checksum(tensors, _checksum),
        ),
        "full-graph state": Case(whole, lambda: load_state(whole), 30),
        "disk calibration": Case(disk, lambda: Calibration.load(disk), 40),
    }


def _read_report(run: Path) -> None:
    facts = read_run(run)
    charts_of(facts)
    write_report(run, facts)


def _run_cases(folder: Path) -> dict[str, Case]:
    from safetensors.torch import save

    run = folder / "run"
    run.mkdir()
    settings = Settings(graph="g")
    (run / "config.toml").write_text(write_settings(settings))
    names = ("epoch", "loss", "train", "seconds", "waited", "bytes", "rows", "hits", "peak_memory")
    record = {name: 1.5 for name in names} | {"stages": {"wait": 1}, "valid": 1, "blocks": 2}
    (run / "metrics.jsonl").write_text(json.dumps(record | {"block_bound": 2}) + "\n")
    (run / "summary.json").write_text('{"test": 0.5, "valid": 0.5, "best_epoch": 1}')
    (run / "curve.json").write_text('[{"memory": 1, "blocks": 2, "bound": -1}]')
    shape = {"width": 3, "classes": 2}
    facts = {
        "model": shape,
        "threads": 1,
        "graph": {"digest": "0", "text": ""},
    }
    (run / "environment.json").write_text(json.dumps(facts))
    model = make_model(settings, **shape)
    (run / "model.safetensors").write_bytes(save(model.state_dict()))
    with Trace() as trace:
        trace.add("wait", 0.0, 1.0)
    trace.write(run / "trace.json")
    reported = ("metrics.jsonl", "summary.json", "curve.json", "trace.json")
    loaded = ("environment.json", "model.safetensors", "config.toml")
    return {
        **{f"report, {name}": Case(run / name, lambda: _read_report(run), 4) for name in reported},
        **{f"model, {name}": Case(run / name, lambda: load_model(run), 6) for name in loaded},
    }
