"""Lightning trains from a Loader as its `train_dataloader`, and keeps its position."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from foregather import Graph, Loader
from foregather.nn import SAGE
from tests.loader.graphs import grouped

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's hints about its own settings

QUIET = {
    "accelerator": "cpu",
    "enable_checkpointing": False,
    "enable_model_summary": False,
    "enable_progress_bar": False,
    "logger": False,
}


@pytest.fixture(scope="module")
def lightning():
    """Imported by whoever runs these tests, not by everyone who collects them: it takes seconds."""
    why = "pytorch_lightning is not installed; pip install pytorch-lightning"
    return pytest.importorskip("pytorch_lightning", reason=why)


@pytest.fixture(scope="module")
def make_module(lightning):
    class Module(lightning.LightningModule):
        """A SAGE that notes the seeds and losses it was given."""

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.model = SAGE([6, 16, 2], dropout=0.0)
            self.seeds, self.losses, self.right = [], [], []

        def training_step(self, batch, _):
            scores = self.model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = functional.cross_entropy(scores, batch.y[: batch.batch_size])
            self.seeds.append(batch.seed_id.tolist())
            self.losses.append(loss.item())
            return loss

        def validation_step(self, batch, _):
            scores = self.model(batch.x, batch.edge_index)[: batch.batch_size]
            self.right += (scores.argmax(1) == batch.y[: batch.batch_size]).tolist()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.05)

    return Module


def graph() -> Graph:
    """200 nodes in two classes that their features tell."""
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    x = rng.normal(size=(200, 6)).astype(np.float32)
    x[:, 0] += 3 * labels
    splits = {"train": np.arange(120), "valid": np.arange(120, 200)}
    return Graph.from_edge_index(rng.integers(0, 200, (2, 800)), 200, x=x, y=labels, splits=splits)


def loader(split: str = "train", **options) -> Loader:
    return Loader(graph(), [4, 4], split, 25, shuffle=split == "train", **grouped(options))


@pytest.mark.parametrize("pyg", [True, False])
def test_two_epochs(pyg, lightning, make_module, tmp_path):
    if pyg:
        pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    module = make_module()
    trainer = lightning.Trainer(
        max_epochs=2, num_sanity_val_steps=0, default_root_dir=tmp_path, **QUIET
    )
    trainer.fit(module, loader(pyg=pyg), loader("valid", pyg=pyg))
    assert trainer.global_step == len(module.losses) == 10
    expected = loader(pyg=False)
    assert module.seeds == [batch.seed_id.tolist() for _ in range(2) for batch in expected]
    assert sorted(np.concatenate(module.seeds[5:])) == list(range(120)), "every seed once an epoch"
    assert module.losses[-1] < module.losses[0]
    assert len(module.right) == 2 * 80 and np.mean(module.right[80:]) > 0.8


@pytest.fixture(scope="module")
def make_saves(lightning):
    class Saves(lightning.Callback):
        """Writes a checkpoint after the third batch, in the middle of the first epoch."""

        def __init__(self, path) -> None:
            self.path = path

        def on_train_batch_end(self, trainer, *_):
            if trainer.global_step == 3:
                trainer.save_checkpoint(self.path)

    return Saves


def test_goes_on_in_the_middle_of_an_epoch(lightning, make_module, make_saves, tmp_path):
    """Lightning's checkpoint has the state of the loader: the batches that were left come next."""
    path, options = tmp_path / "middle.ckpt", {"max_epochs": 2, "default_root_dir": tmp_path}
    whole = make_module()
    lightning.Trainer(callbacks=[make_saves(path)], **options, **QUIET).fit(whole, loader())
    rest = make_module()
    lightning.Trainer(**options, **QUIET).fit(rest, loader(), ckpt_path=path)
    assert rest.seeds == whole.seeds[3:]
    assert rest.losses == whole.losses[3:]
    for a, b in zip(rest.parameters(), whole.parameters(), strict=True):
        assert torch.equal(a, b)
