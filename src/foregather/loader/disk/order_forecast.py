"""order_forecast: what a Loader's epoch would read if feature rows lay in other orders.

Batches are sampled as the Loader will sample them (an order changes no sample), and planned with
its cache for every order. Nothing is written, and of the features nothing is read.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.gather.feature_file import FeatureFile
from foregather.graph.order.find import ORDERS, find_order, to_places
from foregather.loader.batches.tree_rows import distinct_nodes
from foregather.loader.memory.layout import Layout
from foregather.observe.calibration import load_calibration
from foregather.plan.orders import OrderForecast, forecast_orders

if TYPE_CHECKING:
    from foregather.loader.loader import Loader

__all__ = ["COMPARED", "NOW", "forecast_loader_orders", "sampled_rows"]

Array = npt.NDArray[Any]

#: The rows as they lie now.
NOW = "as it is"
#: Orders that are compared where none is named: those that need no other package.
COMPARED = ("communities", "bfs", "rcm", "hot", "hot+communities")


def sampled_ids(loader: "Loader", batches: int) -> tuple[list[list[Array]], Layout]:
    """The nodes of the first batches of epoch 0, in bulks of the Loader, and its layout.

    Raises:
        InputError: the Loader reads no feature rows from disk, or no batch is wanted.
    """
    layout, maker = loader.layout, loader._maker
    if layout is None or layout.features != "disk":
        raise InputError(
            "no feature rows are read from disk with this memory, so how they lie does not matter; "
            "give a smaller memory"
        )
    if batches < 1:
        raise InputError(f"batches is {batches}, expected at least 1")
    end, bulks = min(batches, len(maker.seeds)), []
    for start in range(0, end, layout.bulk):
        dealt = maker.deal(0, start, min(layout.bulk, end - start))
        bulks.append([np.array(distinct_nodes(one)) for one in maker.sample(dealt, 0, start)])
    return bulks, layout


def sampled_rows(loader: "Loader", batches: int) -> tuple[list[list[Array]], Layout]:
    """The same with the rows of the feature file in place of nodes."""
    ids, layout = sampled_ids(loader, batches)
    file = FeatureFile.of(loader.graph)
    return [list(file.rows(bulk)) for bulk in ids], layout


def forecast_loader_orders(
    loader: "Loader",
    orders: Sequence[str] = COMPARED,
    batches: int = 64,
    memory: str | int = "2GB",
) -> tuple[OrderForecast, ...]:
    """Predicts requests, bytes and seconds of an epoch for each order.

    Args:
        loader: with a budget under which feature rows are read from disk.
        orders: names of `foregather.graph.order.ORDERS`.
        batches: how many are sampled, in bulks of the Loader.
        memory: bytes that may be held while an order is found.

    Returns:
        The rows as they lie now (`NOW`), then each order.

    Raises:
        InputError: an order is not known, or the Loader reads no feature rows from disk.
        BudgetError: an order needs more memory; the message states how much.
    """
    unknown = [name for name in orders if name not in ORDERS]
    if unknown or not orders:
        raise InputError(
            f"orders are {', '.join(orders) or 'none'}, expected some of {', '.join(ORDERS)}"
        )
    ids, layout = sampled_ids(loader, batches)
    maker = loader._maker
    graph, file = maker.graph, FeatureFile.of(maker.graph)

    def place(name: str) -> Callable[[], Any]:
        return lambda: to_places(find_order(graph, name, memory))

    def now() -> Any:
        return np.arange(len(file), dtype=np.uint32) if file.places is None else file.places

    found = forecast_orders(
        ids,
        {NOW: now, **{name: place(name) for name in orders}},
        file.geometry(),
        layout.num_slots,
        load_calibration(file.path.parent),
        epoch_batches=len(maker.seeds),
    )
    return tuple(found)
