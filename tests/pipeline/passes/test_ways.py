"""Ways: hybrid, graph- and tensor-parallel ranks give the weights and bytes that they must."""

import numpy as np
import pytest
import torch

from foregather.pipeline import FullGraph, Line, Runtime, Techniques, make_chunks
from foregather.pipeline.partition.cut import measure_cut
from foregather.pipeline.passes.segments import as_layers, cut_layers
from foregather.pipeline.planning.chunk_order import chunk_order
from foregather.pipeline.planning.profile import LayerCost
from foregather.pipeline.planning.programs import rank_programs
from foregather.pipeline.planning.simulate import simulate
from foregather.pipeline.planning.workload import Setting, workload_of
from foregather.pipeline.split.split import layers_of
from tests.pipeline.cases import MODELS as BUILDERS
from tests.pipeline.cases import model, sgd, small_graph, weights_of
from tests.pipeline.modules import MODULES
from tests.pipeline.oracle import Oracle, places
from tests.pipeline.way_ranks import (
    ABREAST,
    CHUNKS,
    EIGHT,
    EPOCHS,
    FEW,
    GRIDS,
    HYBRID,
    MANY,
    MODELS,
    PARALLEL,
    deep,
    hybrid,
    parallel,
)
from tests.some import some

GRAPH, DOUBLE = small_graph(), 8
FREE = LayerCost((0, 0, 0), (0, 0, 0), (0, 0))  # only bytes are asked for


def tick_places(chunks, order) -> torch.Tensor:
    """The position in the order of each node's tick."""
    whole = places(chunks, list(range(len(chunks))))
    position = np.empty(chunks.ticks, np.int64)
    position[order] = np.arange(chunks.ticks)
    return torch.from_numpy(position[whole.numpy() % chunks.ticks])


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("techniques", [Techniques(), Techniques(refresh=2, factor=2.0)], ids=str)
def test_chunks_abreast_equal_the_oracle(name, techniques):
    ours, theirs = model(name), model(name)
    run = FullGraph(
        GRAPH, ours, 12, "fast", partition="random", optimizer=sgd(), techniques=techniques,
        runtime=Runtime(abreast=3),
    )  # fmt: skip
    losses = [report.loss for report in run.fit(4)]
    optimizer = torch.optim.SGD([p for layer in theirs for p in layer.parameters()], 0.5)
    oracle = Oracle(GRAPH, theirs)
    for epoch in range(4):
        place = tick_places(run.chunks, chunk_order(4, 0, epoch))
        if epoch == 0:
            oracle.forward(place)
            oracle.commit()
        optimizer.zero_grad()
        loss = oracle.loss(place, techniques.factor)
        loss.backward()
        optimizer.step()
        assert losses[epoch] == pytest.approx(float(loss.detach()), abs=1e-12)
        if (epoch + 1) % techniques.refresh == 0:
            oracle.commit()
    assert torch.allclose(weights_of(ours), weights_of(theirs), atol=1e-10, rtol=0)


@pytest.fixture(params=["few", pytest.param("many", marks=pytest.mark.slow)])
def hybrids(request):
    """Grids of a world, and what its ranks found."""
    few = request.param == "few"
    grids = [grid for grid in GRIDS if (grid[0] * grid[1] <= FEW) == few]
    assert grids
    return grids, request.getfixturevalue("ways" if few else "many")


@pytest.fixture(scope="session")
def alone():
    """Every case on one rank, in this process."""
    found: dict = {name: hybrid(name) for name in HYBRID}
    for _, count in PARALLEL:
        for kind in MODELS:
            found[kind, count] = parallel(kind, 0.3 if kind == "gcnii" else 0.0, count)
    return found


def same_results(ours, theirs, atol: float) -> None:
    assert ours["losses"] == pytest.approx(theirs["losses"], abs=1e-11)
    assert ours["accuracy"] == theirs["accuracy"]
    for name, weight in theirs["weights"].items():
        assert torch.allclose(ours["weights"][name], weight, atol=atol, rtol=0)
    for reading, other in zip(ours["readings"], theirs["readings"], strict=True):
        assert reading == pytest.approx(other, abs=1e-8)


def test_ways_never_change_results(hybrids, alone):
    grids, ways = hybrids
    runs = [(name, s, g) for s, g, names in grids for name in names]
    for name, s, g, rank in [(*run, rank) for run in some(runs) for rank in range(run[1] * run[2])]:
        found = ways[rank][name, s, g]
        same_results(found, alone[name], 1e-9)
        last = rank >= (s - 1) * g
        assert (found["scores"] is not None) == last
        if last:
            assert torch.allclose(found["scores"], alone[name]["scores"], atol=1e-8, rtol=0)


@pytest.mark.parametrize(("split", "count"), PARALLEL)
@pytest.mark.parametrize("kind", MODELS)
def test_parallel_ranks_train_as_one(kind, split, count, ways, alone):
    for rank in range(count):
        same_results(ways[rank][kind, split, count], alone[kind, count], 1e-10)
    if kind != "gcnii":  # no dropout: the oracle knows nothing of chunks
        layers = model(kind)
        optimizer = torch.optim.Adam([p for layer in layers for p in layer.parameters()], 0.05)
        oracle = Oracle(GRAPH, layers)
        for epoch in range(EPOCHS):
            optimizer.zero_grad()
            loss = oracle.loss()
            loss.backward()
            optimizer.step()
            found = ways[0][kind, split, count]["losses"][epoch]
            assert found == pytest.approx(float(loss.detach()), abs=1e-11)


@pytest.mark.slow
def test_eight_ranks_train_as_one_for_any_chunks_and_ways(many):
    true = deep(1)
    for stages, count, chunks, split in EIGHT:
        found = [many[rank]["eight", stages, count, chunks, split] for rank in range(MANY)]
        for one in found:
            assert one["losses"] == pytest.approx(true["losses"], abs=1e-11)
            for name, weight in true["weights"].items():
                assert torch.allclose(one["weights"][name], weight, atol=1e-9, rtol=0)
        assert sum(one["sent"] for one in found) == found[0]["volume"] > 0


def test_links_carry_the_messages_of_the_schedule(hybrids):
    """Each rank to each other, for each purpose: bytes and messages."""
    grids, ways = hybrids
    keys = [(n, s, g) for s, g, names in grids for n in names if "meter" not in HYBRID[n][3]]
    if len(ways) == FEW:
        keys += [(kind, split, count) for split, count in PARALLEL for kind in MODELS]
    for key in some(keys):
        for rank in range(key[1] * key[2] if isinstance(key[1], int) else key[2]):
            found = ways[rank][key]
            assert found["noted"] == found["announced"] and found["noted"], key


def sent(ways, key, count, epoch) -> dict[str, int]:
    """Bytes of all ranks by kind."""
    total = {"rows": 0, "exchange": 0, "weights": 0}
    for rank in range(count):
        one = ways[rank][key]["sent"][epoch]
        total["rows"] += one["forward"] + one["backward"]
        total["exchange"] += one["exchange"] + one["exchange_back"]
        total["weights"] += one["weights"]
    return total


def remote_sources(chunks, count: int) -> int:
    """alpha_G N by sets: distinct in-neighbours of each way that other ways have."""
    way = chunks.chunk_of(chunks.number) * count // len(chunks)
    read = set()
    for v in range(GRAPH.num_nodes):
        for u in GRAPH.indices[slice(*GRAPH.indptr[v : v + 2])]:
            if way[u] != way[v]:
                read.add((int(way[v]), int(u)))
    return len(read)


def test_hybrid_bytes_equal_the_closed_forms(hybrids):
    grids, ways = hybrids
    for s, g, name in some((s, g, name) for s, g, names in grids for name in names):
        kind, _, _, options = HYBRID[name]
        if "meter" in options:
            continue  # measured epochs run an exact pass besides
        run = FullGraph(
            GRAPH, model(kind), CHUNKS, partition="random", runtime=Runtime(abreast=ABREAST)
        )
        crossing = remote_sources(run.chunks, g)
        assert ways[0][name, s, g]["crossing"] == crossing
        total = sum(p.numel() for layer in run.layers for p in layer.parameters())
        found = sent(ways, (name, s, g), s * g, 2)
        assert found == ways[0][name, s, g]["volume"]
        messages = {"gcn": [5, 5, 6, 3], "gcnii": [6] * 4, "resgcn": [6] * 4}
        if kind in MODULES:  # what they exchange is found by splitting them
            assert found["exchange"] > 0
            continue
        assert found["exchange"] == 2 * sum(messages[kind]) * DOUBLE * crossing
        if kind == "resgcn" or (kind == "gcnii" and "again" in str(options)):
            assert found["rows"] == 2 * (s - 1) * GRAPH.num_nodes * 6 * DOUBLE
        first = sum(p.numel() for p in run.layers[0].parameters()) if "again" in str(options) else 0
        if s == 1:
            first = 0
        weights = 2 * (g - 1) * (total - first) + 2 * (s * g - 1) * first
        assert found["weights"] == weights * DOUBLE


@pytest.mark.parametrize(("split", "count"), PARALLEL)
def test_parallel_bytes_equal_the_closed_forms(split, count, ways):
    for kind in MODELS:
        key = (kind, split, count)
        found = sent(ways, key, count, 1)
        assert found == ways[0][key]["volume"]
        layers = model(kind)
        total = sum(p.numel() for layer in layers for p in layer.parameters())
        assert found["weights"] == 2 * (count - 1) * total * DOUBLE
        assert found["rows"] == 0
        run = FullGraph(GRAPH, layers, count, partition="random", runtime=Runtime(abreast=count))
        if kind in ("gcnii", "resgcn"):  # four aggregations of six columns
            if split == "nodes":
                assert found["exchange"] == 2 * 4 * 6 * DOUBLE * remote_sources(run.chunks, count)
            else:  # two and three divide six columns: 4 L N d b (P - 1) / P
                whole = 4 * 4 * GRAPH.num_nodes * 6 * DOUBLE
                assert found["exchange"] * count == whole * (count - 1)


def test_simulated_bytes_equal_what_ranks_sent(hybrids):
    """The planner's messages are those of real runs."""
    grids, ways = hybrids
    for stages, count, names in some(grids):
        for name in names:
            kind, drop, mode, options = HYBRID[name]
            if "meter" in options or count != ABREAST:
                continue
            runtime = Runtime(**options.get("runtime", {}))
            layers = layers_of(model(kind, drop), GRAPH, CHUNKS)
            work = workload_of(GRAPH, layers, runtime, [FREE] * len(layers))
            cuts = tuple(cut_layers(as_layers(layers), stages))
            setting = Setting("nodes", mode, stages, count, CHUNKS, cuts)
            cut = measure_cut(GRAPH, make_chunks(GRAPH, CHUNKS, "random", 0, count), count)
            found = simulate(rank_programs(work, setting, cut), Line())
            assert found.bytes == sum(sent(ways, (name, stages, count), stages * count, 2).values())


def test_ways_begin_with_the_same_weights(ways):
    run = FullGraph(GRAPH, model("gcn"), 2, partition="random", runtime=Runtime(abreast=2))
    run.train_epoch()
    weights = run.state_dict()["weights"]
    true = torch.cat([weights[name].flatten() for name in sorted(weights)])
    for rank in range(2):
        assert torch.allclose(ways[rank]["seeds"], true, atol=1e-10, rtol=0)


def test_ranks_plan_together(ways):
    one = ways[0]["planned"]
    assert all(ways[rank]["planned"] == one for rank in range(FEW))
    assert "chosen: " in one["text"] and 0 < one["loss"] < 2
    assert "layer 0" in one["told"]  # what the fourth rank met


def test_what_ways_cannot_do_is_refused(ways):
    told = [ways[rank]["refused"] for rank in range(4)]
    for one in told:
        assert "4 ranks, but 3 ways" in one["odd"]
        assert "abreast is 3 chunks in 2 ways" in one["abreast"]
        assert "chunks is 5 with 2 abreast" in one["multiple"]
        assert "split is 'columns' with 2 stages and 8 chunks" in one["columns"]
    for rank in range(2):
        assert "layer 0 (Conv) reads rows of in-neighbours" in ways[rank]["attention"]
    assert len({ways[rank]["nan"] for rank in range(4)}) == 1
    assert "became NaN or infinite in stage 0" in ways[0]["nan"]
