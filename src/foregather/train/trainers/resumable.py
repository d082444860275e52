"""resumable: what trainers over a `Training` share: its model, position and state."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from foregather.train.fit import SampledEpochs
from foregather.train.parallel_model import whole_weights

__all__ = ["ResumableEpochs"]


class ResumableEpochs(SampledEpochs):
    """Epochs over the batches of a loader that checkpoints can hold."""

    @property
    def model(self) -> nn.Module:
        """What is trained."""
        return self.training.model

    def position(self) -> tuple[int, int]:
        """Epochs that are done, and batches of the next."""
        done, place = len(self.training.history), self.training.loader.state_dict()
        return done, 0 if place["epoch"] > done else place["batch"]

    def state_dict(self) -> dict[str, Any]:
        """As of the training."""
        return self.training.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As of the training."""
        self.training.load_state_dict(state)

    def like(self, path: str) -> Tensor:
        """As of the training."""
        return self.training.like(path)

    def best_weights(self) -> dict[str, Tensor]:
        """Those of the best validation, or the last."""
        return whole_weights(self.training.best or self.training.model.state_dict())
