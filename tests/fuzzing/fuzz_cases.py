"""The readers that the fuzzer feeds: all of them, and those of what foregather itself leaves."""

import json
from pathlib import Path

import numpy as np
import torch

from foregather import Graph
from foregather.graph.hetero import HeteroGraph
from foregather.observe.calibration import BlockRate, Calibration
from foregather.observe.report import charts_of, read_run, write_report
from foregather.observe.trace import Trace
from foregather.pipeline.state import load_state, save_state
from foregather.sampling import Bulk, HeteroBulk, HeteroNeighbor, Neighbor
from foregather.train.checkpoints.checkpoint import _checksum, read_checkpoint, write_checkpoint
from foregather.train.runs.run_folder import load_model
from foregather.train.settings import Settings, read_settings, write_settings
from foregather.train.settings.from_settings import make_model
from tests.fuzzing.fuzz_case import Case
from tests.fuzzing.fuzz_files import in_archive, with_checksum
from tests.fuzzing.fuzz_folders import check_cases, folder_cases, use_cases, write_folder
from tests.fuzzing.fuzz_sources import ogb_cases, source_cases
from tests.fuzzing.fuzz_typed import typed_cases

__all__ = ["Case", "make_cases"]


def make_cases(folder: Path) -> dict[str, Case]:
    """Every reader of files, by a name that says what it reads."""
    graph = write_folder(folder)
    return {
        **folder_cases(graph),
        **check_cases(graph.with_name("checked")),
        **use_cases(graph),
        **typed_cases(folder),
        **source_cases(folder),
        **ogb_cases(folder, "csv"),
        **ogb_cases(folder, "binary"),
        **_bulk_cases(folder, graph),
        **_state_cases(folder, graph),
        **_run_cases(folder),
    }


def _read_bulk(path: Path) -> None:
    bulk = Bulk.load(path)
    assert bulk.digest and bulk.summary()


def _read_typed_bulk(path: Path) -> None:
    bulk = HeteroBulk.load(path)
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
    typed = folder / "typed_bulk.npz"
    own = HeteroGraph.from_graph(Graph.open(graph))
    rule = HeteroNeighbor([2, 2], disjoint=True)
    rule.sample_bulk(own, {"node": seeds}, rows={"node": seeds}, seed=3).save(typed)
    found["typed bulk"] = Case(typed, lambda: _read_typed_bulk(typed), 10)
    for member in ("head", "names", "0.nodes.0.tree", "0.edges.0.row", "1.edges.0.num_edges"):
        good, mend = in_archive(typed, f"{member}.npy")
        case = Case(typed, lambda: _read_typed_bulk(typed), 4, good, mend)
        found[f"typed bulk, inside {member}"] = case
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
    write_report(facts)


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
