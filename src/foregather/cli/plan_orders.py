"""plan_orders: the part of `foregather plan` that compares orders and dtypes of feature rows."""

from typing import TYPE_CHECKING, Any

from foregather.units import format_bytes

if TYPE_CHECKING:
    from foregather.loader.loader import Loader

__all__ = ["dtype_facts", "order_facts", "show_forecasts"]


def order_facts(loader: "Loader", orders: tuple[str, ...], batches: int) -> dict[str, Any]:
    """The forecasts of a budget; an error is a fact too."""
    from foregather.errors import ForegatherError
    from foregather.loader.disk.order_forecast import COMPARED, forecast_loader_orders
    from foregather.plan.orders import explain_orders

    try:
        wanted = COMPARED if orders == ("all",) else orders
        found = forecast_loader_orders(loader, wanted, batches or 64)
    except ForegatherError as error:
        return {"error": str(error)}
    return {
        "orders": [one.facts(found[0]) for one in found],
        "text": explain_orders(found, found[0]),
    }


def dtype_facts(loader: "Loader", batches: int) -> dict[str, Any]:
    """The forecasts of narrower rows; an error is a fact too."""
    from foregather.errors import ForegatherError
    from foregather.loader.disk.dtype_forecast import explain_dtypes, forecast_dtypes

    try:
        found = forecast_dtypes(loader, batches or 64)
    except ForegatherError as error:
        return {"error": str(error)}
    return {"dtypes": [one.facts() for one in found], "text": explain_dtypes(found)}


def show_forecasts(points: list[dict[str, Any]]) -> list[str]:
    """The tables of all budgets, as lines."""
    lines = []
    for point in points:
        for name in ("orders", "dtypes"):
            if name in point:
                found = point[name]
                lines += ["", f"{name} with memory {format_bytes(point['memory'])}:"]
                lines.append(found.get("error") or found["text"])
    return lines
