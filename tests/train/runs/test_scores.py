"""What a run is remembered by: scores by every edge or called sampled; counters that add up."""

import json
import math
import re
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from foregather import BatchContents, Graph, Loader
from foregather.cli.main import main
from foregather.nn import SAGE
from foregather.sampling import Full
from foregather.train.checkpoints.checkpoint import list_checkpoints
from foregather.train.metrics import METRICS, accuracy, loss_of
from foregather.train.runs import final_scores as final
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import run_loop
from foregather.train.settings import MemorySettings, ModelSettings, SamplerSettings, write_settings
from tests.train.runs import records, settings_of, small_folder, train


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_folder(tmp_path_factory)


class Hidden(torch.nn.Module):
    """A user's model that does not show its layers."""

    def __init__(self, in_channels, out_channels, depth=2):
        super().__init__()
        self.inner = SAGE([in_channels, *[16] * (depth - 1), out_channels], 0.0)

    def forward(self, x, edge_index):
        return self.inner(x, edge_index)


def by_every_edge(run, folder, kind=None):
    """Accuracies of the delivered weights on the whole graph at once."""
    from safetensors.torch import load_file

    graph = Graph.open(folder)
    shape = (graph.features.width, int(graph.labels.max()) + 1)
    model = Hidden(*shape) if kind else SAGE([shape[0], 16, shape[1]])
    model.load_state_dict(load_file(run / "model.safetensors"))
    model.eval()
    (batch,) = Loader(
        graph, batch_size=graph.num_nodes, sampler=Full(2), contents=BatchContents(pyg=False)
    )
    with torch.no_grad():
        scores = model(batch.x, batch.edge_index)[: graph.num_nodes].numpy()
    return {name: accuracy(scores, graph.labels, graph.split(name)) for name in ("valid", "test")}


FEW = SamplerSettings(fanouts=(1, 1))  # so that sampled scores are far from exact ones


@pytest.mark.slow
@pytest.mark.parametrize("kind", [None, f"{__name__}:Hidden"])
@pytest.mark.parametrize("memory", [MemorySettings(), MemorySettings("60MB", "features")])
def test_final_scores_are_those_of_every_edge(folder, tmp_path, kind, memory):
    changes = {"model": ModelSettings(kind)} if kind else {}
    facts = train(settings_of(folder, tmp_path / "r", sampler=FEW, memory=memory, **changes))
    expected = by_every_edge(tmp_path / "r", folder, kind)
    assert facts["scored"] == "exact"
    assert {name: facts[name] for name in expected} == pytest.approx(expected, abs=1e-9)
    assert facts["best_valid_scored"] == "sampled"
    assert facts["best_valid"] == max(record["valid"] for record in records(tmp_path / "r"))
    assert facts["best_valid"] != facts["valid"]


def test_a_model_that_looks_further_is_not_called_exact(folder, tmp_path):
    model = ModelSettings(f"{__name__}:Hidden", options={"depth": 3})
    heard = []
    facts = train(settings_of(folder, tmp_path / "r", model=model), heard.append)
    assert facts["scored"] == "sampled"
    assert "Hidden looks further than its 2 layers" in facts["why_sampled"]
    assert any(text.startswith("the final scores are sampled, since") for text in heard)
    deep = replace(model, layers=3)
    assert train(settings_of(folder, tmp_path / "d", model=deep))["scored"] == "exact"


def test_a_budget_that_does_not_hold_it(folder, tmp_path, monkeypatch):
    from foregather.errors import BudgetError

    def refuse(*args, **options):
        raise BudgetError("memory is too small; give at least 9 GB")

    monkeypatch.setattr(final, "infer", refuse)
    facts = train(settings_of(folder, tmp_path / "r"))
    assert facts["scored"] == "sampled" and "at least 9 GB" in facts["why_sampled"]
    assert 0 < facts["test"] < 1


def test_what_is_sampled_is_called_so_everywhere(folder, tmp_path, capsys):
    base = ["train", "--graph", str(folder), "--train.epochs", "1", "--train.threads", "1"]
    for wanted, more in (("exact", []), ("sampled", ["--train.final", "sampled"])):
        run = tmp_path / wanted
        assert main([*base, "--run", str(run), *more]) == 0
        said = capsys.readouterr()
        assert re.search(r"accuracy  train 0\.\d+ \(sampled\)  valid 0\.\d+ \(sampled\)", said.err)
        assert re.search(r"best      epoch 1, valid accuracy 0\.\d+ \(sampled\)", said.out)
        line = rf"^(valid|test) +accuracy 0\.\d+, majority class 0\.\d+ \({wanted}"
        assert len(re.findall(line, said.out, re.M)) == 2
        assert records(run)[0]["scored"] == "sampled"
        assert json.loads((run / "summary.json").read_text())["scored"] == wanted
        assert main(["report", str(run), "--json"]) == 0
        page = (run / "report.html").read_text()
        assert f"<td>test ({wanted})</td>" in page and f"<td>valid ({wanted})</td>" in page
        assert "train (sampled)" in page and "<th>accuracy, valid (sampled)</th>" in page
        capsys.readouterr()
    (tmp_path / "c.toml").write_text('[train]\nfinal = "sampled"\nevaluate = "exact"\n')
    flags = ["--run", str(tmp_path / "j"), "--json"]
    assert main(["train", str(tmp_path / "c.toml"), *base[1:], *flags]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["scored"] == "sampled" and facts["best_valid_scored"] == "exact"


def test_labels_that_are_missing_are_not_counted():
    import numpy as np

    scores = np.eye(4, 3, dtype=np.float32)
    labels = np.array([0, 1, -1, -1])
    assert accuracy(scores, labels, np.arange(4)) == 1.0
    assert math.isnan(accuracy(scores, labels, np.array([2, 3])))


# ---- counters ----------------------------------------------------------------------------------

NAMES = ("bytes", "requests", "rows", "hits")


@pytest.fixture
def counted(monkeypatch):
    """What the executors of all loaders of a run counted, each looked at before it is closed."""
    total = dict.fromkeys(NAMES, 0)
    real = Loader.close

    def close(self):
        for name in NAMES:
            total[name] += self.counters().get("features", {}).get(name, 0)
        real(self)

    monkeypatch.setattr(Loader, "close", close)
    return total


def told(run):
    """What the run says it moved: epochs, what was beside them, and the end."""
    summary = json.loads((run / "summary.json").read_text())
    found = {}
    for name in NAMES:
        epochs = sum(r[name] + r["beside"][name] for r in records(run))
        assert epochs <= summary[name]
        found[name] = summary[name]
    return found


@pytest.mark.parametrize("evaluate", ["sampled", "exact"])
def test_counters_add_up_to_what_the_executors_read(folder, tmp_path, counted, evaluate):
    settings = settings_of(folder, tmp_path / "r", memory=MemorySettings("60MB", "features"))
    settings = replace(settings, train=replace(settings.train, evaluate=evaluate, final="sampled"))
    train(settings)
    found = told(tmp_path / "r")
    if evaluate == "exact":  # rows between layers are read by plan too; they are counted as bytes
        assert found["bytes"] >= counted["bytes"] > 0
        assert found["rows"] <= counted["rows"]
    else:
        assert found == counted and counted["bytes"] > 0 and counted["rows"] > counted["hits"]
    assert records(tmp_path / "r")[0]["beside"]["bytes"] > 0, "the model was tried on real rows"
    for record in records(tmp_path / "r"):
        assert record["bytes"] == record["predicted_bytes"]


def test_a_resumed_run_counts_what_it_moved_before(folder, tmp_path, counted):
    settings = settings_of(folder, tmp_path / "r", memory=MemorySettings("60MB", "features"))
    settings = replace(settings, train=replace(settings.train, final="sampled"))
    whole = train(replace(settings, run=str(tmp_path / "whole")))
    seen = {name: counted[name] for name in NAMES}

    def stop(text):
        if text.startswith("epoch 2"):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), Run.create(settings, stop) as run:
        run_loop(run)
    with Run.resume(tmp_path / "r", say=lambda text: None) as run:
        facts = run_loop(run)
    assert told(tmp_path / "r") == {name: counted[name] - seen[name] for name in NAMES}
    assert facts["rows"] > whole["rows"]  # the model was tried once more


class Signalling(SAGE):
    """Sends its process a signal in its 18th training step: in the midst of the second epoch."""

    def __init__(self, in_channels, out_channels):
        super().__init__([in_channels, 16, out_channels])
        self.calls = 0

    def forward(self, x, edge_index):
        self.calls += self.training
        if self.training and self.calls == 18:
            signal.raise_signal(signal.SIGINT)
        return super().forward(x, edge_index)


def test_an_epoch_that_was_interrupted_counts_all_its_batches(folder, tmp_path, capsys):
    model = ModelSettings(f"{__name__}:Signalling")
    memory = MemorySettings("60MB", "features")
    settings = settings_of(folder, tmp_path / "r", memory=memory, model=model)
    (tmp_path / "c.toml").write_text(write_settings(settings))
    assert main(["train", str(tmp_path / "c.toml"), "--json"]) == 130
    assert "00000006" in list_checkpoints(tmp_path / "r" / "checkpoints")[0].name
    assert main(["train", "--resume", str(tmp_path / "r"), "--trust-code", "--json"]) == 0
    rows = [record["rows"] for record in records(tmp_path / "r")]
    assert rows[1] >= 0.95 * rows[0], "batches before the interrupt count too"


@pytest.mark.parametrize("kind", ["f4", "f8", "i1", "i8"])
def test_missing_entries_of_several_columns_count_nowhere(kind):
    """Against entry by entry: a loss and a score see the entries that are there, and no other."""
    draw = np.random.default_rng(0)
    scores = torch.tensor(draw.normal(size=(50, 4)), requires_grad=True)
    given = draw.integers(-1, 2, (50, 4))
    given[:3] = -1  # nothing of these nodes
    labels = torch.from_numpy(given.astype(kind))
    if kind[0] == "f":
        labels[given < 0] = float("nan")
        labels[3:20][torch.from_numpy(given[3:20]) < 0] = -1  # old folders have either
    loss = loss_of(scores, labels)
    (slope,) = torch.autograd.grad(loss, scores)
    terms, shares = [], []
    for row, truth in zip(scores.tolist(), given.tolist(), strict=True):
        there = [(s, t) for s, t in zip(row, truth, strict=True) if t >= 0]
        terms += [math.log1p(math.exp(-s if t else s)) for s, t in there]
        shares += [(s > 0) == (t > 0) for s, t in there]
    assert float(loss.detach()) == pytest.approx(sum(terms) / len(terms), rel=1e-6)
    assert bool((slope[torch.from_numpy(given) < 0] == 0).all()) and bool(slope.any())
    assert METRICS["accuracy"].of(scores, labels) == sum(shares) / len(shares)
    assert float(loss_of(scores.detach(), labels[:3].repeat(17, 1)[:50])) == 0.0


def test_whole_columns_are_scored_as_ever():
    """Bit for bit torch's own binary cross entropy where nothing is missing."""
    scores, labels = torch.randn(40, 6), torch.randint(0, 2, (40, 6), dtype=torch.uint8)
    own = torch.nn.functional.binary_cross_entropy_with_logits(scores, labels.float())
    assert float(loss_of(scores, labels)) == float(own)


def test_a_run_leaves_missing_entries_out(folder, tmp_path):
    """What stands in missing entries (-1 or NaN) makes no difference to a run."""
    graph, found = Graph.open(folder), {}
    labels = np.eye(5, dtype=np.float32)[np.array(graph.labels)]
    labels[np.random.default_rng(1).random(labels.shape) < 0.3] = np.nan
    for name, held in (("nan", labels), ("minus", np.where(np.isnan(labels), -1, labels))):
        place = replace(graph, path=None, meta={}, labels=held).save(tmp_path / name)
        facts = train(settings_of(place, tmp_path / f"r-{name}"))
        found[name] = [record["loss"] for record in records(tmp_path / f"r-{name}")]
        found[name] += [facts["valid"], facts["test"]]
    assert found["nan"] == found["minus"]
    assert 0 < found["nan"][-3] < found["nan"][0] < 1
