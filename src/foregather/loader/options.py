"""options: what a Loader is told beyond PyG's arguments, in small values that go together.

`BatchContents` says what a batch holds, `RankOptions` how ranks work together. Release 0.1 had
their fields as arguments of the Loader; so given, they are still understood, with a warning.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar

from foregather.errors import InputError
from foregather.loader.arguments import check_choice
from foregather.loader.batches.pyg_batch import has_pyg, need_pyg
from foregather.loader.rank_options import RankOptions
from foregather.renamed import warn_old_spelling

__all__ = ["BatchContents", "OLD_ARGUMENTS", "contents_from", "ranks_from"]

Options = TypeVar("Options", "BatchContents", RankOptions)


@dataclass(frozen=True, slots=True)
class BatchContents:
    """What a batch holds besides features, and in which form.

    Attributes:
        labels: y of "all" nodes, as PyG does, or of the "seeds" only.
        edge_attr: batches hold edge features: None where the graph has them; True refuses a graph
            without them; False leaves them out.
        norm: "gcn": edge_weight is 1 / sqrt(d_target d_source) with the in-degrees of the whole
            graph (sums of weights where it has weights), as PyG's `gcn_norm` with
            add_self_loops=False, times the sampler's correction, or times in-degree / edges
            sampled of the target where the sampler has none: the expected sum over the sampled
            edges is the sum over all. Use it with `GCNConv(normalize=False)`, on a graph that has
            self-loops if the model wants them (`self_loops=True` when it is made).
        edge_index: "tensor", or "EdgeIndex" for PyG's class, which aggregates faster.
        pyg: batches are PyG's Data: "auto" where PyG is installed, True, or False for a plain
            Batch.

    Raises:
        InputError: a field has another value.
    """

    labels: Literal["all", "seeds"] = "all"
    edge_attr: bool | None = None
    norm: Literal["gcn"] | None = None
    edge_index: Literal["tensor", "EdgeIndex"] = "tensor"
    pyg: Literal["auto"] | bool = "auto"

    def __post_init__(self) -> None:
        check_choice("labels", self.labels, ("all", "seeds"))
        check_choice("edge_attr", self.edge_attr, (None, True, False))
        check_choice("norm", self.norm, (None, "gcn"))
        check_choice("edge_index", self.edge_index, ("tensor", "EdgeIndex"))
        check_choice("pyg", self.pyg, ("auto", True, False))

    def uses_pyg(self) -> bool:
        """Whether batches are PyG's.

        Raises:
            MissingDependencyError: PyG is asked for, and not installed.
        """
        if self.edge_index == "EdgeIndex":
            need_pyg('edge_index="EdgeIndex"')
        if self.pyg == "auto":
            return has_pyg()
        if self.pyg:
            need_pyg("pyg=True")
        return self.pyg


#: Arguments of release 0.1 that are fields now.
OLD_ARGUMENTS = frozenset(one.name for kind in (BatchContents, RankOptions) for one in fields(kind))


def contents_from(given: Any, others: dict[str, Any]) -> BatchContents:
    """The contents given, or made from arguments of release 0.1, which are taken out of `others`.

    Raises:
        InputError: both are there, or what is given is none.
    """
    return _from(given, others, BatchContents(), "contents")


def ranks_from(given: Any, others: dict[str, Any]) -> RankOptions:
    """The same for the options of ranks."""
    return _from(given, others, RankOptions(), "ranks")


def _from(given: Any, others: dict[str, Any], usual: Options, name: str) -> Options:
    kind = type(usual)
    old = {one.name: others.pop(one.name) for one in fields(kind) if one.name in others}
    if given is not None and not isinstance(given, kind):
        raise InputError(f"{name} is {given!r}, expected {_spelled(kind, ())}")
    if not old:
        return usual if given is None else given
    now = f"{name}={_spelled(kind, old)}"
    if given is not None:
        raise InputError(f"{', '.join(old)} and {name} are both given; write {now}")
    warn_old_spelling(f"{', '.join(f'{one}=' for one in old)} of a Loader", now)
    return replace(usual, **old)


def _spelled(kind: type, names: Iterable[str]) -> str:
    return f"foregather.{kind.__name__}({', '.join(f'{one}=...' for one in names) or '...'})"
