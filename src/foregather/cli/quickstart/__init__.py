"""quickstart: the short tour of `foregather quickstart`, and the files that it may replace."""

from foregather.cli.quickstart.tour import Quickstart

__all__ = ["Quickstart"]
