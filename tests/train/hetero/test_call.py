"""train/hetero/call: scores and labels are those of the input rows, which may repeat."""

import numpy as np
import pytest
import torch

from foregather import HeteroLoader
from foregather.train.hetero.call import seed_labels, seed_scores
from tests.some import some
from tests.train.hetero.shop import shop, shop_folder, train_typed, typed_settings


class Ids(torch.nn.Module):
    """Scores that tell which node they are of."""

    def forward(self, batch):
        return batch["user"].n_id[:, None].float()


@pytest.mark.parametrize("disjoint", [False, True])
def test_rows_that_repeat(disjoint):
    graph, rows = shop(), np.array([7, 3, 7, 7, 9, 3, 1])
    loader = HeteroLoader(graph, [2], ("user", rows), 4, disjoint=disjoint)
    found = [(seed_scores(Ids(), b, "user"), seed_labels(b, "user")) for b in some(loader)]
    assert torch.cat([scores for scores, _ in found]).flatten().tolist() == rows.tolist()
    labels = torch.cat([labels for _, labels in found]).numpy()
    assert (labels == graph.nodes["user"].labels[rows]).all()


def test_several_classes_at_the_same_time(tmp_path):
    labels = np.eye(3, dtype=np.int8)[shop().nodes["user"].labels]
    path = shop_folder(tmp_path / "g.fg", labels=labels)
    facts = train_typed(typed_settings(path, tmp_path / "r"))
    assert facts["scored"] == "exact" and facts["metric"] == "micro_f1"
    assert facts["baseline"]["test"] == 0.5  # all three to everyone: one of them is right
