"""Lines with a burst, against token buckets that let one small packet after another pass."""

import random

import pytest

from foregather.pipeline import Line
from foregather.pipeline.planning.measured_line import fit_line
from foregather.pipeline.planning.simulate import Action, simulate

PACKET = 50
SHAPED = Line(0.003, 1e6, burst=40_000, peak=8e6)


class Bucket:
    """A token bucket, packet by packet: each needs as many tokens as it has bytes."""

    def __init__(self, line: Line) -> None:
        self.line, self.tokens, self.last, self.free = line, line.burst, 0.0, 0.0

    def passed(self, there: float) -> float:
        """When a packet that is there at some time has passed."""
        line, begin = self.line, max(there, self.free)
        self.tokens = min(line.burst, self.tokens + (begin - self.last) * line.rate)
        if self.tokens < PACKET:
            begin += (PACKET - self.tokens) / line.rate
            self.tokens = PACKET
        self.tokens -= PACKET
        self.last, self.free = begin, begin + PACKET / (line.peak or line.rate)
        return self.free


def slowly(messages: list[tuple[float, int]], line: Line) -> list[float]:
    """When messages have arrived: (seconds of work before it, bytes), all from one rank."""
    leaving, coming, now, arrived = Bucket(line), Bucket(line), 0.0, []
    for work, size in messages:
        now += work
        for _ in range(size // PACKET):
            last = coming.passed(leaving.passed(now) + line.latency)
        arrived.append(last)
    return arrived


def modelled(messages: list[tuple[float, int]], line: Line) -> list[float]:
    """The same by the simulator."""
    sender = [
        one
        for work, size in messages
        for one in (Action("compute", work), Action("send", peer=1, bytes=size))
    ]
    receiver = [
        one
        for number in range(len(messages))
        for one in (Action("receive", peer=0), Action("compute", 1e-9, name=f"f{number}"))
    ]
    return [run.begin for run in simulate([sender, receiver], line).runs]


@pytest.mark.parametrize("seed", range(12))
def test_messages_arrive_when_a_token_bucket_lets_them(seed):
    rng = random.Random(seed)
    messages = [
        (rng.choice([1e-6, 0.01, 0.1]) * rng.random() + 1e-9, PACKET * rng.randint(1, 2000))
        for _ in range(10)
    ]
    expected = slowly(messages, SHAPED)
    few = 4 * PACKET / SHAPED.rate
    assert modelled(messages, SHAPED) == pytest.approx(expected, abs=few)
    plain = modelled(messages, Line(SHAPED.latency, SHAPED.rate))
    assert plain[0] > expected[0] + few or messages[0][1] < 20 * PACKET  # the burst matters


def test_a_message_that_was_slow_to_leave_saves_up_where_it_arrives():
    """Two ranks send to one: the second message finds what the first has left of the burst."""
    line = Line(0.0, 100.0, burst=100.0, peak=1e9)
    first = [Action("send", peer=2, bytes=60)]
    second = [Action("compute", 0.1), Action("send", peer=2, bytes=90)]
    third = [Action("receive", peer=0), Action("receive", peer=1), Action("compute", 1.0)]
    # 60 of 100 pass, 10 are saved up again, and 40 of the 90 have to wait
    assert simulate([first, second, third], line).seconds == pytest.approx(0.1 + 0.4 + 1)


@pytest.mark.parametrize("burst", [16_384, 250_000, 500_000])
def test_a_measured_line_finds_the_burst_of_a_token_bucket(burst):
    line = Line(40e-6, 125e6, burst=burst, peak=1.5e9)
    sizes = [4, 1 << 16, 1 << 21, 1 << 22]
    took = [line.latency + line.spent(size, line.burst) for size in sizes]
    slow = [slowly([(0.0, size)], line)[0] for size in sizes[1:3]]
    assert took[1:3] == pytest.approx(slow, rel=0.01)
    found = fit_line(sizes, took, 1e-10, 2)
    assert found.rate == pytest.approx(line.rate, rel=1e-3)
    assert found.latency == pytest.approx(line.latency, rel=1e-3)
    assert found.burst == pytest.approx(burst, rel=0.01)
    assert (found.work, found.cores) == (1e-10, 2)
    if burst > sizes[1]:
        assert found.peak == pytest.approx(line.peak, rel=0.01)
    for size in sizes:  # and it tells what was measured
        told = found.latency + found.spent(size, found.burst)
        assert told == pytest.approx(line.latency + line.spent(size, line.burst), rel=0.15)


def test_a_measured_line_without_a_burst_has_none():
    sizes = [4, 1 << 16, 1 << 21, 1 << 22]
    found = fit_line(sizes, [50e-6 + size / 1e9 for size in sizes])
    assert found.burst == pytest.approx(0.0, abs=1.0)
    assert found.rate == pytest.approx(1e9, rel=1e-6)
    late = fit_line(sizes, [50e-6, 200e-6, 0.0015, 0.003])  # small ones are the slow ones
    assert late.burst == 0.0 and late.peak is None
    assert late.rate == pytest.approx((sizes[3] - 4) / (0.003 - 50e-6))


def test_times_of_a_busy_machine_are_no_burst():
    """A small message that took longer than a larger one, and a burst larger than what shows it."""
    sizes = [4, 1 << 16, 1 << 21, 1 << 22]
    for took in ([1.3e-3, 2e-4, 1.7e-3, 2.3e-3], [1e-4, 2e-4, 3e-4, 5e-3]):
        found = fit_line(sizes, took)
        assert found.burst == 0.0 and found.peak is None
        assert found.rate == pytest.approx((sizes[3] - 4) / (took[3] - took[0]))
