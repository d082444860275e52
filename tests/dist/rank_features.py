"""What one rank does in the tests of features; the functions are the tasks."""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from foregather import Graph
from foregather.dist import DistSampler, FeatureBlock, FeatureExchange, Grid, Partition
from foregather.dist.forecast.cluster_forecast import Model
from foregather.dist.transport.ledger import total
from foregather.gather.feature_file import FeatureFile
from foregather.gather.store import open_store
from foregather.plan.line import Line
from foregather.sampling import Neighbor
from tests.dist import cases as sampling_cases
from tests.dist import feature_cases as cases


def save(folder: Path, features: Any) -> None:
    ptr, none = np.zeros(len(features) + 1, np.int64), np.empty(0, np.uint32)
    Graph(len(features), 0, ptr, none, features=features).save(folder)


def block_of(stored: str, where: str, grid: Grid, folder: Path) -> FeatureBlock:
    whole = cases.matrix(stored)
    blocks, row = grid.num_rows, grid.row
    block = FeatureBlock.of(whole, blocks, row)
    if where == "memory":
        return block
    if where == "opened":
        return FeatureBlock.open(folder / stored, blocks, row)
    if where == "disk":
        return FeatureBlock.of(open_store(Graph.open(folder / stored), 30_000), blocks, row)
    if where == "file":
        return FeatureBlock.on_disk(Graph.open(folder / stored), blocks, row)
    own = folder / f"{stored}-{where[4:]}-{blocks}-{grid.rank}"  # a folder of the rank's rows only
    save(own, block.rows)
    if where == "own file":
        return FeatureBlock(block.row_starts, row, FeatureFile.of(Graph.open(own)))
    return FeatureBlock(block.row_starts, row, open_store(Graph.open(own), 30_000))


def case(
    grid: Grid,
    channel: Any,
    folder: Path,
    stored: str,
    where: str,
    memory: str | None,
    wire: Any,
    mode: Any,
    ahead: bool,
) -> dict[str, Any]:
    block = block_of(stored, where, grid, folder)
    budget = None if memory is None else cases.MEMORY[memory]
    exchange = FeatureExchange(grid, block, memory=budget, wire=wire, mode=mode, channel=channel)
    whole, off = cases.matrix(stored), 0.0
    found: list[Any] = []
    if budget is not None:
        assert exchange.memory_bytes <= budget
    for bulk in range(cases.BULKS):
        ids = cases.batches(bulk, grid.rank, grid.size)
        later = cases.batches(bulk + 1, grid.rank, grid.size) if ahead and bulk < 2 else []
        exchange.ledger.clear()
        rows = list(exchange.fetch(ids, later))
        exchange.settle()  # the ledger is whole when others have their rows
        assert len(rows) == len(ids)
        low, high = block.first_row, block.first_row + block.num_rows
        for got, wanted in zip(rows, ids, strict=True):
            right = torch.from_numpy(whole[wanted])
            assert got.dtype == right.dtype and got.shape == right.shape
            exact = (wanted >= low) & (wanted < high) if wire != "exact" else wanted >= 0
            assert torch.equal(got[exact], right[exact]), (stored, where, memory, wire, mode)
            if wire != "exact" and len(wanted):
                limit = bound(wire, right)
                assert (np.abs(got.numpy() - right.numpy()) <= limit).all()
                off = max(off, float((got - right).abs().max()))
        sent = exchange.ledger.entries().items()
        found.append([[*link, entry.bytes, entry.messages] for link, entry in sent])
    counts = exchange.fetcher.counts
    error = exchange.error
    if "file" in where:
        check_disk(exchange, block)
    exchange.close()
    return {"ledger": found, "counts": counts, "off": off, "error": [error.largest, error.numbers]}


def check_disk(exchange: FeatureExchange, block: FeatureBlock) -> None:
    """What was read is what was planned; no rows were read that nobody wanted twice."""
    assert exchange.disk is not None
    read = exchange.disk.counters()
    assert read["bytes"] == read["planned_bytes"] > 0
    assert read["requests"] == read["planned_requests"] > 0
    assert read["rows"] > exchange.fetcher.counts["local"] // 4
    held = exchange.disk.share.slots
    assert 0 < held < block.num_rows or len(block.row_starts) == 2, held


def bound(wire: str, right: torch.Tensor) -> np.ndarray:
    """Half a unit in the last place of float16; half a scale of the row for int8."""
    values = np.abs(right.numpy().astype(np.float64))
    if wire == "float16":
        return np.asarray(np.maximum(values * 2.0**-11, 2.0**-25))
    return np.broadcast_to(values.max(axis=1, keepdims=True) / 127 * 0.5001, values.shape)


def features(place: str) -> None:
    """All cases of a world; writes ledgers and counts."""
    folder = Path(place)
    size, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    results: list[Any] = []
    grids: dict[int, Any] = {}
    for option in cases.options(size):
        c = option[0]
        if c not in grids:
            grid = Grid(c, timeout=300)
            grids[c] = grid, grid.channel()
            if c == 1 and rank == 0:
                for stored in ("float32", "scaled"):
                    save(folder / stored, cases.matrix(stored))
            grid.agree("folders are written", "")
        grid, channel = grids[c]
        results.append(case(grid, channel, folder, *option[1:]))
    (folder / f"features{rank}.json").write_text(json.dumps(results))
    for grid, _ in grids.values():
        grid.close()


def overlapped(folder: str) -> None:
    """Fetches read slowly and partly, while this thread makes collectives of its own."""
    with Grid(timeout=300) as grid:
        whole = cases.matrix("float32")
        block = FeatureBlock.of(whole, grid.num_rows, grid.row)
        exchange = FeatureExchange(grid, block, memory=cases.MEMORY["some"])
        total, read = torch.zeros(1), 0
        for bulk in range(cases.BULKS):
            ids = cases.batches(bulk, grid.rank, grid.size)
            rows = exchange.fetch(ids)
            for step in range(3):  # as many on every rank, as training has
                if step < len(ids):
                    assert torch.equal(next(rows), torch.from_numpy(whole[ids[step]]))
                    read += 1
                if grid.rank == 0:
                    time.sleep(0.02)
                one = torch.ones(1)
                dist.all_reduce(one)
                total += one
        Path(folder, f"overlapped{grid.rank}.json").write_text(json.dumps([float(total), read]))


def fetch_forever(folder: str) -> None:
    """Fetches until something goes wrong."""
    with Grid(timeout=300) as grid:
        sampling_cases.impatient(grid, 8.0)
        block = FeatureBlock.of(cases.matrix("float32"), grid.num_rows, grid.row)
        exchange = FeatureExchange(grid, block, memory=cases.MEMORY["few"])
        for number in range(100_000):
            if number == 2:
                print("under way", flush=True)
            for _ in exchange.fetch(cases.batches(0, grid.rank, grid.size)):
                time.sleep(0.01)


def wrong_memory(folder: str) -> None:
    """Ranks with different budgets are told so."""
    with Grid(timeout=300) as grid:
        block = FeatureBlock.of(cases.matrix("float32"), grid.num_rows, grid.row)
        FeatureExchange(grid, block, memory=cases.MEMORY["all"] + grid.rank)


def too_large(folder: str) -> None:
    """A number that float16 cannot hold."""
    with Grid(timeout=300) as grid:
        sampling_cases.impatient(grid, 8.0)
        whole = cases.matrix("float32").data.copy()
        whole[:, 0] = 1e6
        block = FeatureBlock.of(whole, grid.num_rows, grid.row)
        exchange = FeatureExchange(grid, block, memory="20MB", wire="float16")
        next(exchange.fetch([np.arange(cases.ROWS)]))


def epoch(folder: str) -> None:
    """An epoch of sampling and features in both modes; writes bytes and messages of all ranks."""
    sampler_rule, graph = epoch_rule(), sampling_cases.graph("plain")
    found: dict[str, Any] = {}
    for c in [c for c in (1, 2) if int(os.environ["WORLD_SIZE"]) % (c * c) == 0]:
        grid = Grid(c, timeout=300)
        part = Partition.of(graph, grid.num_rows, grid.row)
        block = FeatureBlock.of(
            cases.matrix("float32").data[: graph.num_nodes], grid.num_rows, grid.row
        )
        model = epoch_model(grid.size, c)
        for mode in ("default", "paper"):
            sampler = DistSampler(
                sampler_rule, part, grid, mode="owner" if mode == "default" else "paper"
            )
            exchange = FeatureExchange(
                grid, block, memory=model.memory, mode="planned" if mode == "default" else "paper"
            )
            bulks: list[Any] = []
            for number in range(model.epoch_bulks):
                batches = model.numbers(grid.rank, number)
                first = number * grid.size * model.bulk + grid.rank
                seeds = [model.seeds_of(b) for b in batches]
                bulks.append(
                    sampler.sample_bulk(seeds, seed=model.seed, first_batch=first, step=grid.size)
                )
            for bulk, later in zip(bulks, [*bulks[1:], []], strict=True):
                assert len(list(exchange.fetch(bulk, later))) == len(bulk)
            exchange.settle()
            for name, ledger in (("sampling", sampler.ledger), ("features", exchange.ledger)):
                entry = total(grid.gather_ledger(ledger))
                found[f"{c} {mode} {name}"] = [entry.bytes, entry.messages]
    Path(folder, f"epoch{grid.rank}.json").write_text(json.dumps(found))


def epoch_rule() -> Neighbor:
    return Neighbor([4, 3, 2])


def epoch_model(size: int, c: int) -> Model:
    """An epoch of 11 minibatches: bulks and ranks do not come out even."""
    graph = sampling_cases.graph("plain")
    seeds = np.random.default_rng(8).permutation(graph.num_nodes)[:105]
    return Model(
        graph,
        epoch_rule(),
        seeds,
        size,
        c,
        Line.parse("1GB/s,10us"),
        batch_size=10,
        bulk=2,
        row_bytes=4 * cases.WIDTH,
        memory=cases.MEMORY["some"],
        seed=4,
    )
