"""train: trains a model on a graph folder as a config file or flags say: `foregather train`."""

import itertools
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from foregather.errors import InputError
from foregather.train.settings import Settings, read_settings, with_options
from foregather.units import format_bytes

__all__ = ["Train", "settings_default"]


@dataclass(frozen=True)
class Train:
    """Train a model; everything about the run goes to one folder, from which it can be resumed.

    Sections of the config file are the prefixes of the flags: `lr` of `[optimizer]` is
    --optimizer.lr. Flags win over the file.
    """

    config: Annotated[Path | None, tyro.conf.Positional] = None
    """A config file (.toml)."""
    settings: Annotated[Settings, tyro.conf.arg(name="")] = field(default_factory=Settings)
    options: tuple[str, ...] = ()
    """Options of a class of your own: model.heads=2 sampler.name=text."""
    resume: Path | None = None
    """Go on with the run in this folder, to the same weights as if it had never stopped."""
    json: bool = False
    """Print the summary as JSON."""

    def run(self) -> dict[str, Any]:
        """Trains to the end."""
        from foregather.train.conduct import conduct
        from foregather.train.run import Run

        say = _say_nothing if self.json else _say
        settings = with_options(self.settings, self.options)
        if self.resume is not None:
            run = Run.resume(self.resume, None if settings == Settings() else settings, say)
        else:
            if not settings.graph:
                raise InputError(
                    'no graph is given; write graph = "FOLDER" in the config, or --graph FOLDER'
                )
            run = Run.create(settings, say)
        with run:
            return conduct(run)

    def show(self, facts: dict[str, Any]) -> str:
        """The summary for people."""
        lines = [f"run       {facts['run']}: {facts['epochs']} epochs, {facts['seconds']:.1f} s"]
        if "valid" in facts:
            lines.append(f"best      epoch {facts['best_epoch']}, valid {facts['valid']:.4f}")
        if "test" in facts:
            lines.append(f"test      {facts['test']:.4f}")
        if facts["bytes"]:
            lines.append(f"read      {format_bytes(facts['bytes'])} from disk")
        lines.append(f"next      foregather report {facts['run']}")
        return "\n".join(lines)


def _say(text: str) -> None:
    from tqdm import tqdm

    tqdm.write(text, file=sys.stderr)


def _say_nothing(text: str) -> None:
    """For --json: standard output is for the program that reads it."""


def settings_default(arguments: list[str]) -> "Train | None":
    """What the flags of `train` stand beside: a config file, or that of the run to resume.

    Raises:
        InputError: the file has an unknown key or a wrong value.
        StorageError: it cannot be read.
    """
    named = [text for text in arguments if text.endswith(".toml") and not text.startswith("-")]
    if named:
        return Train(config=Path(named[0]), settings=read_settings(Path(named[0])))
    for flag, value in itertools.pairwise([*arguments, ""]):
        folder = value if flag == "--resume" else flag.removeprefix("--resume=")
        if folder != flag and (Path(folder) / "config.toml").is_file():
            return Train(settings=read_settings(Path(folder) / "config.toml"))
    return None
