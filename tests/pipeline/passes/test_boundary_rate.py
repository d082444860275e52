"""Boundary rows that only cross sometimes: the draw, an emulation, unbiased sums, exact bytes."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from foregather.errors import InputError
from foregather.nn.layer import GraphLayer
from foregather.pipeline import FullGraph, Line, Runtime, make_chunks, make_plan
from foregather.pipeline.passes.boundary_sample import kept_nodes
from foregather.pipeline.planning.profile import LayerCost
from tests.pipeline.cases import model, small_graph
from tests.pipeline.oracle import matrix
from tests.pipeline.way_ranks import EPOCHS, MODELS, RATES, SAMPLED_WAYS

GRAPH = small_graph()
WHOLE = {norm: matrix(GRAPH, norm) for norm in ("mean", "gcn")}
CHUNKS = make_chunks(GRAPH, SAMPLED_WAYS, "random", 0, SAMPLED_WAYS)
WAY = torch.from_numpy(CHUNKS.chunk_of(CHUNKS.number))
ACROSS = WAY[:, None] != WAY[None, :]


def sampled_matrices(rate: float, epoch: int) -> dict[str, torch.Tensor]:
    """Dense matrices in which an edge between ways counts 1 / p times, or not at all."""
    kept = torch.from_numpy(kept_nodes(np.arange(60), rate, 0, epoch) / rate)
    return {norm: a * torch.where(ACROSS, kept[None, :], 1.0) for norm, a in WHOLE.items()}


def emulated_loss(layers, matrices) -> torch.Tensor:
    """Layers on all nodes at once; features of the graph are on all ranks and never left out."""
    x, skips = torch.from_numpy(GRAPH.features.data).double(), {}
    for number, layer in enumerate(layers):
        near = None
        if layer.aggregates:
            raw = number == 0 and type(layer).message is GraphLayer.message
            m, given = layer.message(x), WHOLE if raw else matrices
            near = SimpleNamespace(
                own=m,
                count=60,
                aggregate=lambda norm="mean", m=m, given=given: given[norm] @ m,
                dense=lambda part, *values: part(*values),
            )
        x = layer.update(x, near, **{name: skips[name] for name in layer.needs})
        if layer.gives:
            skips[layer.gives] = x
    train = torch.from_numpy(GRAPH.split("train"))
    labels = torch.from_numpy(np.asarray(GRAPH.labels, np.int64))
    return torch.nn.functional.cross_entropy(x[train], labels[train])


@pytest.mark.parametrize("rate", [rate for rate in RATES if rate < 1])
@pytest.mark.parametrize("kind", MODELS)
def test_epochs_equal_an_emulation(kind, rate, ways):
    layers = model(kind)
    optimizer = torch.optim.Adam([p for layer in layers for p in layer.parameters()], 0.05)
    losses = []
    for epoch in range(EPOCHS):
        optimizer.zero_grad()
        loss = emulated_loss(layers, sampled_matrices(rate, epoch))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    for again in ("none", "all"):
        for rank in range(SAMPLED_WAYS):
            found = ways[rank]["sampled"][kind, rate, again]
            assert found["ran"] == ["sampled"] * EPOCHS
            assert found["losses"] == pytest.approx(losses, abs=1e-11)
            for name, weight in torch.nn.ModuleList(layers).named_parameters():
                assert torch.allclose(found["weights"][name], weight, atol=1e-9, rtol=0), name


def test_a_rate_of_one_is_exact_bit_for_bit(ways):
    for rank in range(SAMPLED_WAYS):
        found = ways[rank]["sampled"]
        ours, exact = found["gcn", 1.0, "none"], found["no rate"]
        assert ours["ran"] == ["exact"] * EPOCHS and ours["losses"] == exact["losses"]
        for name, weight in exact["weights"].items():
            assert torch.equal(ours["weights"][name], weight)


def test_bytes_are_announced_for_each_epoch(ways):
    """By epoch, by link and by purpose; and fewer than exact training sends."""
    for kind in MODELS:
        whole = ways[0]["sampled"][kind, 1.0, "none"]["volumes"][0]["exchange"]
        for rate in RATES:
            found = [ways[rank]["sampled"][kind, rate, "none"] for rank in range(SAMPLED_WAYS)]
            for one in found:
                assert one["noted"] == one["announced"] and one["noted"]
            volumes = found[0]["volumes"]
            for epoch in range(EPOCHS):
                sent = sum(
                    one["sent"][epoch][purpose]
                    for one in found
                    for purpose in ("exchange", "exchange_back")
                )
                assert sent == volumes[epoch]["exchange"]
                assert sent < whole or rate == 1
            if rate < 1:
                assert len({volume["exchange"] for volume in volumes}) > 1


def test_the_draw_depends_on_seed_epoch_and_node_alone():
    ids = np.arange(5000)
    kept = kept_nodes(ids, 0.3, 7, 11)
    some = np.random.default_rng(0).permutation(5000)[:700]
    assert (kept_nodes(some, 0.3, 7, 11) == kept[some]).all()
    for seed, epoch in ((8, 11), (7, 12), (11, 7)):
        assert 0.3 < (kept_nodes(ids, 0.3, seed, epoch) == kept).mean() < 0.75
    assert kept[kept_nodes(ids, 0.1, 7, 11)].all()  # a larger share keeps what a smaller one keeps
    assert kept_nodes(ids, 1.0, 7, 11).all()


def test_each_node_is_kept_as_often_as_the_rate_says():
    """2000 epochs of 300 nodes: by node, by pair of nodes, and from one epoch to the next."""
    epochs, rate = 2000, 0.3
    kept = np.array([kept_nodes(np.arange(300), rate, 1, epoch) for epoch in range(epochs)])
    spread = (rate * (1 - rate) / epochs) ** 0.5
    off = (kept.mean(0) - rate) / spread
    assert np.abs(off).max() < 4.5 and abs(off.std() - 1) < 0.2
    centred = kept - rate
    for one, other in ((centred[:, :-1], centred[:, 1:]), (centred[:-1], centred[1:])):
        correlation = (one * other).mean(0) / (rate * (1 - rate)) * epochs**0.5
        assert np.abs(correlation).max() < 5 and abs(correlation.mean()) < 0.3


def test_sums_are_right_on_average():
    """The mean of the sampled product over epochs nears the whole one as 1 / sqrt(epochs)."""
    m = torch.from_numpy(np.random.default_rng(2).standard_normal((60, 4)))
    rate, epochs = 0.3, 3000
    for norm, whole in WHOLE.items():
        total, square = torch.zeros(60, 4).double(), torch.zeros(60, 4).double()
        for epoch in range(epochs):
            out = sampled_matrices(rate, epoch)[norm] @ m
            total, square = total + out, square + out.square()
        mean = total / epochs
        error = ((square / epochs - mean.square()).clamp(min=0) / epochs).sqrt()
        off = (mean - whole @ m)[error > 1e-12] / error[error > 1e-12]
        assert off.numel() > 200
        assert float(off.abs().max()) < 4.5 and abs(float(off.std()) - 1) < 0.2


def test_what_cannot_be_sampled_is_refused(ways):
    for rank in range(SAMPLED_WAYS):
        found = ways[rank]["sampled"]
        assert "boundary_rate is 0.5 with 1 stage, 3 ways and 6 chunks" in found["chunks"]
        assert "with mode 'exact', which leaves no row out" in found["exact"]
        assert "split by columns, expected graph-parallel ranks" in found["columns"]
        assert "boundary_rate is 0.5 with 3 stages, 1 way and 3 chunks" in found["stages"]
        assert "different graphs, layers or options" in found["other"]
        assert "a layer reads rows of in-neighbours one by one" in found["attention"]
    for rate in (0.0, -1, 1.5, float("nan")):
        with pytest.raises(InputError, match="boundary_rate is .*, expected a share above 0"):
            Runtime(boundary_rate=rate)
    with pytest.raises(InputError, match="expected graph-parallel ranks"):
        FullGraph(GRAPH, model("gcn"), 4, "fast", runtime=Runtime(boundary_rate=0.5))


def test_the_planner_considers_it_where_it_was_asked_for():
    layers = model("gcnii")
    costs = [LayerCost((1e-9,) * 3, (1e-9,) * 3, (1.0, 1.0))] * len(layers)

    def made(mode, **options):
        return make_plan(
            GRAPH, layers, 2, mode, partition="random", costs=costs, line=Line(1e-9, 1e6),
            runtime=Runtime(**options),
        )  # fmt: skip

    schemes = {c.setting.scheme: c for c in made("fast", boundary_rate=0.25).candidates}
    whole, part = schemes["graph"], schemes["sampled"]
    weights = 2 * sum(p.numel() for layer in layers for p in layer.parameters()) * 8
    assert (part.bytes - weights) == pytest.approx((whole.bytes - weights) / 4, rel=0.05)
    assert part.stale == 0 and part.seconds < whole.seconds
    for mode, options in (("exact", {"boundary_rate": 0.25}), ("fast", {})):
        assert "sampled" not in {c.setting.scheme for c in made(mode, **options).candidates}
    plan = made("fast", boundary_rate=0.01)
    assert plan.options()["runtime"].boundary_rate == plan.chosen.setting.rate
