"""train_full: trains on the whole graph, on one rank or many: `foregather train-full GRAPH`.

Under `torchrun` every rank runs the same command; only the first one speaks.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from foregather.errors import ForegatherError, InputError
from foregather.files import check_writable
from foregather.graph.graph import Graph
from foregather.graph.load import load_if_fits
from foregather.observe.plots import check_figure
from foregather.observe.progress import quiet
from foregather.observe.report import NOT_SCORED
from foregather.targets import check_file
from foregather.units import format_bytes, format_number, parse_size

if TYPE_CHECKING:
    from torch import nn

    from foregather.pipeline import EpochReport, FullGraph

__all__ = ["TrainFull"]

_MOST = 1 << 31  # epochs, layers, columns, chunks or ranks that nobody has
_MOST_RATE = 3e38  # what a weight of 32 bits can hold
_MOST_SECONDS = 10**7  # what a timeout of torch can be


@dataclass(frozen=True)
class TrainFull:
    """Train on all nodes and edges in every epoch, by node chunks; stages under torchrun."""

    path: Annotated[Path, tyro.conf.Positional]
    """The graph folder."""
    model: Literal["gcn", "sage", "gcnii", "resgcn"] = "resgcn"
    """The layers."""
    depth: int = 8
    """How many aggregations."""
    width: int = 64
    """Hidden columns."""
    dropout: float = 0.5
    """Share of values dropped in training."""
    chunks: int = 0
    """Node chunks; 0 lets the planner choose chunks, stages and ways."""
    mode: Literal["exact", "bounded", "fast"] = "exact"
    """How exact an epoch is."""
    ways: int = 1
    """Ranks that share a stage, where chunks are given."""
    split: Literal["nodes", "columns"] = "nodes"
    """What ways share out, where chunks are given."""
    memory: str | None = None
    """Limit of a rank for the planner, beside the graph: 8GB."""
    recompute: Literal["none", "dense", "all"] = "none"
    """What is recomputed in the backward pass, where chunks are given."""
    boundary: Literal["bfloat16"] | None = None
    """Send half the bytes between stages, with rounding."""
    initial_again: bool = False
    """Run the first layer of GCNII again on each stage in place of sending its rows."""
    epochs: int = 100
    """How many."""
    rate: float = 0.01
    """Learning rate of Adam."""
    seed: int = 0
    """Of weights, chunks, orders and dropout."""
    timeout: float = 300.0
    """Seconds after which a silent rank is an error."""
    save: Path | None = None
    """Write weights and optimiser to this file at the end."""
    overwrite: bool = False
    """Replace the file of --save."""
    resume: Path | None = None
    """Go on from such a file, also one of another number of ranks."""
    timeline: Path | None = None
    """Draw the planner's stage x chunk timeline to this file, where it chooses."""
    explain: bool = False
    """Show all that the planner considered."""
    json: bool = False
    """Print JSON for programs."""

    def run(self) -> dict[str, Any]:
        """Trains; facts on the first rank, nothing on the others."""
        import torch.distributed as dist

        self._check()
        began = False
        if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
            dist.init_process_group("gloo")
            began = True
        try:
            first = not dist.is_initialized() or dist.get_rank() == 0
            self._check_outputs(first)
            if first:
                return self._train()
            with quiet():
                self._train()
            return {}
        finally:
            if began:
                dist.destroy_process_group()

    def _check(self) -> None:
        """Refuses numbers that nothing can be trained with."""
        for name, least in (("epochs", 0), ("depth", 1), ("width", 1), ("chunks", 0), ("ways", 1)):
            if not least <= getattr(self, name) < _MOST:
                raise InputError(
                    f"--{name} is {getattr(self, name)}, expected {least} to {_MOST - 1}"
                )
        if not 0 <= self.seed < 1 << 63:
            raise InputError(f"--seed is {self.seed}, expected 0 to 2^63 - 1")
        if not 0 <= self.dropout < 1:
            raise InputError(f"--dropout is {self.dropout}, expected 0 to 1, without 1")
        if not 0 < self.rate <= _MOST_RATE:
            raise InputError(f"--rate is {self.rate}, expected a number above 0, to {_MOST_RATE}")
        if self.memory is not None:
            parse_size(self.memory)  # refused also where chunks are given
        if not 0 < self.timeout <= _MOST_SECONDS:
            raise InputError(f"--timeout is {self.timeout}, expected up to {_MOST_SECONDS} seconds")

    def _check_outputs(self, first: bool) -> None:
        """Refuses what could not be written at the end; all ranks hear what the first one found."""
        import torch.distributed as dist

        found: list[ForegatherError | None] = [None]
        try:
            if first:
                check_figure(self.timeline)
                if self.save is not None:
                    check_file(self.save, self.overwrite)
                    check_writable(self.save)
        except ForegatherError as error:
            found = [error]
        if dist.is_initialized():
            dist.broadcast_object_list(found, 0)
        if found[0] is not None:
            raise found[0]

    def _train(self) -> dict[str, Any]:
        from foregather.pipeline import FullGraph, load_state
        from foregather.pipeline.state import keep_state

        graph = load_if_fits(Graph.open(self.path))
        layers = self._layers(graph)
        options, text = self._options(graph, layers)
        run = FullGraph(graph, layers, optimizer=self._optimizer(), seed=self.seed, **options)
        if self.resume is not None:
            run.load_state_dict(load_state(self.resume))
        reports = run.fit(max(0, self.epochs - run.epoch))
        facts = self._facts(run, reports, text)
        if self.save is not None:
            state = run.state_dict()
            if run.link.own == 0:
                keep_state(state, self.save, self.overwrite)
            facts["saved"] = str(self.save)
        return facts

    def _layers(self, graph: Graph) -> "list[nn.Module]":
        import torch

        from foregather.nn import gcn_layers, gcnii_layers, resgcn_layers, sage_layers

        if graph.features is None or graph.labels is None:
            raise InputError(f"{self.path.name} has no features or no labels to learn from")
        torch.manual_seed(self.seed)
        width, classes = graph.features.width, _classes(graph)
        if self.model in ("gcn", "sage"):
            make = gcn_layers if self.model == "gcn" else sage_layers
            return [*make([width, *[self.width] * (self.depth - 1), classes], self.dropout)]
        if self.model == "gcnii":
            return [*gcnii_layers(width, self.width, classes, self.depth, dropout=self.dropout)]
        return [*resgcn_layers(width, self.width, classes, self.depth, self.dropout)]

    def _optimizer(self) -> Callable[[Any], Any]:
        import torch

        return lambda weights: torch.optim.Adam(weights, self.rate)

    def _options(self, graph: Graph, layers: "list[nn.Module]") -> tuple[dict[str, Any], str]:
        from foregather.pipeline import Runtime, planned

        runtime = Runtime(
            recompute=self.recompute,
            boundary=self.boundary,
            initial_again=self.initial_again,
            timeout=self.timeout,
        )
        if self.chunks:
            from dataclasses import replace

            runtime = replace(runtime, ways=self.ways, split=self.split)
            return {"chunks": self.chunks, "mode": self.mode, "runtime": runtime}, ""
        options = {"memory": self.memory, "seed": self.seed, "runtime": runtime}
        return planned(graph, layers, mode=self.mode, draw=self.timeline, **options)

    def _facts(self, run: "FullGraph", reports: "list[EpochReport]", text: str) -> dict[str, Any]:
        graph = run.engine.stage.topology.graph
        labels = graph.labels
        classes = labels is not None and labels.ndim == 1 and labels.dtype.kind in "iu"
        facts: dict[str, Any] = {
            "graph": str(self.path),
            "stages": run.link.stages,
            "ways": run.link.ways,
            "chunks": len(run.chunks),
            "mode": run.mode,
            "epochs": run.epoch,
            "loss": reports[-1].loss if reports else None,
            "seconds": sum(r.seconds for r in reports),
            "bytes_an_epoch": sum(run.volume().values()),
            "accuracy": run.accuracies(list(graph.splits)) if classes else {},
        }
        if bare := [name for name, share in facts["accuracy"].items() if math.isnan(share)]:
            facts["not_scored"] = bare
            facts["accuracy"] = {k: v for k, v in facts["accuracy"].items() if k not in bare}
        if self.explain and text:
            facts["plan"] = text
        return facts

    def show(self, facts: dict[str, Any]) -> str:
        """The summary for people."""
        if not facts:
            return ""
        lines = [facts["plan"]] if "plan" in facts else []
        epochs = format_number(facts["epochs"], "epoch")
        lines.append(
            f"{facts['graph']}: {facts['stages']} stages x {facts['ways']} ways, "
            f"{facts['chunks']} chunks, mode {facts['mode']}, {epochs} in "
            f"{facts['seconds']:.1f} s, {format_bytes(facts['bytes_an_epoch'])} sent an epoch"
        )
        if facts["loss"] is not None:
            lines.append(f"loss       {facts['loss']:.4f}")
        lines += [f"{name:10} {value:.4f}" for name, value in facts["accuracy"].items()]
        lines += [f"{name:10} {NOT_SCORED}" for name in facts.get("not_scored", ())]
        if "saved" in facts:
            lines.append(f"saved      {facts['saved']}")
        return "\n".join(lines)


def _classes(graph: Graph) -> int:
    from foregather.train.metrics import count_classes

    labels = graph.labels
    assert labels is not None
    if labels.dtype.kind not in "iu":  # numbers, by squares
        return int(labels.shape[1]) if labels.ndim == 2 else 1
    return count_classes(graph)
