"""Seconds by phase: the innermost counts, links apart, and nothing outside of phases."""

import pytest

from foregather.dist.transport import phase_clock
from foregather.dist.transport.phase_clock import ON_LINKS, PHASES, PhaseClock
from foregather.observe.trace import Trace


@pytest.fixture
def tick(monkeypatch):
    """A clock that goes on by itself by 1 whenever it is read, and by as much as it is told."""

    class Ticks:
        now = 0

        def __call__(self):
            self.now += 1
            return self.now

    ticks = Ticks()
    monkeypatch.setattr(phase_clock.time, "perf_counter_ns", ticks)
    return ticks


def spent(clock):
    return {name: count for name, count in clock.snapshot().items() if count}


def test_a_moment_counts_for_the_innermost_phase(tick):
    clock = PhaseClock()
    tick.now += 1000  # in no phase
    with clock.phase("frontier"):
        tick.now += 10
        with clock.phase("picks"):
            tick.now += 100
            with clock.on_links():
                tick.now += 500
                with clock.on_links():
                    tick.now += 50
            tick.now += 100
        tick.now += 10
    tick.now += 1000
    # one tick for each change of phase
    assert spent(clock) == {"frontier": 22, "picks": 202, f"picks{ON_LINKS}": 553}


def test_links_outside_of_phases_count_nowhere(tick):
    clock = PhaseClock()
    with clock.on_links():
        tick.now += 100
    assert spent(clock) == {}


def test_an_error_ends_its_phases(tick):
    clock = PhaseClock()
    with pytest.raises(ValueError, match="lost"), clock.phase("plan"), clock.on_links():
        raise ValueError("lost")
    before = spent(clock)
    tick.now += 100
    with clock.on_links():
        tick.now += 100
    assert spent(clock) == before == {"plan": 2, f"plan{ON_LINKS}": 1}


def test_names_are_there_before_anything_was_done():
    """Counts of a run are differences by name, so that no name may appear later."""
    assert set(PhaseClock().snapshot()) == {n + of for n in PHASES for of in ("", ON_LINKS)}


def test_an_unknown_phase_is_a_mistake_of_the_program():
    with pytest.raises(KeyError), PhaseClock().phase("pick"):
        pass


def test_phases_are_spans_of_the_trace():
    clock = PhaseClock()
    with Trace() as trace, clock.phase("gather"), clock.on_links():
        pass
    assert set(trace.totals()) == {"gather", "links"}
