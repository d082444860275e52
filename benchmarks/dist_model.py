"""Does the model of larger clusters say what ranks on slow links do, in bytes and in seconds?

A power-law graph, fan-out [10, 5], real gloo ranks, each in a network namespace of its own whose
link is shaped by tc tbf in both directions. An epoch of sampling (over a partition) and of features
(planned, and by minibatch), in the default mode and in the paper's, one after the other. The model
is given the graph, the grid and the link, measured first: its bandwidth by an exchange of 8 MB a
rank between all ranks, its latency by one of a byte (the middle of 31), and its bandwidth one way
by 8 MB of one rank alone (on these links TCP sends faster while nothing comes back). Bytes and
messages must be equal. Seconds of the model are those of the links alone; measured ones are
wall-clock of the slowest rank, the middle of the repeats with their range, and contain the work of
the ranks too, which is shown as the same epoch without shaping; so the links are slow enough that
they matter. Beyond the grids measured here, what the model says is modelled and not measured.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from common.namespaces import why_not
from common.report import Report, median_spread
from common.skip import skip
from common.world import run_over_links

from foregather import Graph
from foregather.dist import DistSampler, FeatureBlock, FeatureExchange, Grid, Partition
from foregather.dist.forecast.cluster_forecast import Model
from foregather.dist.transport.ledger import total
from foregather.graph.synthetic import synthesize
from foregather.plan.line import Line
from foregather.sampling import Neighbor
from foregather.units import format_bytes

#: Modes of sampling and of the exchange.
MODES = {"default": ("owner", "planned"), "paper": ("paper", "paper")}
WIDTH, PROBE = 64, 8 << 20


def line_of(measured: list[float]) -> Line:
    """From the rate both ways, the latency and the rate one way, as `measure_link` gives them."""
    both, wait, alone = measured
    return Line(wait, both, one_way=alone)


def model_of(graph: Graph, size: int, c: int, link: Line, batches: int) -> Model:
    """What is trained."""
    seeds = np.random.default_rng(0).permutation(graph.num_nodes)[: batches * 256]
    return Model(
        graph,
        Neighbor([10, 5]),
        seeds,
        size,
        c,
        link,
        batch_size=256,
        bulk=4,
        row_bytes=4 * WIDTH,
        memory=graph.num_nodes * 4 * WIDTH // 4 + (16 << 20),
    )


def measure_link(grid: Grid) -> list[float]:
    """Bytes a second of a rank while all send, seconds a message, bytes a second one way."""
    wire, every = grid.channel().column, list(range(grid.num_rows))
    peers = max(1, wire.size - 1)
    small = _swap_seconds(grid, 1, every, 31)
    both = _swap_seconds(grid, PROBE // peers, every, 3)
    alone = _swap_seconds(grid, PROBE // peers, [0], 3)
    return [PROBE / max(1e-9, both - small), small / peers, PROBE / max(1e-9, alone - small)]


def _swap_seconds(grid: Grid, size: int, senders: list[int], repeats: int) -> float:
    """Of an exchange in which some places send `size` bytes to each other; the middle of some."""
    wire, runs = grid.channel().column, []
    for number in range(repeats + 1):
        grid.agree("probe", f"{size} {senders} {number}")
        began = time.perf_counter()
        sizes = [size * (i != wire.place and wire.place in senders) for i in range(wire.size)]
        gets = [size * (i != wire.place and i in senders) for i in range(wire.size)]
        wire.swap(
            np.zeros(sum(sizes), np.uint8), sizes, np.empty(sum(gets), np.uint8), gets, "probe"
        )
        grid.agree("probed", f"{size} {senders} {number}")
        runs.append(time.perf_counter() - began)
    return statistics.median(runs[1:])


def one_rank(folder: Path, c: int, batches: int, repeats: int) -> None:
    """Epochs in each mode, in turns; every rank writes what it found."""
    graph = Graph.open(folder / "graph")
    rows = np.zeros((graph.num_nodes, WIDTH), np.float32)
    with Grid(c, timeout=200) as grid:
        found: dict[str, list] = {"link": measure_link(grid)}
        part = Partition.of(graph, grid.num_rows, grid.row)
        block = FeatureBlock.of(rows, grid.num_rows, grid.row)
        model = model_of(graph, grid.size, c, Line(0.0, 1.0), batches)
        for mode in list(MODES) * repeats:
            for name, sent, messages, took in one_epoch(grid, part, block, model, mode):
                found.setdefault(f"{mode} {name}", [sent, messages, []])[2].append(took)
        (folder / f"found{grid.rank}.json").write_text(json.dumps(found))


def one_epoch(grid: Grid, part: Partition, block: FeatureBlock, model: Model, mode: str) -> list:
    """Part, bytes, messages and seconds of sampling and of features."""
    sampling, fetching = MODES[mode]
    sampler = DistSampler(model.sampler, part, grid, mode=sampling)
    exchange = FeatureExchange(grid, block, memory=model.memory, mode=fetching)
    grid.agree("start", mode)
    began, bulks = time.perf_counter(), []
    for number in range(model.epoch_bulks):
        seeds = [model.seeds_of(b) for b in model.numbers(grid.rank, number)]
        first = number * grid.size * model.bulk + grid.rank
        bulks.append(sampler.sample_bulk(seeds, seed=0, first_batch=first, step=grid.size))
    grid.agree("sampled", mode)
    middle = time.perf_counter()
    for bulk, later in zip(bulks, [*bulks[1:], None], strict=True):
        for _ in exchange.fetch(bulk, later):
            pass
    exchange.settle()
    grid.agree("fetched", mode)
    ended = time.perf_counter()
    made = []
    for name, ledger, took in (
        ("sampling", sampler.ledger, middle - began),
        ("features", exchange.ledger, ended - middle),
    ):
        sent = total(grid.gather_ledger(ledger))
        made.append((name, sent.bytes, sent.messages, took))
    exchange.close()
    sampler.close()
    return made


def run_world(size: int, rate: str | None, folder: Path, arguments: list[str]) -> dict:
    """One world in namespaces: the middle of the ranks' links, the slowest of their seconds."""
    run_over_links(__file__, size, rate, ["--folder", str(folder), *arguments], 500)
    parts = [json.loads((folder / f"found{rank}.json").read_text()) for rank in range(size)]
    found = {
        name: [*parts[0][name][:2], np.max([part[name][2] for part in parts], axis=0).tolist()]
        for name in parts[0]
        if name != "link"
    }
    found["link"] = [statistics.median(part["link"][i] for part in parts) for i in range(3)]
    return found


def main() -> None:
    """Compares the model's seconds with measured ones, grid by grid and rate by rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--replication", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=4_000_000)
    parser.add_argument("--batches", type=int, default=32)
    parser.add_argument("--rates", nargs="+", default=["25mbit"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--grids", nargs="+", default=["2x1", "4x1", "4x2"])
    args = parser.parse_args()
    if args.folder:
        one_rank(args.folder, args.replication, args.batches, args.repeats)
        return
    if reason := why_not():
        skip(reason)
    report, rows = Report("dist_model", __doc__), []
    off: list[float] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        synthesize(folder / "graph", args.nodes, edges=args.edges, features=0, classes=2)
        graph = Graph.open(folder / "graph")
        for shape in args.grids:
            size, c = map(int, shape.split("x"))
            options = ["--replication", str(c), "--batches", str(args.batches)]
            options += ["--repeats", str(args.repeats)]
            free = run_world(size, None, folder, options)
            for rate in args.rates:
                found = run_world(size, rate, folder, options)
                made = model_of(graph, size, c, line_of(found["link"]), args.batches).forecast(
                    grid_rows=size, bulks=10**6
                )
                for name in [name for name in found if name != "link"]:
                    sent, messages, took = found[name]
                    mode, part = name.split()
                    cost = getattr(made, mode)[part]
                    assert (cost.bytes, cost.messages) == (sent, messages), (shape, name)
                    off.append(cost.seconds / statistics.median(took) - 1)
                    both, wait, alone = found["link"]
                    speed = (
                        f"{both / 1e6:.3g} MB/s (one way {alone / 1e6:.3g}), {wait * 1e6:.0f} us"
                    )
                    cells = [
                        size,
                        c,
                        f"{rate}: {speed}",
                        mode,
                        part,
                        format_bytes(sent),
                        f"{messages:,}",
                    ]
                    seconds = [median_spread(took), f"{cost.seconds:.2f}"]
                    rows.append([*cells, *seconds, median_spread(free[name][2]), f"{off[-1]:+.0%}"])
                print(*rows[-4:], sep="\n", flush=True)
    head = ["p", "c", "link", "mode", "part", "bytes = model's", "messages", "measured s"]
    report.table([*head, "model's s", "unshaped s", "model off"], rows)
    report.line(
        f"Bytes and messages are equal in all {len(rows)} cells. Within 20 % of the measured "
        f"seconds: {sum(abs(value) <= 0.2 for value in off)} of {len(off)}. The model knows links "
        "only: the more of a part's seconds are the work of the ranks, the more it is below."
    )
    report.write()


if __name__ == "__main__":
    main()
