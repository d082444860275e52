"""plots: figures drawn without a display and saved to files; matplotlib only when asked for."""

from pathlib import Path
from typing import Any

from foregather.errors import InputError, MissingDependencyError, StorageError

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
    """Writes the figure; its kind follows the file name.

    Raises:
        InputError: the ending is not one matplotlib knows.
        StorageError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
    except ValueError as error:
        raise InputError(f"cannot draw to {path.name}: end it in .png, .pdf or .svg") from error
    except OSError as error:
        raise StorageError(f"cannot write {path.name}: {error.strerror}") from error
