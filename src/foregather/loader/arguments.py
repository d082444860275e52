"""arguments: checks the arguments of a Loader; accepts or refuses PyG's by name.

An argument of PyG's loaders with its default value is accepted; one that requests something a
Loader does not support is refused with the closest alternative. Nothing is ignored.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.old_spellings import refuse_unknown
from foregather.sampling.bulk import Expand
from foregather.sampling.fused import check_trees
from foregather.sampling.neighbor import Neighbor
from foregather.sampling.sampler import Sampler
from foregather.units import to_whole

__all__ = [
    "AT_LEAST_ONE",
    "AUTO_PREFETCH",
    "MOST_PREFETCH",
    "called_fanouts",
    "check_choice",
    "check_disjoint",
    "check_engine",
    "check_norm",
    "check_replay",
    "check_run",
    "check_storage",
    "count_ahead",
    "has_edge_attr",
    "make_sampler",
    "refuse",
]

#: Maximum batches made ahead; far more than any delay needs.
MOST_PREFETCH = 4096
#: Batches made ahead by default, unless they are large.
AUTO_PREFETCH = 2
AT_LEAST_ONE = "a batch is read while the one before is used: give 1 or more"
_MOST_THREADS = (1 << 31) - 1
_TIME = "a Graph has no times; use HeteroLoader with a HeteroGraph, which may have one type alone"

#: PyG's argument -> (values that change nothing, what to do instead).
_PYG: dict[str, tuple[tuple[Any, ...], str]] = {
    "input_time": ((None,), _TIME),
    "time_attr": ((None,), _TIME),
    "temporal_strategy": (("uniform",), _TIME),
    "is_sorted": ((False, True), ""),
    "weight_attr": (
        (None, "edge_weight"),
        "use weight_attr='edge_weight', the weights of the graph, or "
        "sampler=Neighbor(..., weights=an array with one number per edge)",
    ),
    "subgraph_type": (("directional",), "use subgraph_type='directional' (the default)"),
    "directed": ((True,), "leave it out; sampled edges point to their target"),
    "neighbor_sampler": ((None,), "pass a foregather sampler as sampler="),
    "node_sampler": ((None,), "pass a foregather sampler as sampler="),
    "transform_sampler_output": ((None,), "pass transform=, which sees the finished batch"),
    "filter_per_worker": ((None, False, True), ""),
    "custom_cls": ((None,), "pass transform= to turn a batch into what you need"),
    "input_id": ((None,), "look up your own ids by batch.input_id"),
    "num_workers": ((0,), "use threads= and prefetch=; batches are made in a background thread"),
    "persistent_workers": ((False, True), ""),
    "prefetch_factor": ((None,), "use prefetch=, the batches made ahead"),
    "pin_memory": ((False,), "use device=, which gathers into pinned memory if CUDA is available"),
    "batch_sampler": ((None,), "use shuffle=, seed= and batch_size="),
    "generator": ((None,), "use seed="),
    "worker_init_fn": ((None,), "leave it out; there are no worker processes"),
    "collate_fn": ((None,), "pass transform=, which sees the finished batch"),
    "timeout": ((0,), "leave it out"),
    "multiprocessing_context": ((None,), "leave it out; there are no worker processes"),
}


@contextmanager
def called_fanouts(name: str) -> Iterator[None]:
    """Makes errors about a sampler's `num_neighbors` name the argument that the user gave."""
    try:
        yield
    except InputError as error:
        if "num_neighbors" not in str(error):
            raise
        raise InputError(str(error).replace("num_neighbors", name)) from error


def refuse(arguments: Mapping[str, Any], kind: type, also: Iterable[str] = ()) -> None:
    """Refuses arguments of PyG that a Loader does not support.

    Args:
        arguments: by name.
        kind: the Loader, whose arguments one may have been meant to be.
        also: other names that it knows.

    Raises:
        InputError: names the argument and the alternative.
        TypeError: nobody knows the argument; the message has the nearest that is known.
    """
    for name, value in arguments.items():
        if name not in _PYG:
            refuse_unknown({name: value}, kind, *also, *_PYG)
        neutral, instead = _PYG[name]
        plain = value.value if isinstance(value, Enum) else value  # PyG's SubgraphType
        if not any(plain is one or plain == one for one in neutral):
            raise InputError(f"{name}={value!r} of PyG is not supported; {instead}")


def check_replay(replay: Any, grid: Any) -> int:
    """How many epochs use the same samples.

    Raises:
        InputError: it is not a whole number from 1 on, or there are ranks.
    """
    epochs = to_whole(replay, "replay", 1, 1 << 31)
    if epochs > 1 and grid is not None:
        raise InputError(
            f"replay is {epochs}, but rows of ranks are not packed; leave out replay or grid"
        )
    return epochs


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Raises InputError unless the value is one of the choices."""
    if not any(value is one or value == one for one in choices):
        expected = ", ".join(repr(one) for one in choices)
        raise InputError(f"{name} is {value!r}, expected one of {expected}")


def check_disjoint(
    disjoint: bool, sampler: Sampler, memory: Any, grid: Any, leaves: str = "rows"
) -> bool:
    """Whether every seed gets its own tree.

    Raises:
        InputError: the other arguments do not allow it.
    """
    check_choice("disjoint", disjoint, (False, True))
    if not disjoint:
        return False
    for name, given in (("memory", memory), ("grid", grid)):
        if given is not None and leaves != "rows":
            raise InputError(
                f"disjoint=True with {name}= reads each row once and repeats it for the trees that "
                f"have it, so leaves are not added up; leave leaves={leaves!r} or {name}= out"
            )
    check_trees(sampler)
    return True


def has_edge_attr(graph: Graph, asked: bool | None) -> bool:
    """Whether batches hold edge features: as given, or for None if the graph has them.

    Raises:
        InputError: they were requested but the graph has none.
    """
    if asked and graph.edge_features is None:
        raise InputError(
            "edge_attr is True, but the graph has no edge features; convert it with them, or leave "
            "edge_attr out"
        )
    return graph.edge_features is not None and (asked is None or bool(asked))


def make_sampler(
    num_neighbors: Any,
    sampler: Sampler | None,
    replace: bool,
    expand: Expand,
    weight_attr: str | None = None,
) -> Sampler:
    """Returns the given sampler, or a `Neighbor` with these fan-outs, weighted if requested.

    Raises:
        InputError: both or neither are given, or options that belong to the other.
    """
    check_choice("expand", expand, ("once", "per-layer"))
    check_choice("replace", replace, (False, True))
    if sampler is not None:
        if num_neighbors is not None:
            raise InputError("num_neighbors and sampler are both given; pass one of them")
        if not isinstance(sampler, Sampler):
            raise InputError(f"sampler is a {type(sampler).__name__}, expected a Sampler")
        if weight_attr is not None:
            raise InputError(
                "weight_attr is an option of num_neighbors; set weights= on the sampler"
            )
        if replace or (expand == "per-layer" and sampler.expand != expand):
            raise InputError("replace and expand are options of the sampler; set them there")
        return sampler
    if num_neighbors is None:
        raise InputError("neither num_neighbors nor sampler is given; try num_neighbors=[10, 5]")
    weights = weight_attr is not None
    return Neighbor(num_neighbors, replace=replace, expand=expand, weights=weights)


def check_norm(norm: str | None, sampler: Sampler) -> None:
    """Refuses norm with weighted draws.

    Scaling by degree / edges sampled is right only for uniform ones.

    Raises:
        InputError: the sampler draws by weight.
    """
    if norm is not None and isinstance(sampler, Neighbor) and sampler.weights is not None:
        raise InputError(
            f"norm is {norm!r} and neighbours are drawn by weight, which does not keep the sums of "
            "a GCN; draw uniformly, or use Ladies, FastGCN or Labor, whose weights do"
        )


def check_engine(graph: Any, threads: Any, transform: Any, device: Any) -> None:
    """Checks graph, threads, transform and device.

    Raises:
        InputError: not a Graph, not a number of threads, not callable, or a device that torch does
            not know or cannot use here.
    """
    if not isinstance(graph, Graph):
        raise InputError(
            f"graph is a {type(graph).__name__}, expected a Graph; use Graph.open or Graph.from_pyg"
        )
    check_run(threads, transform, device)


def check_run(threads: Any, transform: Any, device: Any) -> None:
    """Checks threads, transform and device.

    Raises:
        InputError: as `check_engine`.
    """
    to_whole(threads, "threads", 0, _MOST_THREADS)
    if transform is not None and not callable(transform):
        raise InputError(f"transform is {transform!r}, expected a function of a batch, or None")
    if device is not None:
        check_device(device)


def check_device(device: Any) -> None:
    """Raises InputError unless torch knows the device and can use it on this machine."""
    import torch

    try:
        known = torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"device is {device!r}, which torch does not know; expected cpu, cuda or cuda:N"
        ) from error
    try:
        torch.empty(0, device=known)
    except (RuntimeError, AssertionError, ImportError) as error:
        told = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(
            f"device is {device!r}, which torch cannot use here ({told}); use cpu, or None"
        ) from error


def count_ahead(prefetch: Any, grid: Any) -> int:
    """Batches made ahead; "auto" gives their number while nothing is known of their size.

    Raises:
        InputError: this is no sensible number of batches, or none are made ahead over ranks.
    """
    if isinstance(prefetch, str) and prefetch == "auto":
        return AUTO_PREFETCH
    count = to_whole(prefetch, "prefetch", 0)
    if count > MOST_PREFETCH:
        raise InputError(
            f"prefetch is {prefetch}, expected 0 to {MOST_PREFETCH} batches made ahead: each is "
            "held in memory, and 2 to 8 are enough to keep a model busy"
        )
    if count == 0 and grid is not None:
        raise InputError(f"prefetch is 0, which does not work with grid=; {AT_LEAST_ONE}")
    return count


def check_storage(storage: Any, bulk: Any) -> None:
    """Checks where a Loader reads from, and how much together.

    Raises:
        InputError: one has another value.
    """
    check_choice("storage", storage, ("auto", "memory", "features", "topology", "disk"))
    if not isinstance(bulk, str) or bulk != "auto":
        to_whole(bulk, "bulk", 1)
