"""How a source is read is one value; the arguments of release 0.1 that became its fields."""

import dataclasses

import pytest

from foregather import Graph, InputError, ReadOptions, convert

OLD = {"ids": "string", "columns": ("a", "b"), "weight": "w", "header": True}


@pytest.fixture
def table(tmp_path):
    (tmp_path / "e.csv").write_text("a,b,w\nx,y,0.5\ny,z,0.25\n")
    return tmp_path / "e.csv"


def test_old_arguments_work_and_name_the_new_spelling(table, tmp_path):
    new = (
        r"of convert is spelled reading=foregather.ReadOptions\(ids=..., columns=..., weight=..., h"
    )
    with pytest.warns(DeprecationWarning, match=new) as warned:
        convert(table, tmp_path / "old", **OLD)
    assert warned[0].filename == __file__, "at the line of the caller"
    convert(table, tmp_path / "new", reading=ReadOptions(**OLD))
    old, now = Graph.open(tmp_path / "old"), Graph.open(tmp_path / "new")
    assert old.digest == now.digest and sorted(old.edge_weight) == [0.25, 0.5]


def test_a_count_of_nodes(tmp_path):
    (tmp_path / "e.csv").write_text("0,1\n")
    with pytest.warns(DeprecationWarning, match=r"ReadOptions\(num_nodes=...\)"):
        assert convert(tmp_path / "e.csv", tmp_path / "g", num_nodes=7)["num_nodes"] == 7


def test_both_and_neither(table, tmp_path):
    with pytest.raises(InputError, match="weight and reading are both given; write reading="):
        convert(table, tmp_path / "g", reading=ReadOptions(), weight="w")
    with pytest.raises(InputError, match="reading is 'w', expected foregather.ReadOptions"):
        convert(table, tmp_path / "g", reading="w")
    with pytest.raises(TypeError, match="argument 'wieght'; did you mean 'weight'"):
        convert(table, tmp_path / "g", wieght="w")
    with pytest.raises(TypeError, match="argument 'overwite'; did you mean 'overwrite'"):
        convert(table, tmp_path / "g", overwite=True)
    assert not (tmp_path / "g").exists()
    with pytest.raises(dataclasses.FrozenInstanceError):
        ReadOptions().ids = "dense"
