"""options: what a Loader is told beyond PyG's arguments, in small values that go together.

`BatchContents` says what a batch holds, `RankOptions` how ranks work together. Release 0.1 had
their fields as arguments of the Loader; so given, they are still understood, with a warning.
"""

from dataclasses import dataclass, fields
from typing import Any, Literal

from foregather.errors import InputError
from foregather.loader.arguments import check_choice
from foregather.loader.batches.leaf_sums import Leaves
from foregather.loader.batches.pyg_batch import has_pyg, need_pyg
from foregather.loader.rank_options import RankOptions
from foregather.old_spellings import from_old_arguments

__all__ = ["BatchContents", "OLD_ARGUMENTS", "contents_from", "ranks_from"]


@dataclass(frozen=True, slots=True)
class BatchContents:
    """What a batch holds besides features, and in which form.

    Attributes:
        labels: y of "all" nodes, as PyG does, or of the "seeds" only; a graph without labels has
            none.
        edge_attr: batches hold edge features: None where the graph has them; True refuses a graph
            without them; False leaves them out.
        norm: "gcn": edge_weight is 1 / sqrt(d_target d_source) with the in-degrees of the whole
            graph (sums of weights where it has weights), as PyG's `gcn_norm` with
            add_self_loops=False, times the sampler's correction, or times in-degree / edges
            sampled of the target where the sampler has none: the expected sum over the sampled
            edges is the sum over all. Use it with `GCNConv(normalize=False)`, on a graph that has
            self-loops if the model wants them (`self_loops=True` when it is made).
        edge_index: "tensor", or "EdgeIndex" for PyG's class, marked as sorted by target.
        pyg: batches are PyG's Data: "auto" where PyG is installed, True, or False for a plain
            Batch.
        leaves: "rows": x of all nodes. "sum" and "weighted" leave out the rows of leaves, the nodes
            first met last, which a linear first layer (SAGE, GCN, GIN, GraphConv) only adds up:
            `x` has the rows of the other nodes, and `neighbor_sum` for each of them the sum of the
            rows of its sampled in-neighbours, for "weighted" times `edge_weight`. A mean is
            `neighbor_sum` over the number of edges. For models that use it; others refuse such a
            batch.

    Raises:
        InputError: a field has another value.
    """

    labels: Literal["all", "seeds"] = "all"
    edge_attr: bool | None = None
    norm: Literal["gcn"] | None = None
    edge_index: Literal["tensor", "EdgeIndex"] = "tensor"
    pyg: Literal["auto"] | bool = "auto"
    leaves: Leaves = "rows"

    def __post_init__(self) -> None:
        check_choice("labels", self.labels, ("all", "seeds"))
        check_choice("edge_attr", self.edge_attr, (None, True, False))
        check_choice("norm", self.norm, (None, "gcn"))
        check_choice("edge_index", self.edge_index, ("tensor", "EdgeIndex"))
        check_choice("pyg", self.pyg, ("auto", True, False))
        check_choice("leaves", self.leaves, ("rows", "sum", "weighted"))
        if self.edge_index == "EdgeIndex" and self.pyg is False:
            raise InputError(
                "edge_index is 'EdgeIndex', a class of PyG, but pyg is False, which makes plain "
                "batches; leave one of them out"
            )

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


_NEW = {"leaves"}  # fields that were never arguments
#: Arguments of release 0.1 that are fields now.
OLD_ARGUMENTS = frozenset(
    one.name for kind in (BatchContents, RankOptions) for one in fields(kind)
).difference(_NEW)


def contents_from(given: Any, others: dict[str, Any]) -> BatchContents:
    """The contents given, or made from arguments of release 0.1, which are taken out of `others`.

    Raises:
        InputError: both are there, what is given is none, or a field is given that never was an
            argument.
    """
    for name in _NEW.intersection(others):
        raise InputError(f"{name} is a field: write contents=foregather.BatchContents({name}=...)")
    return from_old_arguments(given, others, BatchContents(), "contents", "a Loader")


def ranks_from(given: Any, others: dict[str, Any], grid: Any) -> RankOptions:
    """The same for the options of ranks.

    Raises:
        InputError: also where there is no grid whose ranks they could be for.
    """
    named = [one.name for one in fields(RankOptions) if one.name in others]
    made = from_old_arguments(given, others, RankOptions(), "ranks", "a Loader")
    if grid is None and (given is not None or named):
        what = "ranks" if given is not None else named[0]
        raise InputError(
            f"{what}= says how the ranks of grid= work together, but grid= is not given; leave "
            f"{what}= out, or pass grid=Grid() under torchrun"
        )
    return made
