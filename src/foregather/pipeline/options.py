"""options: the options of a full-graph run: techniques, meter, runtime."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal

from foregather.errors import InputError
from foregather.units import parse_size

__all__ = ["USUAL_EVERY", "Meter", "Mode", "Runtime", "Techniques"]

Mode = Literal["exact", "bounded", "fast"]
#: Epochs between readings of the meter: each costs about an exact epoch and a half.
USUAL_EVERY = {"exact": 0, "bounded": 10, "fast": 25}


@dataclass(frozen=True, slots=True)
class Techniques:
    """GNNPipe's techniques for convergence, for the modes fast and bounded.

    Attributes:
        reshuffle: a new order of chunks in each epoch, the same for all stages.
        refresh: history is renewed every `refresh` epochs.
        factor: weight of fresh gradients from other chunks; 1 is the exact gradient of the loss in
            which history is a constant, 2 the published factor. Gradients of history are zero.
        first_sweep: fill history with a sweep before the first epoch; otherwise it starts at zero.
    """

    reshuffle: bool = True
    refresh: int = 1
    factor: float = 1.0
    first_sweep: bool = True

    def __post_init__(self) -> None:
        if self.refresh < 1:
            raise InputError(f"refresh is {self.refresh}, expected a number of epochs, at least 1")
        if not self.factor >= 0:
            raise InputError(f"factor is {self.factor}, expected 0 or more")

    @staticmethod
    def published() -> "Techniques":
        """The settings of the authors' runs: refresh every 23 epochs, factor 2, start at zero."""
        return Techniques(reshuffle=True, refresh=23, factor=2.0, first_sweep=False)


@dataclass(frozen=True, slots=True)
class Meter:
    """When staleness is measured, and its bounds.

    Attributes:
        every: measure every `every` epochs, starting with epoch `every - 1`; 0 means never, so how
            stale rows are is then unknown.
        error: the largest accepted relative error of history, over all layers.
        cosine: the smallest accepted cosine between the used and the exact gradient.
    """

    every: int = 10
    error: float = 0.3
    cosine: float = 0.9

    def __post_init__(self) -> None:
        if self.every < 0:
            raise InputError(f"every is {self.every}, expected 0 (never) or a number of epochs")

    def due(self, epoch: int) -> bool:
        """Whether an epoch is measured."""
        return bool(self.every) and (epoch + 1) % self.every == 0


@dataclass(frozen=True, slots=True)
class Runtime:
    """Options of memory, time and messages.

    Only `boundary`, `boundary_rate` and `abreast` change results.

    Attributes:
        recompute: "none" keeps what the backward pass needs; "dense" recomputes dense parts and
            keeps aggregation outputs; "all" keeps nothing but layer inputs. "segments" keeps the
            inputs of some layers, so that a layer is recomputed once and the most that is held is
            the least; "disk" keeps inputs of layers in a file. These two are for exact epochs on
            one rank, on a CPU.
        memory: bytes that the whole process may use, such as "4GB"; what to keep, to recompute
            and to write to a file is then chosen, so leave `recompute` out; the planner then
            chooses chunks too. On one rank and a CPU, with mode "exact".
        scratch: the folder of that file, on a disk; None means that of temporary files.
        boundary: "bfloat16" halves the bytes between stages, with rounding; None sends rows as
            they are. One stage sends none.
        boundary_rate: p, the share of boundary rows that the ways of graph-parallel training
            exchange: each crosses with probability p, drawn anew each epoch, and counts 1 / p
            times, so that sums over in-neighbours are right on average. 1 exchanges all, and is
            exact. Less needs mode "fast", one stage, as many chunks as ways, and layers that read
            in-neighbours by `near.aggregate` alone.
        initial_again: rerun the dense layers that give a skip tensor on each stage instead of
            sending it; the gradients of their weights are then summed over stages. For layers that
            have such a tensor (GCNII), on more than one stage.
        cuts: the first layer of each stage after the first; None divides aggregations evenly.
        timeout: seconds after which a silent rank is an error.
        group: the process group whose ranks are the stages, in order; None means all ranks.
        ways: G, the ranks that share a stage; ranks are numbered stage by stage, and there are
            ranks / G stages.
        split: what is divided among ways: "nodes" (graph-parallel: boundary rows are exchanged), or
            "columns" (tensor-parallel: columns of all rows are exchanged; needs one stage and one
            chunk per rank).
        abreast: chunks that pass together and read each other's fresh rows, a multiple of the ways;
            None means as many as there are ways.
    """

    recompute: Literal["none", "dense", "all", "segments", "disk"] = "none"
    memory: str | int | None = None
    scratch: str | PathLike[str] | None = None
    boundary: Literal["bfloat16"] | None = None
    boundary_rate: float = 1.0
    initial_again: bool = False
    cuts: Sequence[int] | None = None
    timeout: float = 300.0
    group: Any = None
    ways: int = 1
    split: Literal["nodes", "columns"] = "nodes"
    abreast: int | None = None

    def __post_init__(self) -> None:
        if self.ways < 1:
            raise InputError(f"ways is {self.ways}, expected at least 1 rank per stage")
        if self.split not in ("nodes", "columns"):
            raise InputError(f"split is {self.split!r}, expected nodes or columns")
        if self.recompute not in ("none", "dense", "all", "segments", "disk"):
            raise InputError(
                f"recompute is {self.recompute!r}, expected none, dense, all, segments or disk"
            )
        if self.split == "columns" and self.recompute not in ("none", "dense"):
            raise InputError(
                f"recompute is {self.recompute!r} with split 'columns', expected none or dense"
            )
        if self.memory is not None and self.recompute != "none":
            raise InputError(
                f"memory is {self.memory!r} and recompute is {self.recompute!r}; give one of them: "
                "a budget decides what is recomputed"
            )
        if self.memory is not None:
            parse_size(self.memory)
        if self.boundary not in (None, "bfloat16"):
            raise InputError(f"boundary is {self.boundary!r}, expected None or 'bfloat16'")
        if not 0 < self.boundary_rate <= 1:
            raise InputError(
                f"boundary_rate is {self.boundary_rate}, expected a share above 0 and at most 1; "
                "1 exchanges all boundary rows"
            )
        if not self.timeout > 0:
            raise InputError(f"timeout is {self.timeout}, expected a number of seconds above 0")

    def check_mode(self, mode: Mode) -> None:
        """Refuses what only exact epochs can do, and what they cannot.

        Raises:
            InputError: a budget, or recomputation in segments or from a file, in another mode; or
                boundary rows that are left out in a mode that promises otherwise.
        """
        if self.boundary_rate < 1 and mode != "fast":
            raise InputError(
                f"boundary_rate is {self.boundary_rate:g} with mode {mode!r}, which leaves no row "
                "out; choose mode 'fast', or set boundary_rate to 1"
            )
        if mode == "exact" or (self.memory is None and self.recompute not in ("segments", "disk")):
            return
        asked = f"recompute is {self.recompute!r}" if self.memory is None else "memory is given"
        raise InputError(
            f"{asked} with mode {mode!r}, expected mode 'exact'; choose it, or set recompute to "
            "'all'"
        )
