"""Full-graph training on one device against the oracle, in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.pipeline import FullGraph, Meter, Runtime, Techniques, make_chunks
from foregather.pipeline.planning.chunk_order import chunk_order
from tests.pipeline.cases import MODELS, copy_of, model, sgd, small_graph, weights_of
from tests.pipeline.oracle import Oracle, places

GRAPH = small_graph()


def exact_training(layers, epochs: int, graph=GRAPH) -> list[float]:
    """Plain full-graph training of the layers by the oracle; returns losses."""
    optimizer = torch.optim.SGD([p for layer in layers for p in layer.parameters()], 0.5)
    oracle, losses = Oracle(graph, layers), []
    for _ in range(epochs):
        optimizer.zero_grad()
        loss = oracle.loss()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def fast_training(layers, chunks, epochs, seed, techniques, graph=GRAPH) -> list[float]:
    """Training with history by the oracle: three products a layer."""
    optimizer = torch.optim.SGD([p for layer in layers for p in layer.parameters()], 0.5)
    oracle, losses = Oracle(graph, layers), []
    for epoch in range(epochs):
        order = chunk_order(len(chunks), seed, epoch, techniques.reshuffle)
        place = places(chunks, order)
        if epoch == 0 and techniques.first_sweep:
            oracle.forward(place)
            oracle.commit()
        optimizer.zero_grad()
        loss = oracle.loss(place, techniques.factor)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        if (epoch + 1) % techniques.refresh == 0:
            oracle.commit()
    return losses


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_one_chunk_equals_exact_training(name, mode):
    ours, theirs = model(name), model(name)
    run = FullGraph(GRAPH, ours, 1, mode, optimizer=sgd())
    losses = [report.loss for report in run.fit(3)]
    assert np.allclose(losses, exact_training(theirs, 3), atol=1e-12, rtol=0)
    assert torch.allclose(weights_of(ours), weights_of(theirs), atol=1e-10, rtol=0)


@pytest.mark.parametrize("recompute", ["none", "all"])
@pytest.mark.parametrize("name", MODELS)
def test_exact_mode_equals_exact_training_for_any_chunks(name, recompute):
    theirs = model(name)
    losses = exact_training(theirs, 3)
    for chunks, partition in ((2, "natural"), (9, "random")):
        ours = model(name)
        runtime = Runtime(recompute=recompute)
        run = FullGraph(GRAPH, ours, chunks, partition=partition, optimizer=sgd(), runtime=runtime)
        assert np.allclose([r.loss for r in run.fit(3)], losses, atol=1e-12, rtol=0)
        assert torch.allclose(weights_of(ours), weights_of(theirs), atol=1e-10, rtol=0)


TECHNIQUES = [
    Techniques(),
    Techniques(reshuffle=False, first_sweep=False),
    Techniques(refresh=2, factor=2.0),
    Techniques(refresh=3, factor=0.0, first_sweep=False),
    Techniques.published(),
]


@pytest.mark.slow
@pytest.mark.parametrize("recompute", ["none", "dense", "all"])
@pytest.mark.parametrize("name", MODELS)
def test_fast_mode_equals_the_oracle(name, recompute):
    for number, techniques in enumerate(TECHNIQUES):
        if recompute != "none" and number != 2:
            continue
        chunks = make_chunks(GRAPH, 3 + number, "random", number)
        ours, theirs = model(name), model(name)
        run = FullGraph(
            GRAPH,
            ours,
            3 + number,
            "fast",
            optimizer=sgd(),
            seed=number,
            partition="random",
            techniques=techniques,
            runtime=Runtime(recompute=recompute),
        )
        losses = fast_training(theirs, chunks, 4, number, techniques)
        assert np.allclose([r.loss for r in run.fit(4)], losses, atol=1e-12, rtol=0)
        assert torch.allclose(weights_of(ours), weights_of(theirs), atol=1e-10, rtol=0)


@settings(max_examples=8)
@given(st.integers(1, 12), st.integers(0, 60), st.integers(0, 5), st.sampled_from(sorted(MODELS)))
def test_random_graphs_equal_the_oracle(nodes, edges, seed, name):
    rng = np.random.default_rng(seed)
    graph = small_graph(nodes + 3, edges, seed)
    chunks = make_chunks(graph, int(rng.integers(1, nodes + 4)), "random", seed)
    ours, theirs, other = model(name), model(name), model(name)
    options = {"optimizer": sgd(), "seed": seed, "partition": "random"}
    FullGraph(graph, ours, len(chunks), "fast", **options).fit(2)
    fast_training(theirs, chunks, 2, seed, Techniques(), graph)
    assert torch.allclose(weights_of(ours), weights_of(theirs), atol=1e-10, rtol=0)
    ours = model(name)
    FullGraph(graph, ours, len(chunks), "exact", **options).fit(2)
    exact_training(other, 2, graph)
    assert torch.allclose(weights_of(ours), weights_of(other), atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", MODELS)
def test_sweeps_make_the_forward_pass_exact(name):
    layers = model(name)
    run = FullGraph(GRAPH, layers, 6, "fast", partition="random", techniques=Techniques())
    oracle = Oracle(GRAPH, copy_of(layers))
    oracle.forward()
    stage = run.engine.stage
    stale = [n for n in stage.program.aggregating if not stage.reads_features(n)]
    order = torch.from_numpy(run.chunks.order)
    for sweep in range(len(stale)):
        run.engine.sweep(sweep)
        for number in stale[: sweep + 1]:  # the first messages are exact after one sweep
            history = run.engine.history.of(number).history
            assert torch.allclose(history, oracle.messages[number][order], atol=1e-12, rtol=0)
    assert abs(run.engine.fast(9) - float(oracle.loss().detach())) < 1e-12


@pytest.mark.parametrize("name", MODELS)
def test_surrogate_gradient_passes_finite_differences(name):
    layers = model(name)
    run = FullGraph(GRAPH, layers, 5, "fast", partition="random")
    engine = run.engine
    engine.sweep(0)
    with torch.no_grad():  # so that history is not the truth
        for weight in engine.parameters().values():
            weight += 0.05 * torch.cos(torch.arange(weight.numel())).view_as(weight)
    engine.clear()
    engine.fast(1)
    rng = np.random.default_rng(0)
    gradients = {key: weight.grad.clone() for key, weight in engine.parameters().items()}
    for key, weight in engine.parameters().items():
        place = int(rng.integers(weight.numel()))
        gradient, step = float(gradients[key].flatten()[place]), 1e-5
        losses = []
        for sign in (1, -1):
            with torch.no_grad():
                weight.view(-1)[place] += sign * step
            losses.append(engine.fast(1))
            with torch.no_grad():
                weight.view(-1)[place] -= sign * step
        assert abs((losses[0] - losses[1]) / (2 * step) - gradient) < 1e-8, key


def test_dropout_does_not_depend_on_recomputation_and_leaves_the_stream_alone():
    found = []
    for mode in ("exact", "fast"):
        for recompute in ("none", "dense", "all"):
            layers = model("resgcn", 0.4)
            runtime = Runtime(recompute=recompute)
            torch.manual_seed(7)
            FullGraph(GRAPH, layers, 4, mode, optimizer=sgd(), runtime=runtime).fit(3)
            assert torch.rand(1, dtype=torch.float64) == _first_draw(7)
            found.append(weights_of(layers))
    for weights in found[1:3]:
        assert torch.allclose(weights, found[0], atol=1e-12, rtol=0)
    for weights in found[4:]:
        assert torch.allclose(weights, found[3], atol=1e-12, rtol=0)
    assert not torch.allclose(found[0], found[3], atol=1e-6)


def _first_draw(seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.rand(1, dtype=torch.float64)


def test_a_dag_in_its_order_has_no_staleness():
    from foregather import Graph

    rng = np.random.default_rng(1)
    source = rng.integers(0, 40, 200)
    target = source + rng.integers(1, 20, 200)
    nodes, seed = 60, 3
    order = chunk_order(4, seed, 0)
    parts = np.repeat(order, 15)  # sources come before targets in the order of epoch 0
    graph = Graph.from_edge_index(
        np.stack([source, target]),
        nodes,
        x=rng.random((nodes, 7)),
        y=rng.integers(0, 3, nodes),
        splits={"train": np.arange(nodes)},
    )
    ours, theirs = model("resgcn"), model("resgcn")
    techniques = Techniques(reshuffle=False, first_sweep=False)
    options = {"partition": parts, "seed": seed, "optimizer": sgd(), "techniques": techniques}
    FullGraph(graph, ours, 4, "fast", meter=Meter(every=0), **options).fit(3)
    exact_training(theirs, 3, graph)
    assert torch.allclose(weights_of(ours), weights_of(theirs), atol=1e-10, rtol=0)
