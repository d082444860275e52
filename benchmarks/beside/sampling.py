"""sampling: how long does a minibatch take to be sampled and renumbered, without its features?

PyG's rule expands a node once, DGL's the whole frontier of each layer, so ours runs by both, each
beside the peers of its rule. Threads of ours and of DGL are given; pyg-lib has one for a minibatch,
so on two threads two Python threads call it at once.
"""

import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from foregather.sampling import Neighbor

from .found import Peers
from .graphs import Case
from .rounds import Bar, Cell, Row, Turn, Work, compare, show, spread_of, take_turns

__all__ = ["FANOUTS", "measure_sampling", "measure_weighted"]

FANOUTS, SEEDS = [15, 10, 5], 1024
Seeds = list[npt.NDArray[np.int64]]
OURS = "foregather, bulk 8"


def ours(case: Case, seeds: Seeds, rule: Neighbor, threads: int, bulk: int = 8) -> Work:
    """Our sampler, a bulk after the other; each is dropped before the next."""

    def turn(number: int) -> Turn:
        nodes = edges = 0
        begin = perf_counter()
        for first in range(0, len(seeds), bulk):
            made = rule.sample_bulk(
                case.graph,
                seeds[first : first + bulk],
                seed=0,
                epoch=number,
                first_batch=first,
                threads=threads,
            )
            for one in made:
                nodes, edges = nodes + len(one.node), edges + len(one.row)
            del made, one
        return Turn(perf_counter() - begin, len(seeds), nodes, edges)

    return turn


def pyg_lib(case: Case, seeds: Seeds, weights: Any, threads: int) -> Work:
    """pyg-lib's kernel, called by several Python threads; it releases the interpreter's lock."""
    colptr = torch.from_numpy(case.graph.indptr)
    row = torch.from_numpy(case.graph.indices.astype(np.int64))
    given = [torch.from_numpy(part) for part in seeds]
    weight = None if weights is None else torch.from_numpy(weights)

    def sample(part: torch.Tensor) -> tuple[int, int]:
        made = torch.ops.pyg.neighbor_sample(
            colptr, row, part, FANOUTS, None, None, None, weight,
            True, False, True, False, "uniform", True,
        )  # fmt: skip
        return len(made[2]), len(made[0])

    return calls(sample, given, threads)


def torch_sparse(case: Case, seeds: Seeds) -> Work:
    """torch-sparse's kernel."""
    colptr = torch.from_numpy(case.graph.indptr)
    row = torch.from_numpy(case.graph.indices.astype(np.int64))
    given = [torch.from_numpy(part) for part in seeds]

    def sample(part: torch.Tensor) -> tuple[int, int]:
        made = torch.ops.torch_sparse.neighbor_sample(colptr, row, part, FANOUTS, False, True)
        return len(made[0]), len(made[1])

    return calls(sample, given, 1)


def calls(
    sample: Callable[[torch.Tensor], tuple[int, int]], given: list[torch.Tensor], threads: int
) -> Work:
    """One call a minibatch."""

    def turn(number: int) -> Turn:
        begin = perf_counter()
        if threads == 1:
            made = [sample(part) for part in given]
        else:
            with ThreadPoolExecutor(threads) as pool:
                made = list(pool.map(sample, given))
        seconds = perf_counter() - begin
        return Turn(seconds, len(given), sum(m[0] for m in made), sum(m[1] for m in made))

    return turn


def dgl_works(
    peers: Peers, case: Case, seeds: Path, threads: int, variants: tuple[tuple[str, str], ...]
) -> dict[str, Work]:
    """DGL and GraphBolt by kinds of ids and ways to sample; the best of each is its figure."""
    process = peers.dgl.get(threads)
    if process is None:
        return {}
    works = {}
    for system, ids in variants:
        # DGL's fused sampler is for several threads; on one it takes the other way by itself. With
        # ids of 32 bits it returned 6 % fewer nodes than all others, so it is not the same work.
        fuses = system == "dgl" and threads > 1 and ids == "int64"
        for fused in (True, False) if fuses else (False,):
            label = {"dgl": "DGL", "gb": "GraphBolt"}[system]
            name = f"{label}, {ids}" + (", fused" if fused else "")
            works[name] = process.work(
                f"sampling {case.name} {name}",
                "sampling",
                system=system,
                ids=ids,
                fused=fused,
                folder=str(case.folder),
                seeds=str(seeds),
                fanouts=FANOUTS,
            )
    return works


VARIANTS = (("dgl", "int64"), ("dgl", "int32"), ("gb", "int64"), ("gb", "int32"))


def write_seeds(case: Case, seeds: Seeds, name: str) -> Path:
    """The seeds as a file for other processes."""
    path = case.folder / f"seeds_{name}.npy"
    np.save(path, np.stack(seeds))
    return path


def measure_sampling(case: Case, peers: Peers, rounds: int, batches: int) -> list[Row]:
    """Rows of both rules on one and two threads, and what the second thread gives."""
    size = min(SEEDS, case.nodes // (4 * batches))
    seeds = case.seeds(batches, size)
    path = write_seeds(case, seeds, "sampling")
    once, layered = Neighbor(FANOUTS), Neighbor(FANOUTS, expand="per-layer")
    large = case.nodes >= 10_000_000
    rows: list[Row] = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        works = {
            OURS: ours(case, seeds, once, threads),
            "foregather, bulk 1": ours(case, seeds, once, threads, 1),
        }
        if peers.kernel:
            works["pyg-lib"] = pyg_lib(case, seeds, None, threads)
        if peers.sparse and threads == 1 and not large:
            works["torch-sparse"] = torch_sparse(case, seeds)
        bars = [Bar("pyg-lib", 10)] if large else []
        label = f"{case.name}, {threads} thread{'s' * (threads > 1)}"
        rows += compare(Cell("sampling", f"{label}, a node once", OURS, works, bars), rounds)
        works = {OURS: ours(case, seeds, layered, threads)}
        works |= dgl_works(peers, case, path, threads, VARIANTS)
        rows += compare(Cell("sampling", f"{label}, per layer", OURS, works), rounds)
        if threads in peers.dgl:
            peers.dgl[threads].drop()  # four copies of the graph
    gains = measure_gain(case, seeds, once, rounds)
    show(gains)
    return rows + gains


def measure_gain(case: Case, seeds: Seeds, rule: Neighbor, rounds: int) -> list[Row]:
    """What the second thread gives, for bulks of eight minibatches and of one."""
    works = {
        f"{bulk}, {threads}": ours(case, seeds, rule, threads, bulk)
        for bulk in (8, 1)
        for threads in (1, 2)
    }
    found = take_turns(works, rounds)
    rows: list[Row] = []
    for bulk in (8, 1):
        one, two = ([turn.seconds for turn in found[f"{bulk}, {n}"]] for n in (1, 2))
        gain = [a / b for a, b in zip(one, two, strict=True)]
        bar = Bar("", 1.8).text(statistics.median(gain))
        name = f"foregather, bulk {bulk}: one thread over two"
        rows.append(["sampling", case.name, name, "", spread_of(gain), "", bar, ""])
    return rows


def weights_of(case: Case) -> dict[str, npt.NDArray[np.float32]]:
    """Even weights and skewed ones."""
    rng, count = np.random.default_rng(2), case.graph.num_edges
    return {
        "even": 1 - rng.random(count, np.float32),  # (0, 1]
        "log-normal": np.exp(2 * rng.standard_normal(count, np.float32)),
    }


def measure_weighted(case: Case, peers: Peers, rounds: int, batches: int) -> list[Row]:
    """Weighted sampling on one thread, of each system over its own uniform one, and beside ours."""
    size = min(SEEDS, case.nodes // (4 * batches))
    seeds = case.seeds(batches, size)
    path = write_seeds(case, seeds, "weighted")
    torch.set_num_threads(1)
    rows: list[Row] = []
    for kind, weights in weights_of(case).items():
        file = case.folder / f"weights_{kind}.npy"
        np.save(file, weights)
        name = f"foregather, {kind}"
        works = {
            name: ours(case, seeds, Neighbor(FANOUTS, weights=weights), 1),
            "foregather, uniform": ours(case, seeds, Neighbor(FANOUTS), 1),
        }
        if peers.kernel:
            works[f"pyg-lib, {kind}"] = pyg_lib(case, seeds, weights, 1)
            works["pyg-lib, uniform"] = pyg_lib(case, seeds, None, 1)
        bars = [Bar("foregather, uniform", 1.7, "most")]
        label = f"{case.name}, 1 thread, a node once, {kind} weights"
        rows += compare(Cell("weighted", label, name, works, bars), rounds)
        works = weighted_per_layer(case, peers, seeds, path, weights, file)
        if len(works) > 1:
            label = label.replace("a node once", "per layer")
            rows += compare(Cell("weighted", label, OURS, works), rounds)
    return rows


def weighted_per_layer(
    case: Case, peers: Peers, seeds: Seeds, path: Path, weights: Any, file: Path
) -> dict[str, Work]:
    rule = Neighbor(FANOUTS, weights=weights, expand="per-layer")
    works = {OURS: ours(case, seeds, rule, 1)}
    for system, label in (("dgl", "DGL"), ("gb", "GraphBolt")) if peers.dgl else ():
        works[label] = peers.dgl[1].work(
            f"weighted {case.name} {label} {file.name}",
            "sampling",
            system=system,
            ids="int64",
            fused=False,
            folder=str(case.folder),
            seeds=str(path),
            fanouts=FANOUTS,
            weights=str(file),
        )
    return works
