"""A planted bug: a file, the text that is replaced in it, and the tests that should notice."""

from dataclasses import dataclass

from tests.processes import ROOT

__all__ = ["ROOT", "Mutant", "mutants"]


@dataclass(frozen=True)
class Mutant:
    """One change of one place.

    Attributes:
        name: what breaks.
        file: where, below the project.
        old: the text, which is there exactly once.
        new: what it becomes.
        tests: files or tests that should fail then.
        same: why nothing a user sees can change, for a mutant that no test can notice.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    same: str = ""

    @property
    def compiled(self) -> bool:
        """Whether the core must be built again."""
        return self.file.startswith("csrc/")

    def planted(self, text: str) -> str:
        """The file with the bug.

        Raises:
            ValueError: the text is not there, or more than once.
        """
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.file} holds {self.old!r} {text.count(self.old)}x")
        return text.replace(self.old, self.new)


def mutants(
    file: str, tests: str, *rows: tuple[str, str, str] | tuple[str, str, str, str]
) -> list[Mutant]:
    """Mutants of one file that the same tests should notice: (name, old, new[, why the same])."""
    found = tuple(f"tests/{name}" for name in tests.split())
    return [Mutant(row[0], file, row[1], row[2], found, *row[3:]) for row in rows]
