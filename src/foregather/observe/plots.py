"""plots: figures drawn without a display and saved to files; matplotlib only when asked for."""

import io
from pathlib import Path
from typing import Any

from foregather.errors import InputError, MissingDependencyError, StorageError
from foregather.files import write_safely

__all__ = ["new_figure", "save_figure"]


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


def save_figure(figure: Any, path: Path) -> None:
    """Writes the figure, whole; its kind follows the file name.

    Raises:
        InputError: the ending is not one matplotlib knows.
        StorageError: the file cannot be written; what was there is still there.
    """
    drawn = io.BytesIO()
    try:
        figure.savefig(drawn, dpi=150, format=path.suffix.removeprefix(".") or "png")
    except ValueError as error:
        raise InputError(f"cannot draw to {path.name}: end it in .png, .pdf or .svg") from error
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write {path.name}: {error.strerror}") from error
    write_safely(path, drawn.getvalue())
