"""plots: figures drawn without a display and saved to files; matplotlib is imported on use."""

import io
import os
from pathlib import Path
from typing import Any

from foregather.errors import InputError, MissingDependencyError, StorageError
from foregather.files import write_safely
from foregather.targets import check_replaced, check_target

__all__ = ["check_figure", "new_figure", "save_figure"]


def new_figure(title: str, x_label: str, y_label: str) -> tuple[Any, Any]:
    """A figure and its axes, off screen.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(
            "plots need matplotlib; install it with: pip install 'foregather[plot]'"
        ) from error
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    axes.set(title=title, xlabel=x_label, ylabel=y_label)
    axes.grid(visible=True, alpha=0.3)
    return figure, axes


def check_figure(path: Path | None) -> None:
    """Checks a plot's target before the work; None means no plot.

    Raises:
        MissingDependencyError: matplotlib is not installed.
        InputError: matplotlib does not know the file extension.
        StorageError: it is inside a graph, part of a run, or not a file.
    """
    if path is None:
        return
    figure, _ = new_figure("", "", "")
    if _format(path) not in figure.canvas.get_supported_filetypes():
        raise _unknown(path)
    check_target(path)
    if os.path.lexists(path):
        check_replaced(path)


def _format(path: Path) -> str:
    return path.suffix.removeprefix(".").lower() or "png"


def _unknown(path: Path) -> InputError:
    return InputError(f"cannot draw to {path.name}: end it in .png, .pdf or .svg")


def save_figure(figure: Any, path: Path) -> None:
    """Writes the figure completely or not at all; the extension chooses the format.

    Raises:
        InputError: matplotlib does not know the file extension.
        StorageError: the file is inside a graph, or cannot be written; an existing file is kept.
    """
    check_target(path)
    drawn = io.BytesIO()
    try:
        figure.savefig(drawn, dpi=150, format=_format(path))
    except ValueError as error:
        raise _unknown(path) from error
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write {path.name}: {error.strerror}") from error
    write_safely(path, drawn.getvalue())
