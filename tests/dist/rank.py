"""What one rank of a test world does; the functions are the tasks."""

import atexit
import ctypes
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from foregather import Features, Graph
from foregather.dist import DistSampler, FeatureBlock, FeatureExchange, Grid, Partition
from foregather.dist.transport import rank_grid as grid_module
from foregather.dist.transport.ledger import Ledger
from foregather.errors import ForegatherError
from foregather.sampling.bulk import Bulk, Sample
from tests.dist import (
    cases,
    ddp_program,
    rank_agree,
    rank_command,
    rank_features,
    rank_leaves,
    rank_links,
    rank_lists,
    rank_table,
    rank_train,
)

T = TypeVar("T", int, float, str)


def option(name: str, default: T) -> T:
    kind: Any = type(default)
    return cast(T, kind(os.environ.get(name, default)))


def sampler_of(
    graph: Graph, grid: Grid, rule: str, topology: str = "owner", **options: Any
) -> DistSampler:
    whole = topology == "replicated"
    part = graph if whole else Partition.of(graph, grid.num_rows, grid.row)
    mode: Literal["owner", "paper"] = "paper" if topology == "paper" else "owner"
    return DistSampler(cases.SAMPLERS[rule], part, grid, mode=mode, **options)


def own_bulk(sampler: DistSampler, graph: Graph, bulk: int, pending: bool = False) -> Any:
    grid = sampler.grid
    batches = cases.deal(bulk, grid.size, grid.rank)
    call: Callable[..., Any] = sampler.sample_bulk_async if pending else sampler.sample_bulk
    return call(
        cases.seeds(graph, batches),
        seed=cases.SEED,
        epoch=cases.EPOCH,
        first_batch=grid.rank,
        step=grid.size,
    )


def digests(made: Iterable[Sample]) -> dict[int, str]:
    return {sample.batch: Bulk([sample], 0, 0, 0).digest for sample in made}


def same(folder: str) -> None:
    """All cases of a world; writes digests and ledgers."""
    results: list[Any] = []
    grids: dict[int, Grid] = {}
    channels: dict[int, Any] = {}
    samplers: dict[Any, DistSampler] = {}
    graphs: dict[str, Graph] = {}
    for name, c, topology, bulk, rule in cases.matrix(option("WORLD_SIZE", 1)):
        if c not in grids:
            grids[c] = Grid(c, timeout=300)
            channels[c] = grids[c].channel()
        if name not in graphs:
            graphs[name] = cases.graph(name)
        key = (name, c, topology, rule)
        if key not in samplers:
            samplers[key] = sampler_of(graphs[name], grids[c], rule, topology, channel=channels[c])
        sampler = samplers[key]
        sampler.ledger.clear()
        made = own_bulk(sampler, graphs[name], bulk)
        sent = sampler.ledger.entries().items()
        results.append(
            {
                "digests": digests(made),
                "ledger": [[*link, entry.bytes, entry.messages] for link, entry in sent],
            }
        )
    Path(folder, f"same{os.environ['RANK']}.json").write_text(json.dumps(results))
    for grid in grids.values():
        grid.close()


def overlap(folder: str) -> None:
    """Bulks in the background while this thread makes collectives of its own."""
    with Grid(timeout=300) as grid:
        graph = cases.graph("plain")
        sampler = sampler_of(graph, grid, "once")
        pending = [own_bulk(sampler, graph, bulk, pending=True) for bulk in (3, 8, 1, 8)]
        total = torch.zeros(1)
        for _ in range(30):
            step = torch.ones(1)
            dist.all_reduce(step)
            total += step
        found = [digests(made.result()) for made in pending]
        table = grid.gather_ledger(sampler.ledger)
        own = sampler.ledger.entries()
        assert own == {link: e for link, e in table.items() if link[0] == grid.rank}
        Path(folder, f"overlap{grid.rank}.json").write_text(
            json.dumps({"total": float(total), "found": found, "links": len(table)})
        )


def meshes(folder: str) -> None:
    """The groups of grids as meshes, made here and given, beside channels that are at work."""
    size, rank = option("WORLD_SIZE", 1), option("RANK", 0)
    found: dict[str, Any] = {}
    graph = cases.graph("plain")
    for c in (c for c in (1, 2) if size % c == 0):
        with Grid(c, timeout=300) as grid:
            sampler = sampler_of(graph, grid, "once")
            pending = own_bulk(sampler, graph, 8, pending=True)
            sums = sums_of(grid.mesh)
            wires = {"column": sampler.channel.column.group, "row": sampler.channel.row.group}
            for name, group in wires.items():
                assert group is sampler.channel.mesh.get_group(name)
                assert group is not grid.mesh.get_group(name)
                limit = group._get_backend(torch.device("cpu")).options._timeout
                assert limit.total_seconds() == 300
            found[f"own {c}"] = [sums, grid.mesh.mesh.tolist(), digests(pending.result())]
        given = init_device_mesh("cpu", (size // c, c), mesh_dim_names=("column", "row"))
        with Grid.from_mesh(given, timeout=300) as grid:
            assert grid.mesh is given and (grid.num_rows, grid.replication) == (size // c, c)
            made = own_bulk(sampler_of(graph, grid, "once"), graph, 8)
            found[f"given {c}"] = [sums_of(given), given.mesh.tolist(), digests(made)]
        assert sums_of(given) == sums  # what was given is not closed
    line = init_device_mesh("cpu", (size,))
    with Grid.from_mesh(line, timeout=300) as grid:
        assert (grid.num_rows, grid.replication) == (size, 1)
    try:
        Grid.from_mesh(DeviceMesh("cpu", list(range(size))[::-1]))
    except ForegatherError as error:
        found["reversed"] = str(error)
    Path(folder, f"meshes{rank}.json").write_text(json.dumps(found))


def slow_to_join(folder: str) -> None:
    """One rank is slow at making the links of a group; the others must not have gone on by then."""
    mark, make = Path(folder, "joined"), dist.new_group

    def make_slowly(*arguments: Any, **options: Any) -> Any:
        group = make(*arguments, **options)
        if len(dist.get_process_group_ranks(group)) > 1:
            time.sleep(2)
            mark.touch()
        return group

    with Grid(timeout=300) as grid:
        if grid.rank == 1:
            cast(Any, dist).new_group = make_slowly
        channel = grid.channel()
        assert mark.exists(), "this rank could have left the group while another was joining it"
        channel.close()


def channels_in_turn(folder: str) -> None:
    """Channels are closed in another order than they were made in."""
    with Grid(timeout=300) as grid:
        first, second = grid.channel(), grid.channel()
        first.close()
        third, fourth = grid.channel(), grid.channel()
        for channel in (second, fourth, third):
            assert channel.row.size == 1
            channel.close()


def sums_of(mesh: DeviceMesh) -> list[int]:
    """Sums of rank + 1 along each dimension."""
    sums = []
    for name in ("column", "row"):
        value = torch.tensor([dist.get_rank() + 1])
        dist.all_reduce(value, group=mesh.get_group(name))
        sums.append(int(value))
    return sums


def forever(folder: str) -> None:
    """Samples until something goes wrong."""
    graph = cases.graph(option("TEST_GRAPH", "plain"))
    with Grid(option("TEST_REPLICATION", 1), timeout=option("TEST_MEETING", 300.0)) as grid:
        cases.impatient(grid, option("TEST_TIMEOUT", 300.0))
        rule = option("TEST_SAMPLER", "once")
        sampler = sampler_of(graph, grid, rule, option("TEST_TOPOLOGY", "owner"))
        for number in range(100_000):
            if number == 3:
                print("under way", flush=True)
                time.sleep(option("TEST_SLEEP", 0.0))
                if option("TEST_BAD_SEEDS", ""):
                    sampler.sample_bulk([np.array([10**6])], seed=1)
            own_bulk(sampler, graph, 8)
            time.sleep(0.01)


def other_version(folder: str) -> None:
    if option("RANK", 0) == 1:
        module: Any = grid_module
        module.version = lambda _: "0.0.1"
    with Grid(timeout=300):
        pass


def wide_features(graph: Graph, width: int) -> Features:
    return Features(np.random.default_rng(1).random((graph.num_nodes, width), np.float32))


def count(folder: str) -> None:
    """Fetches rows between two marks, so that others can count what crosses meanwhile."""
    graph = rank_train.train_graph()
    with Grid(timeout=300) as grid:
        sampler = sampler_of(graph, grid, "once")
        topology: Any = sampler.topology
        starts = topology.row_starts
        block = FeatureBlock.of(wide_features(graph, 600), grid.num_rows, grid.row, starts)
        rows = FeatureExchange(grid, block, mode="paper")
        began = between_marks(folder, grid)
        for _ in range(4):
            for _ in rows.fetch(own_bulk(sampler, graph, 8)):
                pass
        say_counted(folder, grid, [sampler.ledger, rows.ledger], began)


def count_loader(folder: str) -> None:
    """The same from before a Loader is made, whose sampler adds up weights over ranks first."""
    graph = rank_train.train_graph()
    graph = replace(graph, features=wide_features(graph, 4000))
    with Grid(timeout=300) as grid:
        began = between_marks(folder, grid)
        loader = rank_train.loader_of(graph, "fastgcn", 10, 2, grid=grid, mode="owner")
        for _ in loader:
            pass
        ranks = rank_train.ranks_of(loader)
        ranks.gather_ledger()  # all that was asked for has crossed by then
        say_counted(folder, grid, [ranks.sampler.ledger, ranks.rows.ledger], began)


def between_marks(folder: str, grid: Grid) -> float:
    """Says that this rank is ready, and waits until the others count."""
    Path(folder, f"ready{grid.rank}").touch()
    while not Path(folder, "go").exists():
        time.sleep(0.02)
    return time.monotonic()


def say_counted(folder: str, grid: Grid, ledgers: list[Ledger], began: float) -> None:
    """Writes what the ledgers have, and waits until the others have looked."""
    entries = [entry for ledger in ledgers for entry in ledger.entries().values()]
    totals = [sum(e.bytes for e in entries), sum(e.messages for e in entries)]
    part = Path(folder, f"part{grid.rank}")
    part.write_text(json.dumps([*totals, time.monotonic() - began]))
    part.replace(Path(folder, f"done{grid.rank}.json"))
    while not Path(folder, "end").exists():
        time.sleep(0.02)


def enter(namespace: str) -> None:
    """Moves this process, which has one thread, into a network namespace."""
    with open(f"/run/netns/{namespace}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns")


def program(folder: str) -> None:
    """The program of a user, to the end of its process, as Python ends it."""
    code: Any = 0
    try:
        ddp_program.main()
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        code = 1
        sys.excepthook(*sys.exc_info())
    internals: Any = threading
    internals._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main(task: str, folder: str) -> int:
    if namespace := os.environ.get("TEST_NETNS"):
        enter(namespace)
    try:
        tasks = {
            **vars(rank_train),
            **vars(rank_features),
            **vars(rank_leaves),
            **vars(rank_links),
            **vars(rank_lists),
            **vars(rank_command),
            **vars(rank_agree),
            **vars(rank_table),
            **globals(),
        }
        tasks[task](folder)
    except ForegatherError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        return 3
    return 0
