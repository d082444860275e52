"""The model of larger clusters: bytes and messages are those of a run where all is rehearsed."""

import json

import numpy as np
import pytest

from foregather.dist.forecast.cluster_forecast import Cost, Model
from foregather.errors import InputError
from foregather.plan.line import Line
from tests.dist.rank_features import epoch_model
from tests.dist.world import World


@pytest.mark.parametrize("size", [1, 2, 4])
def test_bytes_and_messages_are_those_of_a_run(launcher, tmp_path, size):
    with World(launcher, size, "epoch", tmp_path) as world:
        assert world.wait(600) == [0] * size, "".join(world.output(r) for r in range(size))
    measured = json.loads((tmp_path / "epoch0.json").read_text())
    assert len(measured) == (8 if size == 4 else 4)
    for c in sorted({int(name[0]) for name in measured}):
        made = epoch_model(size, c).forecast(grid_rows=size, bulks=99)
        assert made.exact and made.ranks == size
        for mode, parts in (("default", made.default), ("paper", made.paper)):
            for name, cost in parts.items():
                assert [cost.bytes, cost.messages] == measured[f"{c} {mode} {name}"], (
                    c,
                    mode,
                    name,
                )
                assert (cost.seconds > 0) == (size > 1)


def test_a_part_stands_for_the_whole():
    whole = epoch_model(4, 1).forecast(grid_rows=4, bulks=99)
    some = epoch_model(4, 1).forecast(grid_rows=2, bulks=1)
    assert not some.exact and some.ranks == 2 and some.bulks == 1 and some.epoch_bulks == 2
    for mode in ("default", "paper"):
        for name, cost in getattr(some, mode).items():
            assert cost.bytes == pytest.approx(getattr(whole, mode)[name].bytes, rel=0.3)


def test_seconds_follow_the_link():
    slow = epoch_model(4, 1)
    fast = epoch_model(4, 1)
    slow.link, fast.link = Line(0.0, 1e6), Line(0.0, 2e6)
    a, b = slow.forecast(4, 9), fast.forecast(4, 9)
    for name in ("sampling", "features"):
        assert a.default[name].seconds == pytest.approx(2 * b.default[name].seconds)
    # no link is busier than all bytes on it, nor less than an even share
    for cost in (*a.default.values(), *a.paper.values()):
        assert cost.bytes / 4 / 1e6 <= cost.seconds * 1.001 and cost.seconds <= cost.bytes / 1e6


def test_links_are_read():
    assert Line.parse("25GB/s,2us") == Line(2e-6, 25e9)
    assert Line.parse("1Gbit/s, 0.5ms") == Line(0.5e-3, 125e6)
    for text in ("", "25GB/s", "25GB,2us", "fast,2us", "1GB/s,2", "1GB/s,2h", "0GB/s,2us"):
        with pytest.raises(InputError):
            Line.parse(text)
    assert (Cost(1, 2, 3.0) + Cost(1, 1, 1.0)).times(2) == Cost(4, 6, 8.0)


def test_grids_that_do_not_fit():
    with pytest.raises(InputError, match="divides"):
        epoch_model(3, 2)
    assert epoch_model(2, 2).forecast().paper == {}  # 4 does not divide 2
    right = epoch_model(2, 1)
    with pytest.raises(InputError, match="at least one seed"):
        Model(right.graph, right.sampler, np.empty(0, np.int64), 2, 1, right.link)
