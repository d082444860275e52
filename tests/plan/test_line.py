"""The line between ranks: what it is read from, and what is refused."""

import pytest

from foregather import InputError
from foregather.pipeline import Line as public
from foregather.plan.line import Line


def test_forecasts_and_simulations_have_one_line():
    assert public is Line
    assert Line.parse("1Gbit/s, 0.5ms") == Line(latency=0.5e-3, rate=125e6)


def test_seconds_are_bytes_and_messages():
    line = Line(latency=0.25, rate=100.0, one_way=200.0)
    assert line.seconds(400, 2) == 4.5 and line.turn_seconds(400, 2) == 2.5
    assert Line(0.25, 100.0).turn_seconds(400, 2) == 4.5


@pytest.mark.parametrize("wrong", [(-1.0, 1.0, 0.0), (0.0, 0.0, 0.0), (0.0, 1.0, -1.0)])
def test_a_line_that_cannot_be_is_refused(wrong):
    with pytest.raises(InputError, match="expected a rate above 0"):
        Line(*wrong)


def test_a_burst_passes_at_the_peak_rate():
    """By hand: while 100 saved bytes pass at 100 a second, 25 more are saved up, and so on."""
    line = Line(0.0, 25.0, burst=100.0, peak=100.0)
    assert line.spent(80, 100.0) == 0.8
    assert line.spent(400 / 3, 100.0) == pytest.approx(4 / 3)  # just all that is saved
    assert line.spent(200, 100.0) == pytest.approx(4 / 3 + (200 - 400 / 3) / 25)
    assert line.spent(200, 0.0) == Line(0.0, 25.0).spent(200, 100.0) == 8.0
    for wrong in ({"burst": -1.0}, {"burst": 1.0, "peak": 0.0}):
        with pytest.raises(InputError, match="expected a burst of 0 or more"):
            Line(**wrong)
