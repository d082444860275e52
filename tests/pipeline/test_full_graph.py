"""FullGraph as a user meets it: bad input, odd graphs, the meter, inference, state."""

import warnings

import numpy as np
import pytest
import torch

from foregather import Graph
from foregather.errors import InputError, NumericError
from foregather.nn import Dense, gcn_layers, sage_layers
from foregather.pipeline import FullGraph, Meter, Runtime, Techniques
from foregather.pipeline.passes.segments import as_layers, check_cuts, cut_layers, stage_program
from foregather.pipeline.staleness import Ladder, Reading
from tests.pipeline.cases import (
    CLASSES,
    MODELS,
    WIDTH,
    copy_of,
    model,
    sgd,
    small_graph,
    weights_of,
)
from tests.pipeline.oracle import Oracle
from tests.some import some

GRAPH = small_graph()


class Centred(torch.nn.Module):
    """Mixes nodes: takes the mean over rows away."""

    def forward(self, x):
        return x - x.mean(0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": []}, "layers is empty"),
        ({"layers": [3]}, "layer 0 is a int"),
        ({"layers": [torch.nn.Linear(9, 3)]}, "layer 0 .Dense. fails on rows of width 7"),
        ({"layers": [Centred(), torch.nn.Linear(7, 3)]}, "layer 0 .Dense. mixes nodes"),
        ({"layers": MODELS["gcnii"]()[2:]}, "needs the skip tensor 'initial'"),
        ({"layers": [Dense(torch.nn.ReLU(), "a")] * 2}, "gives 'a', as does an earlier layer"),
        ({"chunks": 61}, "chunks is 61"),
        ({"mode": "quick"}, "mode is 'quick'"),
        ({"split": "tr"}, "there is no split 'tr'"),
        ({"split": "none"}, "no labelled node"),
        ({"graph": Graph.from_edge_index(np.zeros((2, 1), int), 4)}, "the graph has no features"),
        ({"runtime": {"cuts": [1]}}, "cuts is \\[1\\], expected 0"),
        ({"runtime": {"recompute": "some"}}, "recompute is 'some'"),
        ({"runtime": {"boundary": "int4"}}, "boundary is 'int4'"),
        ({"runtime": {"timeout": 0}}, "timeout is 0"),
        ({"techniques": {"refresh": 0}}, "refresh is 0"),
        ({"techniques": {"factor": -1}}, "factor is -1"),
        ({"meter": {"every": -1}}, "every is -1"),
    ],
    ids=str,
)
def test_bad_input_is_named(change, message):
    kinds = {"runtime": Runtime, "techniques": Techniques, "meter": Meter}
    with pytest.raises(InputError, match=message):
        made = {k: kinds[k](**v) if k in kinds else v for k, v in change.items()}
        given = {"graph": GRAPH, "layers": gcn_layers([7, 3]), "chunks": 3, "partition": "natural"}
        FullGraph(**{**given, **made})


def test_more_stages_than_layers_and_cuts():
    layers = as_layers(model("gcnii"))  # dense, four convolutions, dense
    with pytest.raises(InputError, match="7 stages but 6 layers"):
        cut_layers(layers, 7)
    assert cut_layers(layers, 4) == [0, 2, 3, 4, 6]
    assert cut_layers(layers, 5) == [0, 1, 2, 3, 4, 6]  # more stages than convolutions
    assert check_cuts([2, 3], 6, 3) == [0, 2, 3, 6]
    for bad in ([], [2], [3, 2], [0, 2], [2, 6]):
        with pytest.raises(InputError, match="expected 2 ascending numbers"):
            check_cuts(bad, 6, 3)


def test_skip_tensors_cross_where_they_are_needed():
    layers, cuts = as_layers(model("gcnii")), [0, 2, 4, 6]
    crossing = [stage_program(layers, cuts, s, False) for s in range(3)]
    assert [p.skips_in for p in crossing] == [(), ("initial",), ("initial",)]
    assert [p.skips_out for p in crossing] == [("initial",), ("initial",), ()]
    again = [stage_program(layers, cuts, s, True) for s in range(3)]
    assert not any(p.skips_in or p.skips_out for p in again)
    assert [p.again for p in again] == [(), (0,), (0,)]


def test_odd_chunks_train_as_the_whole_graph():
    """A chunk without edges, isolated nodes, a chunk without training nodes, one node alone."""
    rng = np.random.default_rng(0)
    parts = np.r_[np.zeros(10), np.full(10, 1), np.full(10, 2), np.full(9, 3), [4]].astype(int)
    pairs = rng.integers(0, 30, (2, 150))  # chunks 3 and 4 have no edges at all
    graph = Graph.from_edge_index(
        pairs,
        40,
        x=rng.random((40, 7)),
        y=np.r_[rng.integers(0, 3, 39), [-1]],
        splits={"train": np.r_[np.arange(10), np.arange(30, 40)]},  # none in chunks 1 and 2
    )
    for name in MODELS:
        ours, theirs = model(name), model(name)
        FullGraph(graph, ours, 5, partition=parts, optimizer=sgd()).fit(2)
        FullGraph(graph, theirs, 1, optimizer=sgd(), partition="natural").fit(2)
        assert torch.allclose(weights_of(ours), weights_of(theirs), atol=1e-10, rtol=0)
        run = FullGraph(graph, ours, 5, "fast", partition=parts, optimizer=sgd())
        assert np.isfinite([report.loss for report in run.fit(2)]).all()


@pytest.mark.parametrize("name", MODELS)
def test_inference_equals_the_oracle(name):
    layers = model(name, 0.5)
    run = FullGraph(GRAPH, layers, 6, partition="random")
    training = [layer.training for layer in layers]
    scores = run.infer()
    assert [layer.training for layer in layers] == training
    with torch.no_grad():
        true = Oracle(GRAPH, [layer.eval() for layer in copy_of(layers)]).forward()
    assert torch.allclose(scores, true, atol=1e-12, rtol=0)
    valid = GRAPH.split("valid")
    right = (true.argmax(1).numpy() == GRAPH.labels)[valid].mean()
    assert run.evaluate("valid") == right


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_nan_names_stage_and_chunk(mode):
    graph = small_graph()
    graph.features.data[7] = np.nan
    run = FullGraph(graph, model("resgcn"), 6, mode, partition=np.arange(60) // 10)
    with pytest.raises(NumericError, match="epoch 0: rows of chunk .* in stage 0"):
        run.train_epoch()
    with pytest.raises(NumericError, match="NaN or infinite in stage 0"):
        run.infer()


@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_gradients_that_are_not_finite_name_their_layer(mode, value):
    """Scores and loss are finite; only what goes back is not."""
    layers = model("resgcn")
    run = FullGraph(GRAPH, layers, 4, mode, partition="random", optimizer=sgd())
    before = weights_of(layers)
    next(layers[2].parameters()).register_hook(lambda gradient: torch.full_like(gradient, value))
    with pytest.raises(NumericError, match="epoch 0: gradients of layer 2 are NaN or infinite"):
        run.train_epoch()
    assert torch.equal(weights_of(layers), before)


def test_meter_reads_what_the_oracle_finds():
    """Error of history and cosine, computed by the oracle from the same weights."""
    from foregather.pipeline.planning.chunk_order import chunk_order
    from tests.pipeline.oracle import places

    layers = model("resgcn")
    run = FullGraph(
        GRAPH, layers, 5, "fast", partition="random", optimizer=sgd(),
        meter=Meter(every=2, error=1e9, cosine=-1.0),
    )  # fmt: skip
    oracle = Oracle(GRAPH, layers)
    first, second = (places(run.chunks, chunk_order(5, 0, epoch)) for epoch in (0, 1))
    oracle.forward(first)  # the first sweep
    oracle.commit()
    oracle.forward(first)
    messages = dict(oracle.messages)
    assert run.train_epoch().reading is None
    twin = Oracle(GRAPH, copy_of(layers))
    twin.history = messages
    twin.loss(second).backward()
    used = torch.cat([p.grad.flatten() for layer in twin.layers for p in layer.parameters()])
    exact = Oracle(GRAPH, copy_of(layers))
    exact.loss().backward()
    true = torch.cat([p.grad.flatten() for layer in exact.layers for p in layer.parameters()])
    reading = run.train_epoch().reading
    errors = {n: float((messages[n] - m).norm() / m.norm()) for n, m in exact.messages.items()}
    assert reading.errors == pytest.approx(errors, abs=1e-10)
    assert reading.error == pytest.approx(max(errors.values()), abs=1e-10)
    assert reading.cosine == pytest.approx(float(used @ true / used.norm() / true.norm()))
    assert reading.length == pytest.approx(float(used.norm() / true.norm()))


def test_dropout_is_not_staleness():
    """With weights that stand still and exact history, new dropout every epoch is no error."""
    run = FullGraph(
        GRAPH, model("gcnii", 0.5), 5, "fast", partition="random", optimizer=sgd(0.0),
        meter=Meter(every=1, error=1e-9, cosine=-1.0), techniques=Techniques(reshuffle=False),
    )  # fmt: skip
    run.engine.sweep(0, count=6)  # exact for the dropout of epoch 0
    run._filled, run.epoch = True, 1
    reading = run.train_epoch().reading
    assert reading.error < 1e-9 and reading.cosine < 1 - 1e-6


def test_the_meter_never_changes_a_fast_run():
    found = []
    for every in (0, 1):
        layers = model("gcnii", 0.3)
        meter = Meter(every=every, error=1e9, cosine=-1.0)
        FullGraph(GRAPH, layers, 5, "fast", partition="random", meter=meter).fit(4)
        found.append(weights_of(layers))
    assert torch.equal(*found)


def test_bounded_warns_and_climbs_to_exact():
    layers, exact = model("gcnii"), model("gcnii")
    run = FullGraph(
        GRAPH, layers, 6, "bounded", partition="random", optimizer=sgd(3.0),
        meter=Meter(every=1, error=0.0),
    )  # fmt: skip
    with pytest.warns(UserWarning, match="history is off by .* beyond the bounds"):
        reports = run.fit(4)
    assert [r.ran for r in reports] == ["exact"] * 4  # the exact gradient was at hand
    assert run._ladder.name == "exact"
    FullGraph(GRAPH, exact, 1, optimizer=sgd(3.0), partition="natural").fit(4)
    assert torch.allclose(weights_of(layers), weights_of(exact), atol=1e-9, rtol=0)


def test_ladder():
    meter, ladder, names = Meter(error=0.2, cosine=0.9), Ladder(), []
    for error, cosine in [(0.1, 0.99), (0.3, 0.99), (0.1, 0.8), (0.15, 0.92), (0.1, 0.96), (0, 1)]:
        ladder.act(Reading(0, error, cosine, 1.0, {}), meter)
        names.append((ladder.name, ladder.measured))
    assert [n for n, _ in names] == ["fast", "swept", "exact", "exact", "swept", "fast"]
    assert names[2][1] == "swept"
    ladder.act(Reading(0, float("nan"), 0.99, 1.0, {}), meter)
    assert ladder.name == "swept"  # what cannot be compared is not within the bounds


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_resume(mode):
    options = {"partition": "random"}
    whole = FullGraph(GRAPH, model("gcnii", 0.3), 4, mode, **options)
    whole.fit(3)
    half = FullGraph(GRAPH, model("gcnii", 0.3), 4, mode, **options)
    half.fit(2)
    rest = FullGraph(GRAPH, model("gcnii", 0.3, seed=5), 4, mode, **options)
    rest.load_state_dict(half.state_dict())
    report = rest.train_epoch()
    assert report.epoch == 2
    same = torch.allclose(weights_of(rest.layers), weights_of(whole.layers), atol=1e-12, rtol=0)
    assert same == (mode == "exact")  # a fast run begins with new history
    with pytest.raises(InputError, match="weight 0.module.1.weight .* another model"):
        rest.load_state_dict({"weights": {}, "optimizer": {}, "epoch": 0})


def test_it_learns_what_the_graph_tells():
    from tests.train.test_learning import communities

    graph = communities()
    torch.manual_seed(0)
    for mode in ("exact", "fast"):
        run = FullGraph(graph, gcn_layers([8, 16, 3], 0.0), 8, mode, partition="random")
        run.fit(30)
        assert run.evaluate("test") > 0.8


def test_chunks_abreast_as_an_argument_of_their_own():
    """As in release 0.1: the same chunks, with a warning that has the new spelling."""
    layers = gcn_layers([GRAPH.features.width, 8, 4])
    with pytest.warns(
        DeprecationWarning, match=r"spelled runtime=Runtime\(abreast=...\) now"
    ) as told:
        old = FullGraph(GRAPH, layers, 6, partition="random", abreast=3)
    assert told[0].filename == __file__
    new = FullGraph(GRAPH, layers, 6, partition="random", runtime=Runtime(abreast=3))
    assert old.chunks.abreast == new.chunks.abreast == 3
    with pytest.raises(
        TypeError, match="unexpected argument 'tecniques'; did you mean 'techniques'"
    ):
        FullGraph(GRAPH, layers, 6, tecniques=None)


def test_fast_epochs_are_measured_unless_that_is_turned_off():
    found = {}
    for name, options in {"usual": {}, "never": {"meter": Meter(every=0)}}.items():
        run = FullGraph(GRAPH, model("gcnii", 0.3), 5, "fast", partition="random", **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reports = run.fit(26)
        read = [report.reading for report in reports if report.reading is not None]
        found[name] = [one.epoch for one in read], run.weights()
        assert all(one.seconds > 0 for one in read)
    assert (found["usual"][0], found["never"][0]) == ([24], [])
    for name, value in some(found["usual"][1].items()):  # it never changes a weight
        assert torch.equal(value, found["never"][1][name])


def test_a_loss_of_ones_own_is_a_sum_and_gets_whole_numbers():
    graph, mean = small_graph(), torch.nn.functional.cross_entropy

    def train(loss):
        torch.manual_seed(1)
        run = FullGraph(graph, sage_layers([WIDTH, 8, CLASSES]), 3, loss=loss)
        return run.fit(1)[0].loss

    own = train(lambda scores, labels: mean(scores, labels, reduction="sum", ignore_index=-1))
    assert own == pytest.approx(train(None))
    with pytest.raises(InputError, match=r"so it is a mean; expected a sum over rows"):
        train(lambda scores, labels: mean(scores, labels, ignore_index=-1))
