"""infer_links: `foregather infer` with the model of a run on links: pairs, best targets, rows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foregather.errors import InputError
from foregather.units import format_bytes, format_count

__all__ = ["AskedLinks", "infer_links", "show_links"]


@dataclass(frozen=True)
class AskedLinks:
    """What was asked; fields are the flags of `foregather infer`."""

    run_folder: Path
    graph: Path
    out: Path | None
    pairs: Path | None
    top_k: int | None
    embeddings: bool
    relation: str
    with_known: bool
    nodes: tuple[str, ...]
    memory: str | None
    batch_size: int | None
    overwrite: bool
    trust_code: bool

    def flags(self) -> list[str]:
        """What is asked about links."""
        given = {
            "--pairs": self.pairs is not None,
            "--top-k": self.top_k is not None,
            "--embeddings": self.embeddings,
        }
        return [name for name, there in given.items() if there]

    def check(self, links: bool) -> None:
        """Refuses options that do not fit the run.

        Raises:
            InputError: the message has the option, and what to do.
        """
        asked, name = self.flags(), self.run_folder.name
        if not links:
            others = {"--relation": self.relation, "--with-known": self.with_known}
            if odd := [*asked, *(flag for flag, given in others.items() if given)]:
                raise InputError(f"{odd[0]} is for runs on links, but {name} learned about nodes")
            return
        if len(asked) != 1:
            given = " and ".join(asked) or "none of them"
            raise InputError(
                f"{name} was trained on links: pass one of --pairs FILE, --top-k K and "
                f"--embeddings; given: {given}"
            )
        if self.out is None:
            raise InputError("OUT is not given; name the file to make")
        unused = {
            "--batch-size": self.batch_size is not None,
            "--nodes": bool(self.nodes),
            "--relation": bool(self.relation) and self.top_k is None,
            "--with-known": self.with_known and self.top_k is None,
            "--memory": self.memory is not None and self.top_k is None,
        }
        for flag, there in unused.items():
            if there:
                what = "tasks of nodes" if flag in ("--batch-size", "--nodes") else "--top-k"
                raise InputError(f"{flag} is for {what}; leave it out")


def infer_links(asked: AskedLinks) -> dict[str, Any]:
    """Infers with the model of a run on links; what was asked is checked."""
    from foregather.observe.progress import peak_memory
    from foregather.train.links.inference.infer_links import (
        infer_embeddings,
        infer_pairs,
        infer_top_k,
    )
    from foregather.train.links.inference.load_links import load_links

    assert asked.out is not None
    run = load_links(asked.run_folder, asked.graph, asked.trust_code)
    if asked.pairs is not None:
        facts = infer_pairs(run, asked.pairs, asked.out, asked.overwrite)
    elif asked.top_k is not None:
        facts = infer_top_k(
            run,
            asked.top_k,
            asked.out,
            relation=asked.relation,
            with_known=asked.with_known,
            memory=asked.memory,
            overwrite=asked.overwrite,
        )
    else:
        facts = infer_embeddings(run, asked.out, asked.overwrite)
    return facts | {"link": True, "peak_memory": peak_memory()}


def show_links(facts: dict[str, Any]) -> str:
    """What was written, for people."""
    peak = f"peak {format_bytes(facts['peak_memory'])}"
    if "pairs" in facts:
        return f"wrote     {facts['out']}: scores of {format_count(facts['pairs'])} pairs; {peak}"
    if "k" in facts:
        return (
            f"wrote     {facts['out']}: {format_count(facts['lines'])} lines, the best "
            f"{facts['k']} targets of {format_count(facts['sources'])} sources, known ones "
            f"{facts['known']}; {peak}"
        )
    return f"wrote     {', '.join(facts['out'])}: rows of {facts['width']} columns; {peak}"
