"""train_full: trains on the whole graph, on one rank or many: `foregather train-full GRAPH`.

The flags fill the settings of a run with `train.method = "full-graph"`; folder, checkpoints,
signals and metrics are those of `foregather train`. Under `torchrun` every rank runs the same
command; only the first one prints.
"""

import itertools
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import tyro

from foregather.cli.training.train import say_nothing
from foregather.cli.training.train_ranks import count_ranks, restarted_run, train_over_ranks
from foregather.errors import InputError
from foregather.files import check_writable
from foregather.observe.plots import check_figure
from foregather.observe.progress import write_above
from foregather.observe.report import NOT_SCORED
from foregather.observe.scores import show_score
from foregather.targets import check_file
from foregather.train.settings import (
    CheckpointSettings,
    FullGraphSettings,
    GridSettings,
    ModelSettings,
    Settings,
    TrainSettings,
    naming_file,
    read_settings,
)
from foregather.units import format_bytes, format_number, parse_size

if TYPE_CHECKING:
    from foregather.train.rank_agreement import RunGrid
    from foregather.train.runs.run import Run
    from foregather.train.trainers.full_graph import FullGraphTrainer

__all__ = ["TrainFull", "full_default"]

_MOST = 1 << 31  # an implausible number of epochs, layers, columns, chunks or ranks
_MOST_RATE = 3e38  # the largest float32 weight
_MOST_SECONDS = 10**7  # the longest timeout that torch accepts


@dataclass(frozen=True)
class TrainFull:
    """Train on all nodes and edges in every epoch, in node chunks; in stages under torchrun.

    Everything about the run goes to one folder, from which it can be resumed.
    """

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="GRAPH")]
    """The graph folder."""
    model: str = "resgcn"
    """gcn, sage, gcnii, resgcn, gat, gin, or module:Class or module:function of your own."""
    depth: int = 8
    """Number of aggregations."""
    width: int = 64
    """Hidden columns."""
    dropout: float = 0.5
    """Share of values dropped in training."""
    chunks: int = 0
    """Node chunks; 0 lets the planner choose chunks, stages and ways."""
    mode: Literal["exact", "bounded", "fast"] = "exact"
    """How exact an epoch is."""
    ways: int = 1
    """Ranks per stage, if --chunks is given."""
    split: Literal["nodes", "columns"] = "nodes"
    """What the ways of a stage divide, if --chunks is given."""
    memory: str | None = None
    """Memory limit per rank for the planner, without the graph: 8GB."""
    recompute: Literal["none", "dense", "all", "segments", "disk"] = "none"
    """What is recomputed in the backward pass, if --chunks is given."""
    boundary: Literal["bfloat16"] | None = None
    """Halve the bytes between stages, with rounding."""
    boundary_rate: float = 1.0
    """Share of boundary rows that graph-parallel ways exchange (mode fast, as many chunks as ways,
    or chosen by the planner): fewer bytes, sums that are right on average."""
    initial_again: bool = False
    """Run the first layer of GCNII again on each stage instead of sending its rows."""
    epochs: int = 100
    """How many."""
    rate: float = 0.01
    """Learning rate of Adam."""
    seed: int = 0
    """Random seed of weights, chunks, orders and dropout."""
    timeout: float = 300.0
    """Seconds until a silent rank is an error."""
    validate: int = 0
    """Epochs between validations, of which the best weights are delivered; 0: the last ones."""
    patience: int = 0
    """Stop after this many validations without a better one; 0 never stops early."""
    folder: Annotated[str, tyro.conf.arg(name="run")] = ""
    """The folder of the run; empty: runs/ with the name of the graph and the next free number."""
    config: Path | None = None
    """A config file (.toml) as of `foregather train`; flags win over it."""
    resume: Path | None = None
    """Go on with the run in this folder, to the same weights as if it had never stopped; or begin a
    run with a file of --save, also one of another number of ranks."""
    trust_code: bool = False
    """With --resume: run the code that the run's config names (module:function)."""
    save: Path | None = None
    """Write weights and optimiser to this file at the end."""
    overwrite: bool = False
    """Replace the file of --save."""
    timeline: Path | None = None
    """Draw the planner's stage x chunk timeline to this file, if it chooses."""
    explain: bool = False
    """Show everything that the planner considered."""
    json: bool = False
    """Print the facts as JSON."""

    def run(self) -> dict[str, Any]:
        """Trains; returns facts on the first rank, nothing on the others."""
        from foregather.train.runs.run_loop import run_loop

        if self.config is not None:  # a value of the file is refused with the file's name
            self.settings()
        self._check()
        settings = self.settings()
        if count_ranks() > 1:
            begin = lambda grid: self._begin(settings, grid)  # noqa: E731 - as below
            return train_over_ranks(begin, settings, self.json, self._finish)
        with self._begin(settings, None) as run:
            return self._finish(run, run_loop(run))

    def _check(self) -> None:
        """Refuses numbers that cannot be trained with."""
        least = {"epochs": 0, "depth": 1, "width": 1, "chunks": 0, "ways": 1}
        for name, first in (least | {"validate": 0, "patience": 0}).items():
            if not first <= getattr(self, name) < _MOST:
                raise InputError(
                    f"--{name} is {getattr(self, name)}, expected {first} to {_MOST - 1}"
                )
        if self.patience and not self.validate:
            raise InputError("--patience needs --validate: how often there is something to compare")
        if not 0 <= self.seed < 1 << 63:
            raise InputError(f"--seed is {self.seed}, expected 0 to 2^63 - 1")
        if not 0 <= self.dropout < 1:
            raise InputError(f"--dropout is {self.dropout}, expected 0 to 1, without 1")
        if not 0 < self.rate <= _MOST_RATE:
            raise InputError(f"--rate is {self.rate}, expected a number above 0, to {_MOST_RATE}")
        if self.memory is not None:
            parse_size(self.memory)  # refused even if --chunks is given
        if not 0 < self.timeout <= _MOST_SECONDS:
            raise InputError(f"--timeout is {self.timeout}, expected up to {_MOST_SECONDS} seconds")

    def settings(self) -> Settings:
        """The settings of the run: those of the config or of the run to resume, with the flags."""
        base = _base(self.config, self.resume)
        with naming_file(base, self.config or Path("config.toml")):
            return self._added_to(base)

    def _added_to(self, base: Settings) -> Settings:
        """The settings with the flags."""
        full = replace(
            base.full_graph,
            mode=self.mode,
            chunks=self.chunks,
            ways=self.ways,
            split=self.split,
            memory=self.memory or "none",
            recompute=self.recompute,
            boundary=self.boundary or "none",
            boundary_rate=self.boundary_rate,
            initial_again=self.initial_again,
            validate=self.validate,
            timeline="" if self.timeline is None else str(self.timeline),
        )
        if self.resume is not None and not _is_run(self.resume):
            full = replace(full, start=str(self.resume))
        layers = base.model.layers if self.depth == _depth(base) else self.depth
        model = replace(base.model, kind=self.model, layers=layers, hidden=self.width)
        return replace(
            base,
            graph=str(self.path),
            run=self.folder,
            full_graph=full,
            model=replace(model, dropout=self.dropout),
            optimizer=replace(base.optimizer, lr=self.rate),
            train=replace(
                base.train,
                method="full-graph",
                epochs=self.epochs,
                seed=self.seed,
                patience=self.patience,
            ),
            grid=replace(base.grid, timeout=self.timeout),
        )

    def _begin(self, settings: Settings, grid: "RunGrid | None") -> "Run":
        from foregather.train.runs.run import Run
        from foregather.train.runs.run_folder import check_code

        say = say_nothing if self.json or (grid is not None and grid.rank > 0) else write_above
        if self.resume is not None and _is_run(self.resume):
            check_code(settings, self.resume, self.trust_code)
            return Run.resume(self.resume, settings, say, grid, check=self._check_outputs)
        if (begun := restarted_run(settings.run)) is not None:
            return Run.resume(begun, settings, say, grid, check=self._check_outputs)
        return Run.create(settings, say, grid, check=self._check_outputs)

    def _check_outputs(self) -> None:
        """Refuses what could not be written at the end."""
        check_figure(self.timeline)
        if self.save is not None:
            check_file(self.save, self.overwrite)
            check_writable(self.save)

    def _finish(self, run: "Run", facts: dict[str, Any]) -> dict[str, Any]:
        """Writes the file of --save; all ranks call this together."""
        from foregather.pipeline.state import keep_state

        trainer = cast("FullGraphTrainer", run.trainer)
        facts = {"graph": str(self.path), **facts}
        if self.explain and trainer.plan_text:
            facts["plan"] = trainer.plan_text
        if self.save is not None:
            place, state = self.save, trainer.full.state_dict()
            run.together.first_does(
                lambda: keep_state(state, place, self.overwrite), "saving the weights"
            )
            facts["saved"] = str(self.save)
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
        if "best_epoch" in facts:
            best = f"{facts['metric']} {facts['best_valid']:.4f}"
            lines.append(f"best       epoch {facts['best_epoch']}, {best}")
        lines += [
            f"{name:10} {show_score(facts, name, value)}" for name, value in facts["scores"].items()
        ]
        lines += [f"{name:10} {NOT_SCORED}" for name in facts.get("not_scored", ())]
        if "saved" in facts:
            lines.append(f"saved      {facts['saved']}")
        lines.append(f"run        {facts['run']}")
        return "\n".join(lines)


def _base(config: Path | None, resume: Path | None) -> Settings:
    """What flags are added to."""
    if resume is not None and os.path.lexists(resume / "config.toml"):
        return read_settings(resume / "config.toml", inside=True)
    if config is not None:
        return read_settings(config, check=False)
    return Settings(
        model=ModelSettings("resgcn", layers=8),
        train=TrainSettings(method="full-graph", epochs=100, device="cpu"),
        grid=GridSettings(timeout=300.0),
        checkpoint=CheckpointSettings(epochs=10),
        full_graph=FullGraphSettings(validate=0),
    )


def _depth(settings: Settings) -> int:
    """Aggregations that settings ask for; see `count_layers`, which would import torch here."""
    return settings.model.layers or len(settings.sampler.fanouts)


def _is_run(path: Path) -> bool:
    """Whether this is a folder, so of a run, and not a file of --save."""
    return path.is_dir()


def full_default(arguments: list[str]) -> TrainFull | None:
    """What the flags of `train-full` are added to: a config file, or that of the run to resume.

    Raises:
        InputError: the file has an unknown key or a wrong value.
        StorageError: it cannot be read.
    """
    given: dict[str, Path] = {}
    for flag, value in itertools.pairwise([*arguments, ""]):
        for name in ("config", "resume"):
            if flag == f"--{name}" or flag.startswith(f"--{name}="):
                given[name] = Path(value if flag == f"--{name}" else flag.partition("=")[2])
    config, resume = given.get("config"), given.get("resume")
    resumed = resume is not None and os.path.lexists(resume / "config.toml")
    if config is None and not resumed:
        return None
    settings = _base(config, resume)
    full, memory = settings.full_graph, settings.full_graph.memory
    return TrainFull(
        path=Path(settings.graph),
        model=settings.model.kind,
        depth=_depth(settings),
        width=settings.model.hidden,
        dropout=settings.model.dropout,
        chunks=full.chunks,
        mode=full.mode,
        ways=full.ways,
        split=full.split,
        memory=None if memory == "none" else memory,
        recompute=full.recompute,
        boundary=None if full.boundary == "none" else full.boundary,
        boundary_rate=full.boundary_rate,
        initial_again=full.initial_again,
        epochs=settings.train.epochs,
        rate=settings.optimizer.lr,
        seed=settings.train.seed,
        timeout=settings.grid.timeout,
        validate=full.validate,
        patience=settings.train.patience,
        folder="" if resumed else settings.run,
        timeline=Path(full.timeline) if full.timeline else None,
    )
