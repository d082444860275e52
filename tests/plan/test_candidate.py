"""Candidates: ranked, chosen and shown by one rule, whatever they are candidates for."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from foregather.plan.candidate import (
    Candidate,
    Column,
    cheapest,
    heading,
    rank_words,
    ranked,
    row,
)


@dataclass(frozen=True)
class Trip(Candidate):
    """A candidate with a field of its own."""

    name: str


TRIPS = st.lists(
    st.builds(
        Trip,
        st.sampled_from("abc"),
        seconds=st.integers(0, 4).map(float),
        refused=st.sampled_from(["", "", "no road"]),
    )
)


@given(TRIPS)
def test_the_cheapest_that_is_not_refused_is_first(trips):
    order, best = ranked(trips), cheapest(trips)
    assert sorted(map(id, order)) == sorted(map(id, trips))
    allowed = [one for one in trips if not one.refused]
    assert list(order[: len(allowed)]) == sorted(allowed, key=lambda one: one.seconds)
    assert (best is None) == (not allowed)
    assert best is None or best is order[0]  # of equal ones, the first given


def test_words_and_rows():
    trips = ranked(
        [
            Trip("walk", seconds=30.0, memory=7),
            Trip("fly", refused="no airport"),
            Trip("ride", seconds=4.0, memory=9),
        ]
    )
    words = list(rank_words(trips, cheapest(trips), "cannot"))
    assert words == ["choice", "runner-up", "cannot"]
    columns = (
        Column[Trip]("name", "<6", lambda one: one.name),
        Column[Trip]("time", ">7", lambda one: f"{one.seconds:.1f} s", foretold=True),
        Column[Trip]("bag", ">4", lambda one: str(one.memory), foretold=True),
    )
    assert [heading(columns), *(row(columns, one) for one in trips)] == [
        "name      time  bag",
        "ride     4.0 s    9",
        "walk    30.0 s    7",
        "fly    no airport",
    ]
