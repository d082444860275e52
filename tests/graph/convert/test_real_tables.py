"""Real relational tables, from Parquet and from a database, against arrays that others made."""

import sqlite3

import numpy as np
import pyarrow.parquet as pq
import pytest

from foregather import SplitRule, convert
from foregather.graph.hetero import HeteroGraph
from tests.some import some
from tests.typed_data import load_typed, typed_folder

FLIGHTS = """
CREATE TABLE airline(carrier TEXT PRIMARY KEY, name TEXT);
CREATE TABLE airport(faa TEXT PRIMARY KEY, lat REAL, lon REAL, alt INTEGER, tz INTEGER);
CREATE TABLE plane(tailnum TEXT PRIMARY KEY, year REAL, model TEXT);
CREATE TABLE flight(carrier TEXT REFERENCES airline, origin TEXT REFERENCES airport,
  dest TEXT REFERENCES airport, tailnum TEXT REFERENCES plane, distance INTEGER,
  scheduled DATETIME, hour_utc DATETIME);
"""


def fill(database, name, path, columns, made=()):
    """Inserts columns of a Parquet file, then those that are made of rows."""
    for batch in pq.ParquetFile(path).iter_batches(50_000):
        rows = batch.to_pylist()
        values = [(*(row[one] for one in columns), *(make(row) for make in made)) for row in rows]
        marks = ", ".join("?" * (len(columns) + len(made)))
        database.executemany(f"INSERT INTO {name} VALUES ({marks})", values)


def scheduled(row):
    """Departure in local time, taken as if it were UTC, as the published arrays have it."""
    clock = divmod(row["sched_dep_time"], 100)
    day = f"{row['year']:04d}-{row['month']:02d}-{row['day']:02d}"
    return f"{day} {clock[0]:02d}:{clock[1]:02d}:00"


@pytest.mark.slow
def test_flights_from_a_database_are_the_published_graph(tmp_path):
    graph, tables = load_typed("nycflights13_graph"), typed_folder() / "nycflights13"
    database = sqlite3.connect(tmp_path / "flights.sqlite")
    database.executescript(FLIGHTS)
    fill(database, "airline", tables / "airlines.parquet", ["carrier", "name"])
    fill(database, "airport", tables / "airports.parquet", ["faa", "lat", "lon", "alt", "tz"])
    fill(database, "plane", tables / "planes.parquet", ["tailnum", "year", "model"])
    keys = ["carrier", "origin", "dest", "tailnum", "distance"]
    more = (scheduled, lambda row: row["time_hour"])
    fill(database, "flight", tables / "flights.parquet", keys, more)
    database.commit()
    database.close()
    (tmp_path / "d.toml").write_text(
        "database = 'flights.sqlite'\n[nodes.flight]\ntime = 'scheduled'\nlabels = 'distance'"
    )
    rule = SplitRule(times=("2013-09-01", "2013-11-01"))
    facts = convert(tmp_path / "d.toml", tmp_path / "g", splits=rule)
    made = HeteroGraph.open(tmp_path / "g")
    lost = {"(flight, f2p_dest, airport)": 7602, "(flight, f2p_tailnum, plane)": 50_094}
    assert facts["dropped"] == lost
    np.testing.assert_array_equal(made.nodes["flight"].time, graph.nodes["flight"].time)
    np.testing.assert_array_equal(
        made.nodes["airport"].features["x"], graph.nodes["airport"].features["x"]
    )
    names = {"carrier": "airline", "origin": "airport", "dest": "airport", "tailnum": "plane"}
    for column, end in some(names.items()):
        role = {"carrier": "airline", "tailnum": "plane"}.get(column, column)
        one = made.relation(("flight", f"f2p_{column}", end))
        two = graph.relation(("flight", f"f2p_{role}", end))
        np.testing.assert_array_equal(one.indptr, two.indptr)
        np.testing.assert_array_equal(one.indices, two.indices)
    splits = made.nodes["flight"].splits  # months 1 to 8, 9 and 10, 11 and 12
    months = pq.read_table(tables / "flights.parquet", columns=["month"])["month"].to_numpy()
    for name, first, last in some((("train", 1, 8), ("valid", 9, 10), ("test", 11, 12))):
        rows = np.flatnonzero((months >= first) & (months <= last))
        np.testing.assert_array_equal(splits[name], rows)
    assert "model of plane is 127 categories" in "\n".join(facts["notes"])
    assert "hour_utc (a date that is not the time)" in "\n".join(facts["notes"])


def test_tennis_tables_are_the_published_graph(tmp_path):
    tables = typed_folder() / "tennis"
    (tmp_path / "d.toml").write_text(
        f"""
        [nodes.match]
        file = "{tables}/matches.parquet"
        foreign = {{ winner_id = "player", loser_id = "player", tourney_id = "tournament" }}
        [nodes.player]
        file = "{tables}/players.parquet"
        id = "player_id"
        [nodes.tournament]
        file = "{tables}/tournaments.parquet"
        id = "tourney_id"
        """
    )
    facts = convert(tmp_path / "d.toml", tmp_path / "g")
    assert facts["dropped"] == {} and facts["types"]["match"] == 194_996
    made = HeteroGraph.open(tmp_path / "g")
    with np.load(typed_folder() / "tennis_graph.npz") as file:
        won = file["y_match"] == 1
        a, b, tournament = (
            file[f"fk_match__{k}"] for k in ("a__player", "b__player", "tournament")
        )
    expected = {
        ("player", "rev_f2p_winner_id", "match"): np.where(won, a, b),
        ("player", "rev_f2p_loser_id", "match"): np.where(won, b, a),
        ("tournament", "rev_f2p_tourney_id", "match"): tournament,
    }
    for name, rows in some(expected.items()):
        one = made.relation(name)  # a row for each match
        np.testing.assert_array_equal(one.indptr, np.arange(len(won) + 1))
        np.testing.assert_array_equal(one.indices, rows)
