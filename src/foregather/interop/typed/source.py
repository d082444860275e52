"""source: PyG's data as the graph that is sampled, and what finishes its batches."""

from dataclasses import dataclass
from typing import Any

from torch_geometric.data import Data

from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import PLAIN_RELATION
from foregather.graph.hetero.relation import Level
from foregather.interop.stores.finish import PairFinish
from foregather.interop.stores.pair import Pair, is_pair
from foregather.interop.typed.finish import TimedFinish, TypedFinish
from foregather.interop.typed.topology import typed_topology

__all__ = ["DataSource", "source_of"]


@dataclass(frozen=True, slots=True, eq=False)
class DataSource:
    """A Data, a HeteroData, or a pair of stores.

    Attributes:
        data: as it was given.
        graph: what is sampled.
        level: whose times `time_attr` names; None: there are none.
        plain: batches are Data, of one type of nodes without a name.
        pair: the stores, if these were given.
    """

    data: Any
    graph: HeteroGraph
    level: Level | None
    plain: bool
    pair: Pair | None = None

    def finish(self, level: Level | None, custom_cls: Any = None) -> Any:
        """What makes batches of samples; `level` is that of the sampler.

        Raises:
            InputError: an attribute cannot be sliced; names the type or relation.
        """
        if self.pair is not None:
            return PairFinish(self.pair, level, custom_cls)
        if self.plain:
            return TimedFinish(self.data, self.graph.relation(PLAIN_RELATION, level))
        return TypedFinish(self.data, self.graph, level)


def source_of(
    data: Any, time_attr: str | None, weight_attr: str | None, whole: Any = None
) -> DataSource:
    """Converts PyG's data; arguments as of `typed_topology`.

    Raises:
        InputError: edges, times or weights that cannot be used; names the type or relation.
    """
    if is_pair(data):
        pair = Pair.of(data, time_attr, weight_attr)
        return DataSource(data, pair.graph, pair.level, pair.plain, pair)
    graph, level = typed_topology(data, time_attr, weight_attr, whole)
    return DataSource(data, graph, level, isinstance(data, Data))
