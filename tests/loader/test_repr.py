"""What loaders and runs say of themselves."""

from foregather import Graph, Loader
from foregather.graph.synthetic import synthesize
from foregather.train.runs.run import Run
from tests.train.runs import settings_of


def test_loaders_and_runs_say_what_they_are(tmp_path):
    synthesize(tmp_path / "g", 500, degree=4, features=8, classes=3, seed=0)
    graph = Graph.open(tmp_path / "g")
    count = len(graph.split("train"))
    loader = Loader(graph, [3, 3], "train", batch_size=100)
    batches = -(-count // 100)
    told = f"Loader({batches} batches of 100 from {count}; Neighbor"
    assert repr(loader).startswith(told) and repr(loader).endswith("next: epoch 0, batch 0)")
    for _ in loader:
        break
    assert "next: epoch 0, batch 1)" in repr(loader) or "next: epoch 1" in repr(loader)
    with Run.create(settings_of(tmp_path / "g", tmp_path / "r"), say=print) as run:
        assert repr(run) == f"Run({str(tmp_path / 'r')!r}: sage on {tmp_path / 'g'}, epoch 0 of 3)"
