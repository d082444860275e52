"""A forward that changes what the model holds trains as plain PyG in one chunk, or is refused."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from foregather.errors import InputError
from foregather.nn.layer import GraphLayer, Near
from foregather.pipeline import FullGraph, Runtime, infer_scores
from foregather.pipeline.dry_run import probe
from foregather.pipeline.planning.profile import profile_layers
from tests.pipeline.cases import CLASSES, WIDTH, double, small_graph
from tests.pipeline.modules import furthest, train_whole


class Fading(nn.Module):
    """Counts its calls in a buffer, and fades a hidden layer by it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = GCNConv(WIDTH, 8), GCNConv(8, CLASSES)
        self.register_buffer("n", torch.zeros(()))

    def count(self) -> None:
        self.n += 1

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.count()
        hidden = self.a(x, edge_index).relu() * torch.exp(-self.n / 2)
        out: Tensor = self.b(hidden, edge_index)
        return out


class ByCopy(Fading):
    def count(self) -> None:
        self.n.copy_(self.n + 1)


class Replaced(Fading):
    def count(self) -> None:
        self.n = self.n + 1


class OnlyInEvaluation(Fading):
    def count(self) -> None:
        if not self.training:
            self.n += 1


class Inside(Fading):
    """A module in the model holds the buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Identity()
        self.inner.register_buffer("seen", torch.zeros(()))

    def count(self) -> None:
        self.inner.seen += 1


class Plain(Fading):
    """The counter is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        del self.n
        self.n = torch.zeros(())


class Listed(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.every = [torch.zeros(2)]

    def count(self) -> None:
        self.every[0] += 1


class Once(Fading):
    """Changes an attribute once, which the first call alone shows in its result."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.ones(())

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.b(self.a(x, edge_index).relu() * self.scale, edge_index)
        self.scale = torch.full((), 0.5)
        return out


class Remembers(Fading):
    """Python's own number, and no tensor at all."""

    calls = 0

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.calls += 1
        hidden = self.a(x, edge_index).relu() * math.exp(-self.calls / 2)
        out: Tensor = self.b(hidden, edge_index)
        return out


class Keeps(Fading):
    """Keeps rows for its user to look at, which changes no result."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: Tensor | None = None

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.hidden = self.a(x, edge_index).relu().detach()
        out: Tensor = self.b(self.a(x, edge_index).relu(), edge_index)
        return out


class Counted(GraphLayer):
    """A layer of a list that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(()))
        self.calls = 0

    def update(self, x: Tensor, near: Near | None, **skips: Tensor) -> Tensor:
        assert near is not None
        self.n += 1
        self.calls += 1
        return near.aggregate("sum")


class CountedInEvaluation(Counted):
    def update(self, x: Tensor, near: Near | None, **skips: Tensor) -> Tensor:
        assert near is not None
        if not self.training:
            self.n += 1
        return near.aggregate("sum")


class Scaled(nn.Module):
    """Rows over their moving size, as a norm of one's own would have them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("size", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.size = 0.9 * self.size + 0.1 * x.abs().mean().detach()
        return x / self.size


class CallsOnly(GraphLayer):
    """No tensor at all."""

    calls = 0

    def update(self, x: Tensor, near: Near | None, **skips: Tensor) -> Tensor:
        assert near is not None
        self.calls += 1
        return near.aggregate("sum") / self.calls


LISTED = {
    "counted": (Counted, r"layer 2 \(Counted\) changes its buffer 'n' in forward"),
    "in evaluation": (CountedInEvaluation, r"layer 2 \(CountedInEvaluation\) changes its buffer"),
    "moving size": (Scaled, r"layer 2 \(Dense\): its module 'module' changes its buffer 'size'"),
    "calls": (CallsOnly, r"layer 2 \(CallsOnly\) gives other scores when it is called again"),
}


def listed(kind: str) -> list[nn.Module]:
    torch.manual_seed(0)
    with double():
        return [GCNConv(WIDTH, CLASSES), nn.LayerNorm(CLASSES), LISTED[kind][0]()]


@pytest.mark.parametrize("kind", LISTED)
def test_a_list_with_a_layer_that_changes_is_refused_by_name(kind: str) -> None:
    graph, layers, told = small_graph(), listed(kind), LISTED[kind][1]
    before = copy.deepcopy(nn.ModuleList(layers))
    for chunks, runtime in ((4, Runtime()), (1, Runtime(recompute="segments"))):
        with pytest.raises(InputError, match=told):
            FullGraph(graph, layers, chunks, runtime=runtime)
    with pytest.raises(InputError, match=told):
        FullGraph(graph, layers, 1, mode="fast")
    with pytest.raises(InputError, match=told):
        infer_scores(graph, layers, 4)
    assert furthest(nn.ModuleList(layers), before) == 0


def test_a_list_that_counts_runs_once_an_epoch_in_one_chunk() -> None:
    layers = listed("counted")
    FullGraph(small_graph(), layers, 1).fit(3)
    assert float(layers[2].n) == 3


COUNTING = {
    Fading: "its buffer 'n'",
    ByCopy: "its buffer 'n'",
    Replaced: "its buffer 'n'",
    OnlyInEvaluation: "its buffer 'n'",
    Inside: "module 'inner' of the model changes its buffer 'seen'",
    Plain: "its tensor 'n'",
    Listed: "its tensor 'every'",
    Once: "other scores when it is called again",
    Remembers: "other scores when it is called again",
}


def made(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    with double():
        return kind().double()


@pytest.mark.parametrize("kind", COUNTING)
def test_what_changes_in_forward_is_refused_in_chunks(kind: type[nn.Module]) -> None:
    graph, model = small_graph(), made(kind)
    before = copy.deepcopy(model)
    for runtime in (Runtime(), Runtime(recompute="segments")):
        with pytest.raises(InputError, match=COUNTING[kind]):
            FullGraph(graph, model, 4, runtime=runtime)
    with pytest.raises(InputError, match=COUNTING[kind]):
        infer_scores(graph, model, 4)
    assert furthest(model, before) == 0


@pytest.mark.parametrize("kind", [Fading, ByCopy, Replaced, Inside])
def test_a_buffer_that_changes_trains_as_plain_in_one_chunk(kind: type[nn.Module]) -> None:
    graph, model = small_graph(), made(kind)
    plain, name = copy.deepcopy(model), [name for name, _ in model.named_buffers()][-1]
    run = FullGraph(graph, model, 1)
    assert furthest(model, plain) == 0  # looking at the model has changed nothing
    losses = []
    for _ in range(4):
        losses.append(run.train_epoch().loss)
        seen = dict(model.named_buffers())[name]
        scores, again = run.infer(), run.infer()
        assert torch.equal(scores, again)
        assert dict(model.named_buffers())[name] is seen and float(seen) == len(losses)
    assert losses == pytest.approx(train_whole(plain, graph, 4), rel=1e-12)
    assert furthest(model, plain) < 1e-12


@pytest.mark.parametrize("kind", [Plain, Listed, Once, Remembers])
def test_one_chunk_starts_with_the_model_as_it_was_given(kind: type[nn.Module]) -> None:
    graph, model = small_graph(), made(kind)
    losses = [report.loss for report in FullGraph(graph, model, 1).fit(3)]
    assert losses == pytest.approx(train_whole(made(kind), graph, 3), rel=1e-12)


@pytest.mark.parametrize("runtime", [Runtime(), Runtime(memory="64GB")])
def test_measuring_costs_changes_nothing(runtime: Runtime) -> None:
    graph, model = small_graph(), made(Fading)
    FullGraph(graph, model, 1, runtime=runtime)
    assert float(model.n) == 0
    layer = Counted()
    profile_layers(graph, [layer], probe([layer], graph, 1))
    assert float(layer.n) == layer.calls == 0


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("chunks", [1, 4])
def test_what_is_kept_to_be_looked_at_is_taken(chunks: int, used: bool) -> None:
    graph, model = small_graph(), made(Keeps)
    if used:  # rows of another graph are still there
        with torch.no_grad():
            model(torch.ones(7, WIDTH).double(), torch.zeros(2, 3, dtype=torch.int64))
        model.hidden = model.hidden.clone()
    plain = copy.deepcopy(model)
    losses = [report.loss for report in FullGraph(graph, model, chunks).fit(2)]
    assert losses == pytest.approx(train_whole(plain, graph, 2), rel=1e-10)


def test_a_cache_is_not_filled_by_the_check() -> None:
    graph = small_graph()
    torch.manual_seed(0)
    with double():
        cached = nn.ModuleDict({"conv": GCNConv(WIDTH, CLASSES, cached=True)}).double()
    cached.forward = lambda x, edge_index: cached["conv"](x, edge_index)  # type: ignore
    run = FullGraph(graph, cached, 1)
    assert cached["conv"]._cached_edge_index is None
    run.train_epoch()
    assert cached["conv"]._cached_edge_index is not None


class Named(nn.Module):
    """Its second argument has a name of its own."""

    def __init__(self, width: int = WIDTH, hidden: int = 8, classes: int = CLASSES) -> None:
        super().__init__()
        self.a, self.b = GCNConv(width, hidden), GCNConv(hidden, classes)

    def forward(self, rows: Tensor, e: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        out: Tensor = self.b(self.a(rows, e, edge_weight).relu(), e, edge_weight)
        return out


class Usual(Named):
    def forward(  # type: ignore[override]
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        return super().forward(x, edge_index, edge_weight)


@pytest.mark.parametrize("chunks", [1, 4])
def test_names_of_the_first_two_arguments_do_not_matter(chunks: int) -> None:
    graph = small_graph()
    model, usual = made(Named), made(Usual)
    run = FullGraph(graph, model, chunks)
    losses = [report.loss for report in run.fit(3)]
    assert losses == pytest.approx(train_whole(usual, graph, 3), rel=1e-10)
    assert furthest(model, usual) < 1e-10
    assert run.infer() is not None
