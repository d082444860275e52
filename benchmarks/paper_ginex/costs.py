"""costs: what planning takes of an epoch, what trace files would take, and the neighbour cache."""

import time
from typing import Any

import numpy as np
from common.executed import recut, run_trace
from common.facts import Facts
from common.figures import Figure, Holds, Series

from foregather.gather.feature_file import FeatureFile
from foregather.observe.calibration import load_calibration
from foregather.plan.baselines.peers import degree_score, held_lists
from foregather.plan.cost import ASSUMED_DISK
from foregather.sampling.hot import scores
from foregather.units import format_bytes

from .cases import FANOUT, NAMES, get_case, in_degrees, named
from .end_to_end import COMMAND, LABELS, epochs, middle

__all__ = ["cost", "neighbour_cache", "planning_share", "trace_files"]

SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)
SUPERBATCH = 128


def planned(quick: bool) -> list[list[Any]]:
    """Graph, policy, seconds of sampling, planning and gathering a batch, and its rows."""
    made = []
    for name in NAMES:
        case = get_case(name, quick)
        count = 32 if quick else 128
        begin = time.perf_counter()
        trace = case.trace(count, 32)
        sampling = (time.perf_counter() - begin) / count
        file, slots = FeatureFile.of(case.graph), case.graph.num_nodes // 10
        disk = load_calibration(case.folder)
        asked = sum(len(one) for bulk in trace for one in bulk) / count
        for way, label in (("ginex", "Ginex's policy"), ("ours", "foregather")):
            given = recut(trace, count) if way == "ginex" else trace
            one = run_trace(way, given, file, slots, disk)
            made.append([name, label, sampling, one.planning, one.seconds, asked])
    return made


def planning_share(facts: Facts, quick: bool) -> Figure:
    """Planning beside sampling and gathering, by policy."""
    rows, labels = [], list(NAMES)
    lines: dict[str, list[float]] = {"Ginex's policy": [], "foregather": []}
    for name, label, sampling, planning, gather, asked in facts(planned, quick):
        share = planning / (sampling + planning + gather)
        lines[label].append(100 * share)
        parts = [f"{1000 * s:.2f}" for s in (sampling, planning, gather)]
        rows.append([name, label, *parts, f"{share:.1%}", f"{asked / planning / 1e6:.1f}"])
    most = max(max(values) for values in lines.values())
    return Figure(
        key="planning_share",
        paper="ginex",
        title="Planning as a share of the work",
        setting="Four graphs, a tenth of the rows in the cache; sampling in memory by our sampler, "
        "planning on one core, gathering from disk, one after the other. A Loader plans the next "
        "bulk while this one runs.",
        published=[],
        x_label="graph",
        y_label="planning, % of the three",
        kind="bars",
        series=[Series(label, [*labels], values) for label, values in lines.items()],
        columns=[
            *("graph", "policy", "sampling ms", "planning ms", "gather ms"),
            *("share", "M rows planned/s"),
        ],
        rows=rows,
        holds="yes" if most < 25 else "partly",
        explanation=f"Planning takes at most {most:.1f} % of sampling, planning and "
        "gathering, without overlap.",
        command=COMMAND,
    )


def traced(quick: bool) -> list[list[Any]]:
    """Graph, ids and edges of a batch, batches of an epoch, and the disk's sequential rates."""
    disk, made = load_calibration(get_case("communities", quick).folder) or ASSUMED_DISK, []
    for name in NAMES:
        case = get_case(name, quick)
        samples = case.samples(32 if quick else SUPERBATCH)
        ids = sum(len(sample.node) for sample in samples) / len(samples)
        edges = sum(sample.row.size for sample in samples) / len(samples)
        batches = case.graph.num_nodes / case.batch
        made.append([name, ids, edges, batches, disk.sequential_write, disk.sequential_read])
    return made


def trace_files(facts: Facts, quick: bool) -> Figure:
    """Bytes that a superbatch would write, by the sizes of its samples: 8 an id, 16 an edge."""
    rows, values, size = [], [], SUPERBATCH
    for name, ids, edges, batches, write, read in facts(traced, quick):
        total = int(size * (8 * ids + 16 * edges))
        epoch = int(total * batches / size)
        values.append(total / 1e6)
        seconds = epoch / write + epoch / read
        rows.append(
            [
                name,
                f"{ids:,.0f}",
                f"{edges:,.0f}",
                format_bytes(total),
                format_bytes(epoch),
                f"{seconds:.2f}",
                "0",
            ]
        )
    return Figure(
        key="trace_files",
        paper="ginex",
        title="Trace files, which ours does not write",
        setting=f"Superbatches of {size} batches, an epoch over all nodes; ids and both ends of an "
        "edge with 8 bytes each, as in the authors' code. Computed from sampled batches; seconds "
        "are of writing once and reading once at the disk's sequential rates.",
        published=[],
        x_label="graph",
        y_label="MB of a superbatch",
        kind="bars",
        series=[Series("trace files", [*NAMES], values)],
        columns=[
            *("graph", "ids a batch", "edges a batch", "bytes of a superbatch"),
            *("bytes of an epoch", "seconds of an epoch", "ours"),
        ],
        rows=rows,
        holds="yes",
        explanation="A sample is a pure function of seed, epoch, batch, layer and node, so only "
        "node lists are kept, in memory, for one bulk and the next.",
        command=COMMAND,
    )


def hits(quick: bool) -> dict[str, Any]:
    """Percent of visits that find their list in memory, by how lists are chosen."""
    case = get_case("communities", quick)
    graph = case.graph
    degree, calls = in_degrees(graph), named(graph)
    visits = np.zeros(graph.num_nodes, np.int64)
    for sample in case.samples(64 if quick else 256):
        visits[sample.node[: sample.num_nodes[-2]]] += 1
    width = 8
    ranks = {
        "out-/in-degree (Ginex)": degree_score(calls, degree),
        "visits by degree (ours)": scores(calls, degree, max(FANOUT), 4096 // width),
        "visits of this trace (the best)": visits / (degree + 1.0),
    }
    whole = int(degree.sum()) * width
    lines: dict[str, list[float]] = {}
    for label, score in ranks.items():
        held = [held_lists(score, degree, int(share * whole), width) for share in SHARES]
        lines[label] = [100 * float(visits[one].sum() / visits.sum()) for one in held]
    return {"about": case.about, "whole": whole, "lines": lines}


def neighbour_cache(facts: Facts, quick: bool) -> Figure:
    """Visits that find their list in memory, by how lists are chosen."""
    found, shares = facts(hits, quick), SHARES
    lines, whole = found["lines"], found["whole"]
    rows = [
        [f"{share:.0%}", *(f"{values[k]:.1f}" for values in lines.values())]
        for k, share in enumerate(shares)
    ]
    ginex, ours, best = lines.values()
    lost = [share for share, a, b in zip(shares, ginex, ours, strict=True) if b < a]
    useful = ginex[2] > 100 * shares[2]
    holds: Holds = "no" if not useful else "partly" if lost else "yes"
    behind = [a - b for a, b in zip(ginex, ours, strict=True)]
    return Figure(
        key="neighbour_cache",
        paper="ginex",
        title="Visits whose neighbour list is in memory",
        setting=f"{found['about']}; lists of ids of 8 bytes, memory as a share of all lists "
        f"({format_bytes(whole)}); counted on sampled batches, nothing is timed.",
        published=[],
        x_label="memory, % of all lists",
        y_label="visits that hit, %",
        kind="line",
        series=[Series(label, [100 * s for s in shares], y) for label, y in lines.items()],
        columns=["memory", *lines],
        rows=rows,
        holds=holds,
        explanation=f"With a tenth of the lists in memory {ginex[2]:.0f} % of visits hit by "
        f"Ginex's score and {ours[2]:.0f} % by ours, of {best[2]:.0f} % that the best choice for "
        "this trace reaches. "
        + (
            f"We lose to Ginex's score at {len(lost)} of {len(shares)} sizes, by up to "
            f"{max(behind):.1f} points: ours ranks by the blocks that visits would read, so that "
            "long lists, which span several, count for more than their visits."
            if lost
            else "Ours is not behind Ginex's score at any size."
        ),
        command=COMMAND,
    )


def cost(facts: Facts, quick: bool) -> Figure:
    """Bytes of memory and disk by system; what they cost needs prices of hardware."""
    kept = facts(epochs, quick)
    rows = []
    for label, found in kept["points"]:
        name, _, model = label.partition(", ")
        if model != "SAGE":
            continue
        for system in kept["systems"]:
            last, spent = found[system][-1], middle(found[system])
            if "error" in last or not last.get("peak"):
                continue
            disk = kept["disk"][name] + last.get("written", 0)
            held = last["peak"] * spent / 1e6
            cells = [format_bytes(last["peak"]), format_bytes(disk), f"{held:.1f}"]
            rows.append([name, LABELS[system], *cells, "needs prices"])
    return Figure(
        key="cost",
        paper="ginex",
        title="Cost: bytes of memory and disk",
        setting="The runs with SAGE of the figure of whole systems; memory is the peak of the "
        "process, disk its graph and, for Ginex's way, the files of one superbatch. Topology that "
        "PyG maps with ids of 64 bits is counted as ours has it.",
        published=[],
        x_label="",
        y_label="",
        kind="table",
        series=[],
        columns=["graph", "system", "memory", "disk", "MB s a batch", "cost"],
        rows=rows,
        holds="needs prices",
        explanation="The paper sets throughput against the price of machines. There is no price of "
        "hardware here, so bytes stand in its place: what is held, and for how long a batch holds "
        "it (memory x seconds).",
        command=COMMAND,
    )
