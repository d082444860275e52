"""Errors: one base class and its subclasses.

Every message says what was given, what was expected and what to do. The command line prints the
message as one sentence and exits with code 2.
"""

__all__ = [
    "AccelerateWarning",
    "BudgetError",
    "ForegatherError",
    "FormatError",
    "InputError",
    "MissingDependencyError",
    "NumericError",
    "RankError",
    "StorageError",
]


class ForegatherError(Exception):
    """Base of every error raised on purpose by foregather."""


class InputError(ForegatherError, ValueError):
    """An argument or the caller's data breaks a stated rule (ids out of range, wrong shape)."""


class FormatError(ForegatherError, ValueError):
    """A file or folder is not what it claims to be: wrong header, truncated, failed checksum."""


class BudgetError(ForegatherError, MemoryError):
    """The memory budget is too small; the message states the minimum.

    Attributes:
        least: that minimum in bytes, if known.
    """

    least: int | None = None


class StorageError(ForegatherError, OSError):
    """The operating system refused: disk full, read-only target, existing target, I/O error."""


class MissingDependencyError(ForegatherError, ImportError):
    """An optional package is needed for this; the message says which extra installs it."""


class RankError(ForegatherError, RuntimeError):
    """A rank died, stalled or cannot be reached; the message names it and the step."""


class NumericError(ForegatherError, ArithmeticError):
    """Training produced NaN or infinity; the message says where it appeared first."""


class AccelerateWarning(UserWarning):
    """A model is left as it is by `foregather.nn.accelerate`; the message names the module."""
