"""main: parses the command line, runs one command, prints its summary or JSON.

A ForegatherError prints one sentence to stderr and exits with code 2; an interrupt exits with code
130, a termination with 143, and both leave nothing half-made behind.
"""

import inspect
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import tyro

import foregather
from foregather.cli.bench import Bench
from foregather.cli.completion import Completion
from foregather.cli.doctor import Doctor
from foregather.cli.flags import check_arguments, commands_of, with_switches
from foregather.cli.graphs.convert import Convert
from foregather.cli.graphs.info import Info
from foregather.cli.graphs.partition import PartitionCommand
from foregather.cli.graphs.reorder import Reorder
from foregather.cli.graphs.synth import Synth
from foregather.cli.graphs.verify import Verify
from foregather.cli.help import with_tidy_help
from foregather.cli.plan import Plan
from foregather.cli.quickstart import Quickstart
from foregather.cli.training.infer import Infer
from foregather.cli.training.names import describe_names
from foregather.cli.training.report import Report
from foregather.cli.training.train import Train, settings_default
from foregather.cli.training.train_full import TrainFull, full_default
from foregather.cli.waiting import let_threads_sleep
from foregather.errors import ForegatherError, StorageError
from foregather.observe.progress import quiet
from foregather.train.settings import naming_file

__all__ = ["main"]

_ABOUT = "Train graph neural networks on graphs that have outgrown RAM or one machine."

_NO_MEMORY = (
    "this machine does not have enough memory for this command; reduce its size (nodes, columns, "
    "layers, batch size), or set a budget with memory"
)


def _named(name: str, command: type) -> Any:
    """The command's name, and its first sentence for the list of all commands."""
    first = inspect.cleandoc(command.__doc__ or "").partition("\n\n")[0]
    return tyro.conf.subcommand(name, description=" ".join(first.split()))


Command = (
    Annotated[Quickstart, _named("quickstart", Quickstart)]
    | Annotated[Synth, _named("synth", Synth)]
    | Annotated[Convert, _named("convert", Convert)]
    | Annotated[Info, _named("info", Info)]
    | Annotated[PartitionCommand, _named("partition", PartitionCommand)]
    | Annotated[Reorder, _named("reorder", Reorder)]
    | Annotated[Verify, _named("verify", Verify)]
    | Annotated[Doctor, _named("doctor", Doctor)]
    | Annotated[Plan, _named("plan", Plan)]
    | Annotated[Train, _named("train", Train)]
    | Annotated[Infer, _named("infer", Infer)]
    | Annotated[TrainFull, _named("train-full", TrainFull)]
    | Annotated[Report, _named("report", Report)]
    | Annotated[Bench, _named("bench", Bench)]
    | Annotated[Completion, _named("completion", Completion)]
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    let_threads_sleep()  # before torch is imported
    try:
        code = _run(argv)
        sys.stdout.flush()  # here, where a closed pipe can still be noticed
    except BrokenPipeError:  # as in `| head`: exit quietly, as with SIGPIPE
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return code


def _run(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["--version"], ["-V"]):
        print(f"foregather {foregather.__version__}")
        return 0
    try:
        if {"-h", "--help"} & set(arguments):
            command = with_tidy_help(lambda: _parse(arguments))
        else:
            command = _parse(arguments)
    except SystemExit as stop:
        return 0 if stop.code is None else stop.code if isinstance(stop.code, int) else 2
    except ForegatherError as error:  # a flag, or a config file
        print(f"foregather: {error}", file=sys.stderr)
        return 2
    try:
        with _terminable():
            if command.json:
                with quiet():
                    facts = command.run()
                text = json.dumps(facts, indent=1, default=_plain) if facts else ""
            else:
                text = command.show(command.run())
        if text:  # with several ranks only the first prints
            print(text)
    except BrokenPipeError:
        raise
    except (ForegatherError, OSError) as error:
        ours = _as_ours(error)
        if command.json:
            print(json.dumps({"error": str(ours), "kind": type(ours).__name__}))
        print(f"foregather: {ours}", file=sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:
        if not _is_memory(error):
            raise
        print(f"foregather: {_NO_MEMORY}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        said = str(stop) or "interrupted; nothing half-made was left behind"
        print(f"foregather: {said}", file=sys.stderr)
        return 130
    return 0


def _is_memory(error: BaseException) -> bool:
    """Whether this is an out-of-memory error of Python, NumPy or torch."""
    return isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error)


def _as_ours(error: ForegatherError | OSError) -> ForegatherError:
    """Returns the error; a bare system error is turned into a sentence here."""
    if isinstance(error, ForegatherError):
        return error
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    where = f" of {' and '.join(names)}" if names else ""
    return StorageError(f"reading or writing{where} failed: {error.strerror or error}")


def _parse(arguments: list[str]) -> Any:
    """The command; of `train` and `train-full`, with the values of a config file as defaults."""
    commands = commands_of(Command)
    arguments = with_switches(arguments, commands)
    check_arguments(arguments, commands)
    wants_help = bool({"-h", "--help"} & set(arguments))
    options: dict[str, Any] = {"config": (tyro.conf.FlagCreatePairsOff,)}  # help names one of two
    if not wants_help:  # no source is read for texts that nobody will see
        options["config"] = (tyro.conf.HelptextFromCommentsOff,)
    if arguments[:1] == ["train"] and wants_help:
        about = f"{inspect.cleandoc(Train.__doc__ or '')}\n\n{describe_names()}"
        return tyro.cli(
            Train, args=arguments[1:], prog="foregather train", description=about, **options
        )
    if arguments[:1] == ["train"] and (default := settings_default(arguments)) is not None:
        with naming_file(default.settings, default.config or Path("config.toml")):
            return tyro.cli(
                Train, args=arguments[1:], prog="foregather train", default=default, **options
            )
    if arguments[:1] == ["train-full"] and (full := full_default(arguments)) is not None:
        return tyro.cli(
            TrainFull, args=arguments[1:], prog="foregather train-full", default=full, **options
        )
    if arguments and arguments[0] in commands:  # one parser instead of all
        name, *rest = arguments
        return tyro.cli(commands[name], args=rest, prog=f"foregather {name}", **options)
    return tyro.cli(Command, args=arguments, prog="foregather", description=_ABOUT, **options)


@contextmanager
def _terminable() -> Iterator[None]:
    """Makes SIGTERM raise inside a command, so that it cleans up."""
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # other threads cannot set handlers
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)
