"""Options that would have no effect in a combination are refused, or the run says so.

What was tried, and is neither: `drop_last`, `shuffle`, `seed`, `threads`, `prefetch` and `device`
of a Loader (they always have their effect); `labels="seeds"` without labels, `edge_attr=False`
without edge features, `replace=True` with fan-outs of -1, `bulk="auto"` without `memory`,
`boundary`, `initial_again` and `timeout` of one stage, `layers` of `infer` for a model that shows
its steps (each says in its documentation when it matters); `splits=False`, `overwrite=True` and
`undirected=True` with `dedup=True` of `convert` (they ask for what is so already).
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from foregather import BatchContents, InputError, Loader, RankOptions, convert
from foregather.graph.convert import ReadOptions
from foregather.loader.rank_options import rank_setup
from foregather.nn import SAGE, resgcn_layers
from foregather.pipeline import FullGraph, Meter, Techniques
from foregather.sampling import Labor, Neighbor
from foregather.train.fit import Training, fit
from foregather.train.infer import infer
from foregather.train.runs.run import Run
from foregather.train.settings import (
    FullGraphSettings,
    GridSettings,
    ModelSettings,
    SamplerSettings,
    Settings,
    TrainSettings,
)
from foregather.train.settings.from_settings import check_used
from foregather.train.trainers.unused_settings import check_named_splits, unused_settings
from tests.loader.graphs import small_graph
from tests.some import some

GRAPH = small_graph()
BARE = replace(GRAPH, features=None, edge_features=None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": RankOptions()}, "ranks= says how the ranks of grid= work together, but grid="),
        ({"ranks": RankOptions(wire="int8")}, "leave ranks= out, or pass grid=Grid\\(\\) under"),
        ({"storage": "features"}, "say with memory= how much"),
        ({"sampler": Labor([2]), "num_neighbors": None, "replace": True}, "options of the sampler"),
        (
            {"sampler": Neighbor([2]), "num_neighbors": None, "weight_attr": "edge_weight"},
            "weights=",
        ),
        (
            {"disjoint": True, "memory": "1GB", "contents": BatchContents(leaves="sum")},
            "disjoint=True with memory= reads each row once.*leave leaves='sum' or memory= out",
        ),
        ({"num_workers": 2}, "num_workers=2 of PyG is not supported"),
        ({"input_time": [1]}, "a Graph has no times; use HeteroLoader"),
    ],
)
def test_a_loader_refuses(options, message):
    with pytest.raises(InputError, match=message):
        Loader(GRAPH, **{"num_neighbors": [2]} | options)


@pytest.mark.parametrize("name", ["topology", "mode", "wire"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_arguments_of_ranks_need_ranks_too(name):
    value = {"topology": "replicated", "mode": "paper", "wire": "int8"}[name]
    with pytest.raises(InputError, match=f"^{name}= says how the ranks of grid="):
        Loader(GRAPH, [2], **{name: value})


@pytest.mark.parametrize(
    ("graph", "contents", "message"),
    [
        (BARE, BatchContents(edge_attr=True), "the graph has no edge features"),
        (GRAPH, BatchContents(norm="gcn"), "drawn by weight"),
    ],
)
def test_contents_that_a_batch_cannot_have(graph, contents, message):
    weights = np.ones(graph.num_edges, np.float32)
    with pytest.raises(InputError, match=message):
        Loader(graph, sampler=Neighbor([2], weights=weights), contents=contents)


def test_contents_that_contradict_each_other():
    with pytest.raises(InputError, match="'EdgeIndex', a class of PyG, but pyg is False"):
        BatchContents(edge_index="EdgeIndex", pyg=False)


@pytest.mark.parametrize(
    ("ranks", "others", "message"),
    [
        (RankOptions(wire="float16"), {}, "wire is 'float16', .* but the graph has no features"),
        (RankOptions(), {"memory": "1GB"}, "memory= with grid= is for feature rows of other ranks"),
        (RankOptions(mode="paper"), {"memory": "1GB"}, "keeps no rows of other ranks"),
        (RankOptions(mode="paper"), {"storage": "features"}, "keeps feature blocks in memory"),
        (RankOptions(), {"storage": "topology"}, "does not work with grid="),
        (RankOptions(), {"bulk": "auto"}, "bulk='auto' and memory='auto' do not work with grid="),
    ],
)
def test_options_over_ranks(ranks, others, message):
    recipe = Loader(BARE, [2])._maker
    options = {"bulk": 8, "memory": None, "storage": "auto"} | others
    with pytest.raises(InputError, match=message):
        rank_setup(recipe, ranks, **options)


@pytest.fixture
def source(tmp_path):
    np.savez(tmp_path / "arrays.npz", edge_index=np.array([[0, 1], [1, 0]]))
    (tmp_path / "edges.csv").write_text("0,1\n1,2\n")
    small_graph().save(tmp_path / "graph")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("arrays.npz", {"dtype": "int8"}, "--dtype is 'int8', .* has none; leave it out"),
        ("edges.csv", {"dtype": "float16"}, "--dtype is 'float16'"),
        ("arrays.npz", {"reading": ReadOptions(columns=("a", "b"))}, "--columns does not apply"),
        ("arrays.npz", {"reading": ReadOptions(weight="w")}, "--weight does not apply"),
        ("arrays.npz", {"reading": ReadOptions(header=True)}, "--header does not apply"),
        ("graph", {"reading": ReadOptions(ids="sparse")}, "--ids does not apply"),
        ("graph", {"reading": ReadOptions(num_nodes=3)}, "--nodes does not apply"),
    ],
)
def test_convert_refuses(source, name, options, message):
    with pytest.raises(InputError, match=message):
        convert(source / name, source / "made", **options)
    assert not (source / "made").exists()


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("exact", {"techniques": Techniques()}, "techniques= is for rows of earlier epochs"),
        ("exact", {"meter": Meter()}, "meter= is for rows of earlier epochs"),
        ("bounded", {"meter": Meter(every=0)}, r"Meter\(every=0\) never measures"),
    ],
)
def test_full_graph_refuses(mode, options, message):
    with pytest.raises(InputError, match=message):
        FullGraph(GRAPH, resgcn_layers(GRAPH.features.width, 4, 3, 2), 2, mode, **options)


def test_fit_and_infer_refuse(tmp_path):
    loader = Loader(GRAPH, [2], "train", batch_size=8)
    model = SAGE([GRAPH.features.width, 3], 0.0)
    training = Training(model, loader, torch.optim.SGD(model.parameters(), 0.1))
    with pytest.raises(InputError, match="patience is 3, but valid= is not given"):
        fit(training, 1, patience=3)
    with pytest.raises(InputError, match="storage is 'features'; say with memory= how much"):
        infer(model, GRAPH, tmp_path / "out.npy", storage="features")
    assert not training.history and not list(tmp_path.iterdir())


def test_settings_that_a_class_has_no_use_for():
    with pytest.raises(InputError, match="sampler.replace is for the sampler neighbor, .*'labor'"):
        check_used(Settings(sampler=SamplerSettings("labor", replace=True)))
    for model, key in some(
        [
            (ModelSettings("torch.nn:Linear", hidden=32), "hidden"),
            (ModelSettings("torch.nn:Linear", dropout=0.2), "dropout"),
        ]
    ):
        with pytest.raises(InputError, match=f"model.{key} is .* but torch.nn:Linear takes no"):
            check_used(Settings(model=model))


FULL = TrainSettings(method="full-graph")


@pytest.mark.parametrize(
    ("settings", "ranks", "told"),
    [
        (Settings(), 1, []),
        (Settings(train=FULL), 1, []),
        (
            Settings(train=replace(FULL, precision="bfloat16", accelerate=False)),
            1,
            ["train.accelerate", "train.precision"],
        ),
        (Settings(full_graph=FullGraphSettings(chunks=4)), 2, ["full_graph.chunks"]),
        (Settings(grid=GridSettings(wire="int8", replication=2)), 2, []),
        (
            Settings(grid=GridSettings(wire="int8", replication=2)),
            1,
            ["grid.replication", "grid.wire"],
        ),
        (Settings(train=TrainSettings(valid="", patience=3)), 1, ["train.patience"]),
        (
            Settings(
                train=replace(FULL, batch_size=8), sampler=SamplerSettings("labor", norm="gcn")
            ),
            1,
            ["sampler.kind", "sampler.norm", "train.batch_size"],
        ),
        (
            Settings(train=FULL, full_graph=FullGraphSettings(ways=2, refresh=3)),
            2,
            ["full_graph.ways", "full_graph.refresh"],
        ),
        (
            Settings(
                train=FULL,
                full_graph=FullGraphSettings(
                    "fast", 4, memory="1GB", refresh=3, measure=0, error=0.2
                ),
            ),
            2,
            ["full_graph.memory", "full_graph.error"],
        ),
        (Settings(train=FULL, full_graph=FullGraphSettings(boundary="bfloat16")), 2, []),
        (
            Settings(train=FULL, full_graph=FullGraphSettings(boundary="bfloat16")),
            1,
            ["full_graph.boundary"],
        ),
    ],
)
def test_a_run_says_which_settings_have_no_effect(settings, ranks, told):
    texts = unused_settings(settings, ranks)
    assert [text.split()[0] for text in texts] == told
    assert all("which has no effect" in text for text in texts)


def test_a_run_tells_when_it_begins(tmp_path):
    small_graph().save(tmp_path / "graph")
    said = []
    settings = Settings(
        str(tmp_path / "graph"), str(tmp_path / "run"), grid=GridSettings(mode="paper")
    )
    with Run.create(settings, said.append):
        pass
    assert "grid.mode is 'paper', which has no effect on one rank" in said


def test_a_split_that_was_named_exists():
    check_named_splits(GRAPH, TrainSettings())
    check_named_splits(BARE, TrainSettings(valid="", test=""))
    for key in some(("valid", "test")):
        with pytest.raises(InputError, match=f"train.{key} is 'vaild', but there is no split"):
            check_named_splits(GRAPH, TrainSettings(**{key: "vaild"}))
