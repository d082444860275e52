"""worker: one system trains for some seconds, in a process of its own with a limit of memory.

`runs.py` starts it with a JSON object and reads another. The process first imports everything and
makes a step with a toy batch; what it holds then is its base. The limit of its cgroup becomes base
+ a constant for the model + the memory that every system is given: for topology, batches, caches,
tables, and pages of maps.
"""

import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.executed import recut, run_trace
from torch.nn import functional
from torch_geometric.nn import models

from foregather import BatchContents, Graph, Loader
from foregather.gather.disk import STAGING, DiskFeatures
from foregather.gather.feature_file import FeatureFile
from foregather.observe.calibration import load_calibration
from foregather.plan.baselines.policies import Setting, run_policy

from .cases import Case, load_trace, named
from .mapped import Made, by_graphbolt, by_lru, by_map, by_static, mapped_rows, sample

__all__: list[str] = []

HIDDEN, CLASSES = 64, 40
WARM = 16  # batches that are never timed
ROWS: list[float] = []  # seconds in which the rows of each batch were there, where they are known
ROUND = [1, 0]  # batches that the running system makes together, and those it has in flight


class Trainer:
    """PyG's model, trimmed, the same for every system; "none" uses a batch and computes nothing."""

    def __init__(self, kind: str, width: int) -> None:
        torch.manual_seed(0)
        self.kind = kind
        make = {"SAGE": models.GraphSAGE, "GCN": models.GCN}.get(kind, models.GraphSAGE)
        self.model = make(width, HIDDEN, 2, CLASSES)
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def step(self, batch: Made) -> float:
        """Forward, backward and the optimiser."""
        if self.kind == "none" or batch.x is None:
            return 0.0
        self.optimizer.zero_grad()
        scores = self.model(
            batch.x,
            batch.edge_index,
            num_sampled_nodes_per_hop=batch.nodes,
            num_sampled_edges_per_hop=batch.edges,
        )
        loss = functional.cross_entropy(scores[: batch.seeds], batch.n_id[: batch.seeds] % CLASSES)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


class Room:
    """How a system on maps divides its memory."""

    def __init__(self, given: dict[str, Any], graph: Graph) -> None:
        assert graph.features is not None
        self.row = graph.features.width * 4
        self.most = given["most"]
        lists = not given["system"].startswith("rows: ")  # colptr and original ids, beside slots
        tables = (20 if lists else 4) * graph.num_nodes
        self.cache = max(1 << 20, given["memory"] - tables - 3 * self.most * self.row)

    def slots(self, parts: int) -> int:
        """Rows of a feature cache that has one part of so many."""
        return self.cache // parts // self.row


def batches_of(system: str, given: dict[str, Any], case: Case) -> Iterator[Made]:
    """The batches of a system by its name."""
    seeds, fanout = case.seeds(given["count"], given["batch"]), given["fanout"]
    graph, room = case.graph, Room(given, case.graph)
    if system == "ours":
        return ours(given, case, seeds)
    if system == "ginex":
        return ginex(given, case, room, seeds)
    if system == "sampling, lists":
        return sample(case.folder, seeds, fanout, lists=room.cache)
    if system == "sampling":
        return sample(case.folder, seeds, fanout)
    x = mapped_rows(case.folder / "graph" / "features.npy", "random")
    if system.startswith("rows: "):
        return gathered(traced(case.folder), row_reader(system, x, graph, room))
    if system == "PyG+, own gather":
        return sample(case.folder, seeds, fanout, x=x)
    if system == "PyG+":
        return gathered(sample(case.folder, seeds, fanout), by_map(x))
    made = sample(case.folder, seeds, fanout, lists=room.cache // 2)
    if system == "lists, static":
        hot = np.argsort(-named(graph), kind="stable")[: room.slots(2)]
        return gathered(made, by_static(x, hot))
    if system == "lists, LRU":
        return gathered(made, by_lru(x, FeatureFile.of(graph).geometry(), room.slots(2)))
    raise SystemExit(f"{system} is no system")


def traced(folder: Path) -> Iterator[Made]:
    """Batches of a trace that was sampled before: ids only."""
    for bulk in load_trace(folder):
        for ids in bulk:
            n_id = torch.from_numpy(ids.astype(np.int64))
            yield Made(n_id, torch.empty(2, 0, dtype=torch.int64), [], [], 0)


def row_reader(system: str, x: torch.Tensor, graph: Graph, room: Room) -> Any:
    """Ways to the rows of a trace: maps by threads, caches before a map, GraphBolt's reader."""
    if system == "rows: static":
        return by_static(x, np.argsort(-named(graph), kind="stable")[: room.slots(1)])
    file = FeatureFile.of(graph)
    if system == "rows: LRU":
        return by_lru(x, file.geometry(), room.slots(1))
    if system == "rows: GraphBolt":
        return by_graphbolt(file, room.slots(1))
    return by_map(x, {"rows: 64 threads": 64, "rows: 2 threads": 2}[system])


def gathered(batches: Iterator[Made], gather: Any) -> Iterator[Made]:
    for batch in batches:
        begin = time.perf_counter()
        batch.x = gather(batch.n_id)
        ROWS.append(time.perf_counter() - begin)
        yield batch


def ours(given: dict[str, Any], case: Case, seeds: list[Any]) -> Iterator[Made]:
    """Our Loader within the memory."""
    loader = Loader(
        case.graph, given["fanout"], np.concatenate(seeds), len(seeds[0]), bulk=given["bulk"],
        memory=given["memory"], storage=given["storage"], contents=BatchContents(labels="seeds"),
    )  # fmt: skip
    if loader.layout is not None:
        print(loader.layout, file=sys.stderr)
        ROUND[:] = [loader.layout.bulk, loader.layout.bulk + loader.prefetch]
    for batch in loader:
        sizes = (list(batch.num_sampled_nodes), list(batch.num_sampled_edges))
        yield Made(batch.n_id, batch.edge_index, *sizes, batch.batch_size, batch.x)


def ginex(given: dict[str, Any], case: Case, room: Room, seeds: list[Any]) -> Iterator[Made]:
    """Its way, superbatch after superbatch; each begins with an empty cache."""
    size = given["superbatch"]
    ROUND[:] = [size, 0]
    for first in range(0, len(seeds) - size + 1, size):
        yield from superbatch(given, case, room, seeds[first : first + size])


def superbatch(given: dict[str, Any], case: Case, room: Room, seeds: list[Any]) -> Iterator[Made]:
    """Sample a superbatch into files, switch, plan by Belady, read the missed rows."""
    file = FeatureFile.of(case.graph)
    files, lists = case.folder / "superbatch", []
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir()
    for k, batch in enumerate(sample(case.folder, seeds, given["fanout"], lists=room.cache)):
        lists.append(batch.n_id.numpy().astype(np.uint32))
        np.save(files / f"ids_{k}.npy", batch.n_id.numpy())
        np.save(files / f"edges_{k}.npy", batch.edge_index.numpy())
        (files / f"sizes_{k}.json").write_text(json.dumps([batch.nodes, batch.edges]))
    most = max(map(len, lists))
    spare = given["memory"] - STAGING - 2 * most * file.row_bytes - sum(map(len, lists)) * 12
    slots = max(1, (spare - 4 * case.graph.num_nodes) // file.row_bytes)
    (plan,) = run_policy("ginex", [lists], Setting(file.geometry(), slots))
    with DiskFeatures(file, slots, depth=128) as features:
        features.append(plan)
        out = np.zeros((most, file.width), file.gathered_dtype)
        for k, count in enumerate(map(len, lists)):
            rows, begin = out[:count], time.perf_counter()
            features.step_into(rows)
            ROWS.append(time.perf_counter() - begin)
            nodes, edges = json.loads((files / f"sizes_{k}.json").read_text())
            ids, pairs = (
                torch.from_numpy(np.load(files / f"{n}_{k}.npy")) for n in ("ids", "edges")
            )
            yield Made(ids, pairs, nodes, edges, len(seeds[k]), torch.from_numpy(rows))


def planned(given: dict[str, Any], case: Case) -> dict[str, Any]:
    """A trace gathered by plans; "plan:ginex:128" has superbatches of 128."""
    _, way, *size = given["system"].split(":")
    trace, file = load_trace(case.folder), FeatureFile.of(case.graph)
    most = max(len(ids) for bulk in trace for ids in bulk)
    slots = (given["memory"] - STAGING - 2 * most * file.row_bytes) // file.row_bytes
    cut = recut(trace, int(size[0])) if size else trace
    made = run_trace(way, cut, file, slots, load_calibration(case.folder))
    return {**vars(made), "slots": slots, "batches": sum(map(len, trace))}


def limit(group: Path, extra: int) -> int:
    """Lets the cgroup of this process have so many bytes more than it needs now; what it has."""
    told = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    base = sum(int(told[f"total_{name}"]) for name in ("rss", "shmem", "mapped_file"))
    (group / "memory.limit_in_bytes").write_text(str(base + extra))
    return base


def window(group: int, flight: int, least: int) -> tuple[int, int]:
    """Batches that are not timed, and those that are: the same rule for every system.

    The first batches that are made together and all that are in flight then are not; whole groups
    are timed, at least two, until there are `least` batches.
    """
    return max(group + flight, WARM), group * max(2, -(-least // group))


def timed(given: dict[str, Any], case: Case, trainer: Trainer) -> dict[str, Any]:
    """Trains until the last timed batch; more would follow, so nothing in flight is a gift.

    Returns:
        seconds and parts of a timed batch; `batches` were timed, `skipped` came before them and
        took `before` seconds, with all that a system does once.
    """
    marks, training, rows, begin = [], [], [], time.perf_counter()
    batches = batches_of(given["system"], given, case)
    skip = last = 0
    for batch in batches:
        ready = time.perf_counter()
        trainer.step(batch)
        marks.append(time.perf_counter() - begin)
        training.append(time.perf_counter() - ready)
        rows.append(len(batch.n_id))
        skip, count = window(*ROUND, given["least"])
        last = skip + count
        if len(marks) == last:
            break
    if len(marks) < last or not last:
        raise SystemExit(f"{given['system']} made {len(marks)} batches, and {last} are needed")
    count = last - skip
    said = {"seconds": (marks[-1] - marks[skip - 1]) / count, "rows": sum(rows[skip:]) / count}
    said |= {"training": sum(training[skip:]) / count, "batches": count, "skipped": skip}
    said |= {"before": marks[skip - 1], "first": marks[0], "together": ROUND[0]}
    if ROWS:
        said["gather"] = sum(ROWS[skip:last]) / count
    if given["system"] == "ginex":
        files = (case.folder / "superbatch").iterdir()
        said["written"] = sum(path.stat().st_size for path in files)
    return said


def main() -> None:
    """One run."""
    given = json.loads(sys.argv[1])
    torch.set_num_threads(2)
    case = Case(given["name"], Path(given["folder"]), given["batch"])
    assert case.graph.features is not None
    trainer = Trainer(given["model"], case.graph.features.width)
    toy = torch.zeros(4, case.graph.features.width)
    edges = torch.tensor([[1, 2], [0, 1]])
    trainer.step(Made(torch.arange(4), edges, [1, 1, 2], [1, 1], 1, toy))
    base = limit(Path(given["group"]), given["memory"] + given["reserve"]) if given["group"] else 0
    if given["system"].startswith("plan:"):
        print(json.dumps({**planned(given, case), "base": base}))
        return
    print(json.dumps({**timed(given, case, trainer), "base": base}))


if __name__ == "__main__":
    main()
