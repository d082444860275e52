"""typed_tables: random tables of several types, and the graph that they are, made in plain Python.

The oracle looks ids up in dictionaries and hands arrays to `NodeTable.of` and `Relation.of`; it
shares nothing with the conversion.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from foregather.graph.hetero import HeteroGraph, NodeTable, Relation

__all__ = ["Tables", "random_tables"]


@dataclass
class Tables:
    """Tables, the description of them, and what they must become."""

    tables: dict[str, dict[str, list[Any]]]
    spec: str
    graph: HeteroGraph
    dropped: dict[str, int] = field(default_factory=dict)

    def write(self, folder: Path, end: str = "parquet") -> Path:
        """Writes the files; returns the description."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, columns in self.tables.items():
            path = folder / f"{name}.{end}"
            if end == "parquet":
                pq.write_table(pa.table(columns), path, row_group_size=37)
                continue
            rows = zip(*columns.values(), strict=True)
            lines = [",".join(columns)]
            lines += [",".join("" if v is None else str(v) for v in row) for row in rows]
            path.write_text("\n".join(lines) + "\n")
        (folder / "d.toml").write_text(self.spec.replace("{end}", end))
        return folder / "d.toml"


def random_tables(seed: int, size: int, text: bool) -> Tables:
    """Users, items, tags, purchases and facts.

    Args:
        seed: of everything.
        size: how many rows there are, about.
        text: ids are text, not whole numbers.
    """
    rng = np.random.default_rng(seed)
    users = _ids(rng, 1 + size // 3, text, "u")
    items = _ids(rng, 1 + size // 4, text, "i")
    user = {
        "id": users,
        "age": [None if one % 7 == 0 else float(one) for one in range(len(users))],
        "kind": rng.choice(["b", "a", "c"], len(users)).tolist(),
        "best": _found([_some(rng, items, text, "i") for _ in users], items),
        "tag": [_some(rng, ["t1", "t2", "ß"], True, "t", 0) for _ in users],
    }
    item = {
        "id": items,
        "at": rng.integers(-50, 50, len(items)).tolist(),
        "label": rng.choice(["x", "y", ""], len(items)).tolist(),
        "part": rng.choice(["train", "test"], len(items)).tolist(),
    }
    bought = {
        "who": _found([_some(rng, users, text, "u") for _ in range(size)], users),
        "what": _found([_some(rng, items[: 1 + size // 9], text, "i") for _ in range(size)], items),
        "at": rng.integers(0, 9, size).tolist(),
        "w": rng.random(size).astype(np.float32).tolist(),
        "more": rng.integers(0, 5, size).tolist(),
    }
    entities = [f"e{n}" for n in range(1 + size // 5)]
    facts = {
        "h": rng.choice(entities, size).tolist(),
        "r": rng.choice(["knows", "likes", "a/b"], size).tolist(),
        "t": rng.choice(entities, size).tolist(),
        "at": rng.integers(0, 99, size).tolist(),
    }
    tables: dict[str, dict[str, list[Any]]] = {
        "user": user, "item": item, "bought": bought, "facts": facts
    }  # fmt: skip
    return Tables(tables, SPEC, *_oracle(user, item, bought, facts))


SPEC = """
[nodes.user]
file = "user.{end}"
id = "id"
features = ["age"]
categories = ["kind"]
foreign = { best = "item", tag = "tag" }
[nodes.item]
file = "item.{end}"
id = "id"
time = "at"
labels = "label"
split = "part"
[nodes.tag]
[[edges]]
type = ["user", "bought", "item"]
file = "bought.{end}"
source = "who"
target = "what"
time = "at"
weight = "w"
features = ["more", "w"]
reverse = true
missing = "drop"
[triples]
file = "facts.{end}"
head = "h"
relation = "r"
tail = "t"
time = "at"
reverse = true
"""


def _ids(rng: Any, count: int, text: bool, letter: str) -> list[Any]:
    values = rng.permutation(3 * count)[:count] - count
    return [f"{letter}{one}" for one in values] if text else values.tolist()


def _some(rng: Any, ids: list[Any], text: bool, letter: str, lost: int = 12) -> Any:
    """One of the ids, sometimes nothing, sometimes what is no id."""
    place = int(rng.integers(0, len(ids) + 3 + len(ids) * lost // 100))
    if place < len(ids):
        return ids[place]
    if place < len(ids) + 2 or not lost:
        return None
    return f"{letter} none" if text else 1 << 40


def _found(keys: list[Any], ids: list[Any]) -> list[Any]:
    """The keys; where none of them is an id, which is refused, the first becomes one."""
    if any(key is not None for key in keys) and not set(keys) & set(ids):
        keys[0] = ids[0]
    return keys


def _oracle(user: Any, item: Any, bought: Any, facts: Any) -> tuple[HeteroGraph, dict[str, int]]:
    """The graph that the tables describe, made with dictionaries, and the edges that it drops."""
    number = {
        "user": {one: place for place, one in enumerate(user["id"])},
        "item": {one: place for place, one in enumerate(item["id"])},
    }
    tags = sorted({one for one in user["tag"] if one}, key=lambda one: one.encode())
    number["tag"] = {one: place for place, one in enumerate(tags)}
    entities = sorted({*facts["h"], *facts["t"]}, key=lambda one: one.encode())
    number["entity"] = {one: place for place, one in enumerate(entities)}
    kinds, labels = sorted(set(user["kind"])), sorted(set(item["label"]) - {""})
    age = np.array([np.nan if one is None else one for one in user["age"]], np.float32)
    parts = np.array(item["part"])
    nodes = {
        "user": NodeTable.of(
            len(user["id"]),
            {"x": age[:, None], "kind": np.array([kinds.index(k) for k in user["kind"]])},
            ids=_kept(user["id"]),
        ),
        "item": NodeTable.of(
            len(item["id"]),
            time=np.array(item["at"]),
            labels=np.array([labels.index(k) if k else -1 for k in item["label"]]),
            splits={name: np.flatnonzero(parts == name) for name in sorted(set(item["part"]))},
            ids=_kept(item["id"]),
        ),
        "tag": NodeTable.of(len(tags), ids=tags if tags else None),
        "entity": NodeTable.of(len(entities), ids=entities if entities else None),
    }
    edges: dict[Any, Relation] = {}
    dropped: dict[str, int] = {}

    def add(name: tuple[str, str, str], pairs: list[Any], **columns: Any) -> None:
        source, relation, target = name
        ends = np.array(pairs, np.int64).reshape(-1, 2).T
        counts = [nodes[one].num_nodes for one in (source, target)]
        edges[name] = Relation.of(ends, *counts, **columns)
        edges[target, f"rev_{relation}", source] = Relation.of(ends[::-1], *counts[::-1], **columns)

    for column, end in (("best", "item"), ("tag", "tag")):
        found = [(row, number[end].get(key)) for row, key in enumerate(user[column])]
        lost = sum(key is not None and place is None
                   for key, (_, place) in zip(user[column], found, strict=True))  # fmt: skip
        if lost:
            dropped[f"(user, f2p_{column}, {end})"] = lost
        kept = [pair for pair in found if pair[1] is not None]
        add(("user", f"f2p_{column}", end), kept)
    ends = [
        (number["user"].get(a), number["item"].get(b))
        for a, b in zip(bought["who"], bought["what"], strict=True)
    ]
    there = [row for row, pair in enumerate(ends) if None not in pair]
    if len(there) < len(ends):
        dropped["(user, bought, item)"] = len(ends) - len(there)
    weight = np.array(bought["w"], np.float32)[there]
    more = np.stack([np.array(bought["more"], np.float32)[there], weight], axis=1)
    time = np.array(bought["at"], np.int64)[there]
    pairs: list[Any] = [ends[row] for row in there]
    add(("user", "bought", "item"), pairs, time=time, weights=weight, features=more)
    for name in sorted(set(facts["r"])):
        rows = [row for row, one in enumerate(facts["r"]) if one == name]
        pairs = [(number["entity"][facts["h"][r]], number["entity"][facts["t"][r]]) for r in rows]
        add(("entity", name, "entity"), pairs, time=np.array([facts["at"][r] for r in rows]))
    meta = {
        "provenance": {"source": "d.toml"},
        "classes": {"item": labels} if labels else {},
        "categories": {"user": {"kind": kinds}},
    }
    return HeteroGraph(nodes, edges, {k: v for k, v in meta.items() if v}), dropped


def _kept(ids: list[Any]) -> Any:
    """Whole numbers that are those of the rows are not kept."""
    return None if ids == list(range(len(ids))) else ids
