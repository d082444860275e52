"""user_weights: weights by the names that they have in the user's model, not in its layers."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from torch import Tensor, nn

__all__ = ["UserWeights"]

T = TypeVar("T")


class UserWeights:
    """The names of a run's weights.

    Args:
        layers: as they are trained. Those of a model that was recorded know its names; weights of
            other layers are named by the number of their layer.

    Attributes:
        model: the user's model; None for a list of layers.
    """

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        self.model: nn.Module | None = None
        self._layers = layers
        self._names: dict[str, str] = {}
        for number, layer in enumerate(layers):
            found = getattr(layer, "user_model", None)
            if found is not None:
                self.model = found[0]
                names: Mapping[str, str] = layer.user_names  # type: ignore[assignment]
                self._names |= {f"{number}.{inner}": name for inner, name in names.items()}

    def renamed(self, weights: Mapping[str, T]) -> dict[str, T]:
        """The same with the user's names."""
        return {self._names.get(name, name): value for name, value in weights.items()}

    def all(self) -> dict[str, Tensor]:
        """Weights and buffers of the whole model as they are here, not copied."""
        if self.model is not None:
            return dict(self.model.state_dict())
        return {
            f"{number}.{name}": value
            for number, layer in enumerate(self._layers)
            for name, value in layer.state_dict().items()
        }
