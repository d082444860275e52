"""Real ranks for the tests: four gloo processes that run all cases once, and pairs that fail."""

import multiprocessing
import os
import time
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from foregather.pipeline import FullGraph, Meter, Runtime, Techniques, load_state, save_state
from tests.pipeline.cases import model, sgd, small_graph
from tests.processes import free_port, python_path

CASES: dict[
    str, tuple[str, float, Any, dict[str, Any]]
] = {  # name -> (model, dropout, mode, options)
    "gcn-fast": ("gcn", 0.3, "fast", {}),
    "sage-fast": ("sage", 0.0, "fast", {"techniques": Techniques.published()}),
    "gcnii-fast": ("gcnii", 0.3, "fast", {"runtime": {"recompute": "all"}}),
    "gcnii-again": ("gcnii", 0.3, "fast", {"runtime": {"initial_again": True}}),
    "resgcn-fast": ("resgcn", 0.3, "fast", {"meter": Meter(every=2, error=9.0, cosine=-1.0)}),
    "resgcn-exact": ("resgcn", 0.3, "exact", {}),
    "plain-exact": ("plain", 0.3, "exact", {}),
    "gcnii-exact": ("gcnii", 0.3, "exact", {"runtime": {"recompute": "all"}}),
    "gcnii-exact-again": ("gcnii", 0.3, "exact", {"runtime": {"initial_again": True}}),
    "gcnii-bounded": ("gcnii", 0.3, "bounded", {"meter": Meter(every=1, error=0.0)}),
    "jumping-exact": ("jumping", 0.0, "exact", {"runtime": {"recompute": "all"}}),
    "jumping-fast": ("jumping", 0.0, "fast", {"meter": Meter(every=2, error=9.0, cosine=-1.0)}),
    "tied-exact": ("tied", 0.0, "exact", {}),
    "tied-fast": ("tied", 0.0, "fast", {}),
    "norm-exact": ("batch norm", 0.0, "exact", {}),
    "norm-fast": ("batch norm", 0.0, "fast", {}),
    "gcnii-bfloat16": ("gcnii", 0.0, "fast", {"runtime": {"boundary": "bfloat16"}}),
}
CHUNKS, EPOCHS = 5, 3
#: With 2 and 4 stages only these are run; with 3 all.
EVERYWHERE = ("gcn-fast", "gcnii-fast", "resgcn-exact", "gcnii-exact-again", "plain-exact",
              "jumping-exact", "tied-exact")  # fmt: skip


def cases(stages: int) -> list[str]:
    return [name for name in CASES if stages == 3 or name in EVERYWHERE]


# The first step of an optimiser imports much of torch: once, before ranks are forked.
torch.set_num_threads(1)
_weight = torch.nn.Parameter(torch.zeros(1))
_weight.grad = torch.zeros(1)
torch.optim.Adam([_weight]).step()


def run_case(
    name: str, group: Any = None, timeout: float = 300.0
) -> tuple[FullGraph, dict[str, Any]]:
    """One case on this rank's stage; with one stage, in this process."""
    kind, drop, mode, options = CASES[name]
    options = dict(options)
    options["runtime"] = Runtime(**options.get("runtime", {}), timeout=timeout, group=group)
    run = FullGraph(
        small_graph(), model(kind, drop), CHUNKS, mode,
        optimizer=lambda weights: torch.optim.Adam(weights, 0.05), partition="random", **options,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the meter of the bounded case warns on purpose
        reports = run.fit(EPOCHS)
    scores = run.infer()
    found = {
        "losses": [r.loss for r in reports],
        "ran": [r.ran for r in reports],
        "sent": [r.sent for r in reports],
        "readings": [(r.reading.error, r.reading.cosine) for r in reports if r.reading],
        "volume": run.volume(),
        "scores": scores,
        "accuracy": run.evaluate("valid"),
        "state": run.state_dict(),
    }
    return run, found


def start(rank: int, ranks: int, port: int) -> None:
    os.environ.update(OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", FOREGATHER_QUIET="1")
    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=ranks)


def all_cases(rank: int, port: int, folder: Path) -> None:
    """Every case with 2, 3 and 4 stages, and what must be refused; results go to files."""
    start(rank, 4, port)
    found: dict[Any, Any] = {}
    try:
        for stages in (2, 3, 4):
            group = dist.new_group(list(range(stages)))
            if rank < stages:
                for name in cases(stages):
                    found[name, stages] = run_case(name, group)[1]
                found["nan", stages] = fault(group, stages)
                found["resume", stages] = resume(group, folder)
                found["differ", stages] = differ(group, rank)
                found["chunks", stages] = other_chunks(group, rank)
                found["one chunk", stages] = one_chunk(group, rank)
                found["few", stages] = few_chunks(group, stages)
                found["deep", stages] = more_stages_than_layers(group, stages)
        found["fewer"] = fewer_stages(rank, group, folder)
    except BaseException:
        found["error"] = traceback.format_exc()
    end(rank, found, folder)


def end(rank: int, found: dict[Any, Any], folder: Path) -> None:
    """Writes what a rank found, and ends it."""
    torch.save(found, folder / f"rank{rank}.pt")
    if "error" not in found:
        dist.barrier()  # rank 0 holds the store; it must not end first
    os._exit(0)


def fault(group: Any, stages: int) -> str:
    """Weights of the last layer but one become infinite: all ranks must say where."""
    layers = model("gcn")
    run = FullGraph(
        small_graph(), layers, CHUNKS, "fast", partition="random", runtime=Runtime(group=group)
    )
    run.train_epoch()
    with torch.no_grad():
        layers[2].weight.weight[0, 0] = float("inf")
    try:
        run.train_epoch()
    except ArithmeticError as error:
        return str(error)
    return "no error"


def resume(group: Any, folder: Path) -> torch.Tensor:
    """Goes on from the saved state of a run in one stage; exact mode, so history plays no part."""
    state = torch.load(folder / "state.pt", weights_only=True)
    layers = model("gcnii", 0.3, seed=1)
    run = FullGraph(
        small_graph(), layers, CHUNKS, optimizer=lambda w: torch.optim.Adam(w, 0.05),
        partition="random", runtime=Runtime(group=group),
    )  # fmt: skip
    run.load_state_dict(state)
    run.fit(2)
    weights = run.state_dict()["weights"]
    return torch.cat([weights[name].flatten() for name in sorted(weights)])


def differ(group: Any, rank: int) -> str:
    """Rank 1 has another seed."""
    try:
        FullGraph(small_graph(), model("gcn"), CHUNKS, seed=rank == 1, runtime=Runtime(group=group))
    except ValueError as error:
        return str(error)
    return "no error"


def other_chunks(group: Any, rank: int) -> str:
    """Rank 1 has one chunk more."""
    try:
        chunks = CHUNKS + (rank == 1)
        FullGraph(small_graph(), model("jumping"), chunks, runtime=Runtime(group=group))
    except ValueError as error:
        return str(error)
    return "no error"


def one_chunk(group: Any, rank: int) -> str:
    """Rank 1 has one chunk, so that its model would not be split."""
    try:
        chunks = 1 if rank == 1 else CHUNKS
        FullGraph(small_graph(), model("jumping"), chunks, runtime=Runtime(group=group))
    except ValueError as error:
        return str(error)
    return "no error"


def few_chunks(group: Any, stages: int) -> str:
    """Fewer chunks than stages."""
    try:
        FullGraph(small_graph(), model("gcnii"), stages - 1, runtime=Runtime(group=group))
    except ValueError as error:
        return str(error)
    return "no error"


def more_stages_than_layers(group: Any, stages: int) -> str:
    """One layer less than there are stages."""
    try:
        FullGraph(small_graph(), model("gcn")[: stages - 1], CHUNKS, runtime=Runtime(group=group))
    except ValueError as error:
        return str(error)
    return "no error"


def fewer_stages(rank: int, four: Any, folder: Path) -> dict[str, Any]:
    """A fast run in four stages is saved to a file and goes on in two."""
    options: dict[str, Any] = {
        "optimizer": lambda w: torch.optim.Adam(w, 0.05),
        "partition": "random",
    }
    path = folder / "four.safetensors"
    before = FullGraph(
        small_graph(), model("gcnii", 0.3), CHUNKS, "fast", runtime=Runtime(group=four), **options
    )
    before.fit(2)
    state = before.state_dict()
    if rank == 0:
        save_state(state, path)
    two = dist.new_group([0, 1])  # all ranks wait for the file here
    dist.barrier()
    if rank > 1:
        return {}
    after = FullGraph(
        small_graph(), model("gcnii", 0.3, seed=3), CHUNKS, "fast", runtime=Runtime(group=two),
        **options,
    )  # fmt: skip
    after.load_state_dict(load_state(path))
    report = after.train_epoch()
    return {"state": state, "loss": report.loss, "sent": report.sent, "volume": after.volume(1),
            "weights": after.state_dict()}  # fmt: skip


def failing_pair(rank: int, port: int, folder: Path, how: str) -> None:
    """Rank 1 is killed or sleeps in its second epoch; rank 0 writes what it is told."""
    start(rank, 2, port)
    ways = 2 if "way" in how else 1
    run = FullGraph(
        small_graph(), model("gcn"), 4, "fast", optimizer=sgd(), partition="random",
        runtime=Runtime(ways=ways),
    )  # fmt: skip
    run.train_epoch()
    run.link.timeout = 15.0  # not before: on a busy machine the first epoch may take longer
    if rank == 1:
        if "killed" in how:
            os.kill(os.getpid(), 9)
        while not (folder / "told.pt").exists():  # silent for as long as it takes
            time.sleep(0.05)
        os._exit(0)
    try:
        run.train_epoch()
        message = "no error"
    except RuntimeError as error:
        message = f"{type(error).__name__}: {error}"
    torch.save(message, folder / "told.part")
    (folder / "told.part").replace(folder / "told.pt")
    os._exit(0)


def launch(
    target: Callable[..., None], ranks: int, folder: Path, *arguments: Any
) -> list[ForkServerProcess]:
    """Starts processes; the caller joins them. They have the environment of the first call."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    os.environ["PYTHONPATH"] = python_path()  # for the import before the fork
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.pipeline.ranks"])
    processes = [
        context.Process(target=target, args=(rank, port, folder, *arguments))
        for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    return processes


def join(processes: list[ForkServerProcess]) -> None:
    """Waits until all have ended."""
    for process in processes:
        process.join(600)
        assert process.exitcode is not None, "a rank hangs"
