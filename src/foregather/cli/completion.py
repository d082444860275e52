"""completion: prints what a shell needs to complete commands and flags."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro

__all__ = ["Completion"]


@dataclass(frozen=True)
class Completion:
    """Print shell completion: source <(foregather completion bash)."""

    shell: Annotated[Literal["bash", "zsh", "tcsh"], tyro.conf.Positional]
    """Which shell."""
    json: bool = False
    """Print the facts as JSON."""

    def run(self) -> dict[str, Any]:
        """Makes the script."""
        import subprocess
        import sys

        command = [sys.executable, "-m", "foregather", "--tyro-print-completion", self.shell]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return {"shell": self.shell, "script": done.stdout}

    def show(self, facts: dict[str, Any]) -> str:
        """Returns the script."""
        return str(facts["script"]).rstrip("\n")
