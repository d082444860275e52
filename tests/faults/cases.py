"""cases: the commands that are run with faults, what they start from, and what must come out.

A case begins with a folder of inputs, `in`, and a folder `out` with something of the user's in
it. Its command fills `out`; what it made is compared with what an undisturbed run makes.
"""

import json
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from foregather import files

__all__ = ["CASES", "Case", "snapshot"]

NODES, EDGES, CLASSES = 60, 240, 3
Argv = list[str]


def snapshot(folder: Path) -> dict[str, Any]:
    """Every name below a folder, with the bytes of files."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"link to {os.readlink(path)}"
        else:
            found[name] = path.read_bytes() if path.is_file() else None
    return found


@dataclass(frozen=True)
class Case:
    """One command.

    Attributes:
        argv: the command line; the folder of the case is the working directory.
        made: what the command makes, below `out`.
        before: command lines that make the inputs.
        resumed: the command line that goes on where `made` exists after a fault; None where it is
            complete then, or was there before.
        compared: what must equal an undisturbed run, from the path of `made`.
        piecemeal: each file of `made` is old or new by itself; otherwise all are.
        lacking: how the command says that it made less than it could. Repeating it makes the rest;
            where it is resumed instead, only the last of what is compared may differ.
        work: bytes that the steps of a typed conversion may use, so that small tables are sorted
            in runs on disk and merged, as large ones are; 0: what the budget leaves.
    """

    argv: Argv
    made: str
    before: tuple[Argv, ...] = ()
    resumed: Argv | None = None
    compared: Callable[[Path], Any] = snapshot
    piecemeal: bool = False
    lacking: str | None = None
    work: int = 0


def write_source(folder: Path) -> None:
    """A small graph as a NumPy archive, and one with names for nodes as a table."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, NODES)
    np.savez(
        folder / "a.npz",
        edge_index=rng.integers(0, NODES, (2, EDGES)),
        edge_weight=rng.random(EDGES),
        x=rng.random((NODES, 8), np.float32) + labels[:, None].astype(np.float32),
        y=labels,
        train_idx=np.arange(0, 40),
        valid_idx=np.arange(40, 50),
        test_idx=np.arange(50, 60),
    )
    pairs = [f"n{a},n{b}" for a, b in rng.integers(0, NODES, (EDGES, 2))]
    (folder / "b.csv").write_text("\n".join(["source,target", *pairs, ""]))
    rows = [f"n{k},{k}.5,{'xyz'[k % 3]}" for k in range(0, NODES + 9, 2)]
    (folder / "n.csv").write_text("\n".join(["id,x,label", *rows, ""]))
    _write_tables(folder, rng)


def _write_tables(folder: Path, rng: np.random.Generator) -> None:
    """Tables of several types with a description, and the same as a database."""
    users = [(10 + 3 * k, f"kind {k % 4}", k / 2, int(rng.integers(0, 9))) for k in range(30)]
    lines = [",".join(map(str, row)) for row in users]
    (folder / "users.csv").write_text("\n".join(["id,kind,x,item", *lines, ""]))
    bought = [f"{10 + 3 * a},i{b},{a + b}" for a, b in rng.integers(0, 30, (90, 2))]
    (folder / "bought.csv").write_text("\n".join(["who,what,at", *bought, ""]))
    (folder / "events.csv").write_text("\n".join([f"u{line}" for line in bought]) + "\n")
    links = [",".join(line.split(",")[:2]) for line in bought[:20]]
    (folder / "links.csv").write_text("\n".join(["source,target", *links, ""]))
    (folder / "t.toml").write_text(
        """
        [nodes.user]
        file = "users.csv"
        id = "id"
        features = ["x"]
        labels = "kind"
        foreign = { item = "number" }
        [nodes.number]
        count = 9
        [nodes.item]
        [[edges]]
        type = ["user", "bought", "item"]
        file = "bought.csv"
        source = "who"
        target = "what"
        time = "at"
        reverse = true
        """
    )
    _write_relational(folder, users, bought)
    database = sqlite3.connect(folder / "t.sqlite")
    database.execute("CREATE TABLE number(id INTEGER PRIMARY KEY)")
    database.executemany("INSERT INTO number VALUES (?)", [(k,) for k in range(9)])
    key = "item INTEGER REFERENCES number"
    database.execute(f"CREATE TABLE user(id INTEGER PRIMARY KEY, kind TEXT, x REAL, {key})")
    database.executemany("INSERT INTO user VALUES (?, ?, ?, ?)", users)
    database.commit()
    database.close()


def _write_relational(folder: Path, users: list[Any], bought: list[str]) -> None:
    """Parquet tables with text keys, some of which point nowhere, and triples with times."""
    names = ("id", "kind", "x", "item")
    columns = dict(zip(names, map(list, zip(*users, strict=True)), strict=True))
    columns["id"] = [f"user {one}" for one in columns["id"]]
    columns["item"] = [None if one == 3 else one for one in columns["item"]]
    pq.write_table(pa.table(columns), folder / "people.parquet", row_group_size=7)
    rows = [line.split(",") for line in bought]
    who, _, at = zip(*rows, strict=True)
    people = [f"user {one}" for one in who]
    people[5] = "user nobody"
    sales = {"who": people, "at": [int(one) for one in at]}
    pq.write_table(pa.table(sales), folder / "sales.parquet", row_group_size=13)
    (folder / "r.toml").write_text(
        """
        [nodes.user]
        file = "people.parquet"
        id = "id"
        features = ["x"]
        foreign = { item = "number" }
        [nodes.number]
        count = 9
        [nodes.sale]
        file = "sales.parquet"
        time = "at"
        foreign = { who = "user" }
        """
    )
    facts = [f"u{a}\tlikes {int(when) % 3}\t{b}\t{when}" for a, b, when in rows]
    (folder / "kg.txt").write_text("\n".join([*facts, ""]))
    (folder / "kg.toml").write_text('[triples]\nfile = "kg.txt"\ntime = "4"\nreverse = true\n')


def _scores(path: Path) -> bytes:
    return path.read_bytes()


def _trained(run: Path) -> Any:
    """Weights and the course of training, not how long it took; last, the scores at the end."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    course = [
        {key: record.get(key) for key in ("epoch", "loss", "train", "valid")}
        for record in map(json.loads, lines)
    ]
    summary = json.loads((run / "summary.json").read_text())
    scores = {key: summary.get(key) for key in ("epochs", "best_epoch", "valid", "test")}
    weights = (run / "model.safetensors").read_bytes()
    return course, weights, (run / "config.toml").read_bytes(), scores


def _page(run: Path) -> Any:
    """All of the run's folder but what a kill left of a file being written.

    A report does not clear that, because the run may be training; resuming it does.
    """
    return {
        name: data
        for name, data in snapshot(run).items()
        if not files._PARTIAL.fullmatch(Path(name).name)
    }


_CONVERT = ["convert", "in/a.npz", "in/g", "--memory", "2GB", "--threads", "1"]
_NODES = ["--node-table", "in/n.csv", "--fill", "0", "--split", "0.5", "0.2", "0.3"]
_EVENTS = ["--time", "3", "--header", "no"]
_EVENTS += ["--split-links", "0.8", "0.1", "0.1", "--split-links-by", "time"]
_LINKS = ["--split-links-relation", "user", "bought", "item", "--links", "train=in/links.csv"]
_FLAGS = ["--train.epochs", "2", "--train.batch-size", "16", "--model.hidden", "4"]
_FLAGS += ["--train.threads", "1", "--sampler.fanouts", "3", "2", "--memory.prefetch", "1"]
_FLAGS += ["--checkpoint.minutes", "1e-6", "--train.device", "cpu"]  # after each batch
_TRAIN = ["train", "--graph", "in/g", *_FLAGS]
_SMALL = ["--memory.budget", "60MB", "--memory.storage", "disk"]

_TYPED = ["synth", "out/g", "--nodes", "200", "--classes", "3", "--features", "4"]
_TYPED += ["--degree", "4", "--threads", "1"]

CASES: dict[str, Case] = {
    "convert": Case(
        ["convert", "in/a.npz", "out/g", "--memory", "2GB", "--threads", "1", "--undirected"],
        "g",
    ),
    "convert --overwrite": Case(
        ["convert", "in/b.csv", "out/g", "--ids", "string", *_CONVERT[3:], "--overwrite"],
        "g",
        before=([*_CONVERT[:2], "out/g", *_CONVERT[3:]],),
    ),
    "convert --node-table": Case(
        ["convert", "in/b.csv", "out/g", *_CONVERT[3:], *_NODES],
        "g",
    ),
    "convert tables": Case(
        ["convert", "in/t.toml", "out/g", *_CONVERT[3:], "--split", "0.5", "0.2", "0.3"],
        "g",
    ),
    "convert a database": Case(
        ["convert", "in/t.sqlite", "out/g", *_CONVERT[3:], "--overwrite"],
        "g",
        before=([*_CONVERT[:2], "out/g", *_CONVERT[3:]],),
    ),
    "convert tables in runs": Case(
        ["convert", "in/r.toml", "out/g", *_CONVERT[3:]],
        "g",
        work=6000,
    ),
    "convert triples in runs": Case(
        ["convert", "in/kg.toml", "out/g", *_CONVERT[3:], "--overwrite"],
        "g",
        before=([*_CONVERT[:2], "out/g", *_CONVERT[3:]],),
        work=6000,
    ),
    "convert --time": Case(
        ["convert", "in/events.csv", "out/g", *_CONVERT[3:], *_EVENTS],
        "g",
    ),
    "convert tables --links": Case(
        ["convert", "in/t.toml", "out/g", *_CONVERT[3:], *_LINKS],
        "g",
    ),
    "synth": Case(
        ["synth", "out/g", "--nodes", "200", "--degree", "4", "--features", "4", "--threads", "1"],
        "g",
    ),
    "synth --types": Case(
        [*_TYPED, "--types", "3", "--times", "edge", "--overwrite"],
        "g",
        before=([*_TYPED, "--types", "2"],),
    ),
    "partition": Case(
        ["partition", "in/g", "out/p", "--parts", "2"],
        "p",
        before=(_CONVERT,),
    ),
    "train": Case(
        [*_TRAIN, "--run", "out/r"],
        "r",
        before=(_CONVERT,),
        resumed=["train", "--resume", "out/r"],
        compared=_trained,
        lacking="the final scores are sampled, since",
    ),
    "train from disk": Case(
        [*_TRAIN, "--run", "out/r", *_SMALL],
        "r",
        before=(_CONVERT,),
        resumed=["train", "--resume", "out/r"],
        compared=_trained,
        lacking="the final scores are sampled, since",
    ),
    "infer": Case(
        ["infer", "in/r", "in/g", "out/s.npy", "--memory", "60MB", "--batch-size", "30"],
        "s.npy",
        before=(_CONVERT, [*_TRAIN, "--run", "in/r"]),
        compared=_scores,
    ),
    "report": Case(
        ["report", "out/r"],
        "r",
        before=(_CONVERT, [*_TRAIN, "--run", "out/r"]),
        compared=_page,
        piecemeal=True,
        lacking="no miss curve: ",
    ),
    "verify": Case(
        ["verify", "in/g", "--threads", "1"],
        "",
        before=(_CONVERT,),
    ),
}
