"""Values of options: what they refuse, and the arguments of release 0.1 that became fields."""

import dataclasses
import warnings

import pytest

from foregather import BatchContents, InputError, Loader, RankOptions
from foregather.interop.pyg import NeighborLoader
from foregather.loader.options import OLD_ARGUMENTS, ranks_from
from tests.loader.graphs import same_batch, small_graph

GRAPH = small_graph()

OLD = {
    "labels": "seeds",
    "edge_attr": False,
    "norm": "gcn",
    "edge_index": "EdgeIndex",
    "pyg": False,
}


def test_every_old_argument_is_known():
    assert {*OLD, "topology", "mode", "wire"} == OLD_ARGUMENTS


@pytest.mark.parametrize("name", OLD)
@pytest.mark.parametrize("kind", [Loader, NeighborLoader])
def test_old_arguments_work_and_name_the_new_spelling(name, kind):
    if kind is NeighborLoader and name == "pyg":
        pytest.skip("it is PyG's")
    new = rf"{name}= of a Loader is spelled contents=foregather.BatchContents\({name}=\.\.\.\) now"
    with pytest.warns(DeprecationWarning, match=new) as warned:
        old = kind(GRAPH, [3, 2], "train", batch_size=8, seed=3, **{name: OLD[name]})
    assert [one.filename for one in warned] == [__file__], "at the line of the caller"
    value = BatchContents(**{name: OLD[name]})
    now = kind(GRAPH, [3, 2], "train", batch_size=8, seed=3, contents=value)
    for a, b in zip(old, now, strict=True):
        assert type(a) is type(b) and a.x.equal(b.x) and a.y.equal(b.y)
        assert (a.edge_attr is None) == (b.edge_attr is None)
        assert type(a.edge_index) is type(b.edge_index)
        if name == "norm":
            assert a.edge_weight.equal(b.edge_weight)


def test_several_old_arguments_are_one_warning():
    with pytest.warns(DeprecationWarning) as warned:
        Loader(GRAPH, [2], labels="seeds", pyg=False)
    (contents,) = (str(one.message) for one in warned)
    assert "contents=foregather.BatchContents(labels=..., pyg=...)" in contents


def test_old_arguments_of_ranks_are_the_same_value():
    grid = object()
    given = {"topology": "replicated", "mode": "paper", "wire": "int8"}
    with pytest.warns(DeprecationWarning, match=r"ranks=.*RankOptions\(topology=\.\.\., mode="):
        made = ranks_from(None, given, grid)
    assert made == RankOptions("replicated", "paper", "int8")
    assert ranks_from(None, {}, grid) == RankOptions() and ranks_from(made, {}, grid) is made


def test_the_new_spelling_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        contents = BatchContents("seeds", pyg=False)
        a = Loader(GRAPH, [2], batch_size=8, contents=contents)
    b = Loader(GRAPH, [2], batch_size=8, contents=dataclasses.replace(contents))
    assert all(same_batch(one, other) for one, other in zip(a, b, strict=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"contents": BatchContents(), "labels": "seeds"}, "labels and contents are both given; w"),
        ({"ranks": RankOptions(), "wire": "int8"}, "wire and ranks are both given; write ranks="),
        ({"contents": {"labels": "seeds"}}, r"expected foregather.BatchContents\(...\)"),
        ({"contents": "seeds"}, "contents is 'seeds', expected"),
        ({"ranks": BatchContents()}, r"expected foregather.RankOptions"),
        ({"labels": "some"}, "labels is 'some', expected one of 'all', 'seeds'"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_wrong_values_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Loader(GRAPH, [2], **options)


@pytest.mark.parametrize("field", dataclasses.fields(BatchContents), ids=lambda field: field.name)
def test_fields_are_checked_where_they_are_given(field):
    with pytest.raises(InputError, match=f"{field.name} is 'x', expected one of"):
        BatchContents(**{field.name: "x"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(BatchContents(), field.name, None)


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("num_neighbours", "num_neighbors"),
        ("batchsize", "batch_size"),
        ("content", "contents"),
        ("label", "labels"),
        ("num_worker", "num_workers"),
        ("memroy", "memory"),
    ],
)
def test_a_typo_is_refused_with_the_nearest_name(typo, meant):
    with pytest.raises(TypeError, match=f"unexpected argument '{typo}'; did you mean '{meant}'"):
        Loader(GRAPH, **{"sampler": None, typo: 1})
    with pytest.raises(TypeError, match="unexpected argument 'xyzzy'$"):
        Loader(GRAPH, [2], xyzzy=1)


def test_pygs_loader_has_pygs_batches():
    with pytest.raises(InputError, match="pyg is False, but these batches are PyG's"):
        NeighborLoader(GRAPH, [2], contents=BatchContents(pyg=False))
