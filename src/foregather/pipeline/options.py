"""options: how a full-graph run is carried out: techniques, meter, runtime."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from foregather.errors import InputError

__all__ = ["Meter", "Mode", "Runtime", "Techniques"]

Mode = Literal["exact", "bounded", "fast"]


@dataclass(frozen=True, slots=True)
class Techniques:
    """GNNPipe's techniques for convergence, for the modes fast and bounded.

    Attributes:
        reshuffle: a new common order of chunks each epoch.
        refresh: history is renewed every so many epochs.
        factor: weight of fresh gradients from other chunks; 1 is the exact gradient of the loss in
            which history is a constant, 2 the published factor. Gradients of history are zero.
        first_sweep: fill history by a sweep before the first epoch; otherwise it starts at zero.
    """

    reshuffle: bool = True
    refresh: int = 1
    factor: float = 1.0
    first_sweep: bool = True

    def __post_init__(self) -> None:
        if self.refresh < 1:
            raise InputError(f"refresh is {self.refresh}, expected a number of epochs from 1 on")
        if not self.factor >= 0:
            raise InputError(f"factor is {self.factor}, expected 0 or more")

    @staticmethod
    def published() -> "Techniques":
        """The settings of the authors' runs: refresh every 23 epochs, factor 2, start at zero."""
        return Techniques(reshuffle=True, refresh=23, factor=2.0, first_sweep=False)


@dataclass(frozen=True, slots=True)
class Meter:
    """When staleness is measured, and where its bounds are.

    Attributes:
        every: measure every so many epochs, beginning with epoch `every - 1`; 0 is never.
        error: the largest relative error of history that is accepted, of any layer.
        cosine: the smallest cosine of the used gradient to the exact one that is accepted.
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
    """What changes memory, time and messages; only `boundary` and `abreast` change results.

    Attributes:
        recompute: "none" keeps what the backward pass needs; "dense" recomputes dense parts and
            keeps aggregation outputs; "all" keeps nothing but layer inputs.
        boundary: "bfloat16" halves the bytes between stages, with rounding; None sends rows as
            they are. One stage sends none.
        initial_again: run the dense layers that give a skip tensor again on each stage in place of
            sending it; their weights are then summed over stages. For layers that have such a
            tensor (GCNII), on more than one stage.
        cuts: the first layer of each further stage; None shares aggregations out evenly.
        timeout: seconds after which a silent rank is an error.
        group: ranks that are the stages, in order; None takes all ranks.
        ways: G, ranks that share a stage; ranks are then stage by stage, and there are as many
            stages as ranks / G.
        split: what ways share out: "nodes" (graph-parallel: boundary rows are exchanged), or
            "columns" (tensor-parallel: columns of all rows are; one stage, one chunk a rank).
        abreast: chunks that pass together and read each other fresh, a multiple of the ways; None
            is as many as there are ways.
    """

    recompute: Literal["none", "dense", "all"] = "none"
    boundary: Literal["bfloat16"] | None = None
    initial_again: bool = False
    cuts: Sequence[int] | None = None
    timeout: float = 300.0
    group: Any = None
    ways: int = 1
    split: Literal["nodes", "columns"] = "nodes"
    abreast: int | None = None

    def __post_init__(self) -> None:
        if self.ways < 1:
            raise InputError(f"ways is {self.ways}, expected ranks of a stage from 1 on")
        if self.split not in ("nodes", "columns"):
            raise InputError(f"split is {self.split!r}, expected nodes or columns")
        if self.split == "columns" and self.recompute == "all":
            raise InputError("split 'columns' with recompute 'all', expected none or dense")
        if self.recompute not in ("none", "dense", "all"):
            raise InputError(f"recompute is {self.recompute!r}, expected none, dense or all")
        if self.boundary not in (None, "bfloat16"):
            raise InputError(f"boundary is {self.boundary!r}, expected None or 'bfloat16'")
        if not self.timeout > 0:
            raise InputError(f"timeout is {self.timeout}, expected seconds above 0")
