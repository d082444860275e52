"""train: trains a model on a graph folder, configured by a file or flags: `foregather train`."""

import itertools
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from foregather.cli.flags import flags_of, places_of_words
from foregather.cli.training.train_ranks import count_ranks, restarted_run, train_over_ranks
from foregather.errors import InputError, StorageError
from foregather.observe.freed_memory import keep_freed_memory
from foregather.observe.progress import write_above
from foregather.observe.report import NOT_SCORED
from foregather.observe.scores import show_left_out, show_score
from foregather.train.settings import Settings, read_settings, with_options
from foregather.units import format_bytes, format_number

if TYPE_CHECKING:
    from foregather.train.rank_agreement import RunGrid
    from foregather.train.runs.run import Run

__all__ = ["Train", "say_nothing", "settings_default"]


@dataclass(frozen=True)
class Train:
    """Train a model; everything about the run goes to one folder, from which it can be resumed.

    Under torchrun (torchrun --nproc-per-node 4 -m foregather train ...) it trains on all ranks.

    Sections of the config file are the prefixes of the flags: `lr` of `[optimizer]` is
    --optimizer.lr. Flags override the file.
    """

    config: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[CONFIG]")] = None
    """A config file (.toml)."""
    settings: Annotated[Settings, tyro.conf.arg(name="")] = field(default_factory=Settings)
    options: tuple[str, ...] = ()
    """Options of your own class: model.heads=2 sampler.name=text."""
    resume: Path | None = None
    """Resume the run in this folder; the final weights are as if it had never stopped."""
    trust_code: bool = False
    """With --resume: run the code that the run's config names (module:Class); only if you trust who
    made it. Code that you name yourself, by flags or your own config, does not need it."""
    said: Annotated[tuple[str, ...] | None, tyro.conf.Suppress] = None
    json: bool = False
    """Print the summary as JSON."""

    def run(self) -> dict[str, Any]:
        """Trains to the end."""
        from foregather.train.runs.run_folder import check_code
        from foregather.train.runs.run_loop import run_loop

        settings = with_options(self.settings, self.options)
        if self.resume is None and not settings.graph:
            raise InputError(
                'no graph is given; write graph = "FOLDER" in the config, or --graph FOLDER'
            )
        if self.resume is not None and self.said is not None:
            check_code(settings, self.resume, self.trust_code, self.said)
        if settings.memory.budget == "none" and settings.train.method == "sampled":
            keep_freed_memory()
        if count_ranks() > 1:
            return train_over_ranks(lambda grid: self._begin(settings, grid), settings, self.json)
        with self._begin(settings, None) as run:
            return run_loop(run)

    def _begin(self, settings: Settings, grid: "RunGrid | None") -> "Run":
        from foregather.train.runs.run import Run

        silent = self.json or (grid is not None and grid.rank > 0)
        say = say_nothing if silent else write_above
        if self.resume is not None:
            same = None if settings == Settings() else settings
            return Run.resume(self.resume, same, say, grid, self.trust_code)
        if (begun := restarted_run(settings.run)) is not None:
            return Run.resume(begun, settings, say, grid)
        return Run.create(settings, say, grid)

    def show(self, facts: dict[str, Any]) -> str:
        """Returns the summary as text."""
        if not facts:  # with several ranks only the first prints
            return ""
        epochs = format_number(facts["epochs"], "epoch")
        lines = [f"run       {facts['run']}: {epochs}, {facts['seconds']:.1f} s"]
        if "best_valid" in facts:
            valid = f"valid {facts['metric']} {facts['best_valid']:.4f}"
            valid = f"{valid} ({facts['best_valid_scored']})"
            lines.append(f"best      epoch {facts['best_epoch']}, {valid}")
        for name in ("valid", "test"):
            if name in facts:
                score = show_score(facts, name, facts[name])
                lines.append(f"{name:<9} {score} ({_SCORED[facts['scored']]})")
            if told := show_left_out(facts, name):
                lines.append(f"{'':<9} {told}")
        lines += [f"{name:<9} {NOT_SCORED}" for name in facts.get("not_scored", ())]
        if facts.get("bytes"):
            lines.append(f"read      {format_bytes(facts['bytes'])} from disk")
        if "sent" in facts:
            lines.append(f"sent      {format_bytes(facts['sent'])} between ranks")
        lines.append(f"next      foregather report {facts['run']}")
        return "\n".join(lines)


_SCORED = {"exact": "exact: with every edge", "sampled": "sampled, an estimate"}


def say_nothing(text: str) -> None:
    """Discards messages: with --json, standard output is reserved for the JSON."""


def settings_default(arguments: list[str]) -> "Train | None":
    """Returns the defaults for the flags of `train`: a config file, or that of the run to resume.

    Raises:
        InputError: the file has an unknown key or a wrong value.
        StorageError: it cannot be read.
    """
    flags, rest = flags_of(Train), arguments[1:]
    if words := places_of_words(rest, flags):
        text, before = rest[words[0]], rest[words[0] - 1] if words[0] else ""
        return Train(config=Path(text), settings=_read_config(text, before, flags))
    for flag, value in itertools.pairwise([*arguments, ""]):
        folder = value if flag == "--resume" else flag.removeprefix("--resume=")
        if folder != flag and os.path.lexists(Path(folder) / "config.toml"):
            settings = read_settings(Path(folder) / "config.toml", inside=True)
            return Train(settings=settings, said=_said(arguments))
    return None


def _read_config(text: str, before: str, flags: dict[str, Any]) -> Settings:
    """The settings of the config file, to which flags are added before they are checked.

    Args:
        text: the word that names it.
        before: the word before it on the command line.
        flags: of the command, and their types.
    """
    path = Path(text)
    if path.is_dir():
        raise InputError(
            f"{text} is a folder, expected a config file (.toml); a graph is named by --graph "
            f"{text}"
        )
    if not path.exists():
        flag = before.removeprefix("--").replace("_", "-")
        if before.startswith("--") and flags.get(flag) is bool:
            raise InputError(f"{before} is {text!r}, expected True or False")
        raise StorageError(
            f"cannot read {text}: there is no such file; expected a config file (.toml)"
        )
    return read_settings(path, check=False)


def _said(arguments: list[str]) -> tuple[str, ...]:
    """Returns the settings that the caller gave by flags."""
    flags = (text.partition("=")[0] for text in arguments if text.startswith("--"))
    return tuple(flag.removeprefix("--").replace("-", "_") for flag in flags)
