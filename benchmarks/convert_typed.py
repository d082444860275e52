"""How long does a typed conversion of a few million rows take, and what is its peak of memory?

Writes Parquet tables of a shop (users and items with text ids, purchases with two foreign keys, a
time and two numbers) and converts them in a process of its own: within little memory, and with
plenty. Beside it, a process that reads the same tables whole with pyarrow, finds the rows that keys
name, and sorts both directions of both relations in NumPy, which a user would write, and which
holds everything in memory and writes nothing. Every conversion must make the same folder, which is
checked by digest. `--database` converts the same tables from a SQLite file too.
"""

import argparse
import json
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common.report import Report

from foregather.units import format_bytes, parse_count

SPEC = """
[nodes.user]
file = "user.parquet"
id = "id"
features = ["age"]
[nodes.item]
file = "item.parquet"
id = "id"
features = ["price"]
[nodes.purchase]
file = "purchase.parquet"
time = "at"
features = ["count", "paid"]
foreign = { user = "user", item = "item" }
"""

# the same in memory, as one would write it with pyarrow and NumPy
WHOLE = """
import json, sys, time
import numpy as np, pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq
folder = sys.argv[1]
tables = {name: pq.read_table(f"{folder}/{name}.parquet") for name in ("user", "item", "purchase")}
bought = tables["purchase"]
rows = bought.num_rows
x = np.stack([bought[name].to_numpy() for name in ("count", "paid")], axis=1).astype(np.float32)
times = bought["at"].to_numpy()
edges = 0
for name in ("user", "item"):
    ids = tables[name]["id"].combine_chunks()
    found = pc.index_in(bought[name].combine_chunks(), value_set=ids).to_numpy(zero_copy_only=False)
    source = np.flatnonzero(~np.isnan(found))
    target = found[source].astype(np.int64)
    order = np.argsort(target, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(target, minlength=len(ids)))])
    back = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=rows))])
    indices, backwards = source[order].astype(np.uint32), target.astype(np.uint32)
    edges += len(indices) + len(backwards)
with open("/proc/self/status") as file:
    peak = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))
print(json.dumps({"peak_memory": peak, "num_edges": edges}))
"""


def make_tables(folder: Path, rows: int) -> None:
    """Writes the tables; a few users and items are in many purchases."""
    rng = np.random.default_rng(0)
    counts = {"user": max(1, rows // 10), "item": max(1, rows // 20)}
    for name, more in (("user", "age"), ("item", "price")):
        ids = [f"{name}-{k:09x}" for k in rng.permutation(counts[name])]
        values = rng.integers(0, 99, counts[name]).astype(np.float64)
        pq.write_table(pa.table({"id": ids, more: values}), folder / f"{name}.parquet")
    schema = {"user": pa.string(), "item": pa.string(), "at": pa.int64()}
    schema |= {"count": pa.int64(), "paid": pa.float64()}
    with pq.ParquetWriter(folder / "purchase.parquet", pa.schema(schema)) as out:
        for start in range(0, rows, 500_000):
            size = min(500_000, rows - start)
            keys = {
                name: pa.array(
                    [f"{name}-{int(k):09x}" for k in counts[name] * rng.random(size) ** 3]
                )
                for name in counts
            }
            columns = {"at": rng.integers(0, 10**9, size), "count": rng.integers(1, 9, size)}
            columns |= {"paid": rng.random(size)}
            out.write_table(pa.table(keys | columns))
    (folder / "shop.toml").write_text(SPEC)


def make_database(folder: Path) -> None:
    """The same tables as a SQLite file."""
    database = sqlite3.connect(folder / "shop.sqlite")
    database.executescript(
        "CREATE TABLE user(id TEXT PRIMARY KEY, age REAL);"
        "CREATE TABLE item(id TEXT PRIMARY KEY, price REAL);"
        "CREATE TABLE purchase(user TEXT REFERENCES user, item TEXT REFERENCES item, at DATETIME,"
        " count INTEGER, paid REAL);"
    )
    for name in ("user", "item", "purchase"):
        file = pq.ParquetFile(folder / f"{name}.parquet")
        for batch in file.iter_batches(100_000):
            values = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            marks = ", ".join("?" * batch.num_columns)
            database.executemany(f"INSERT INTO {name} VALUES ({marks})", values)
    database.commit()
    database.close()


def processor_seconds() -> float:
    """Of the processes that have ended: of all threads, by the program and by the system."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command: list[str]) -> tuple[float, dict]:
    """Seconds of the whole process, and the facts it prints."""
    started, used = time.perf_counter(), processor_seconds()
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"it failed ({done.returncode}): {done.stderr}")
    return seconds, {**json.loads(done.stdout), "processor": processor_seconds() - used}


def measure(folder: Path, runs: int, small: str, database: bool) -> dict[str, list]:
    """Seconds and facts of each way, in turn."""
    sources = {
        f"convert --memory {small}": (small, "shop.toml"),
        "convert --memory 8GB": ("8GB", "shop.toml"),
    }
    if database:
        sources["convert from SQLite --memory 1GB"] = ("1GB", "shop.sqlite")
    found: dict[str, list] = {}
    digests = set()
    for _ in range(runs):
        for name, (memory, source) in sources.items():
            target = folder / "g"
            command = ["-m", "foregather", "convert", str(folder / source), str(target), "--json"]
            found.setdefault(name, []).append(run([*command, "--memory", memory]))
            if source == "shop.toml":
                digests.add(json.loads((target / "meta.json").read_text())["digest"])
            shutil.rmtree(target)
        found.setdefault("pyarrow and NumPy in memory, nothing written", []).append(
            run(["-c", WHOLE, str(folder)])
        )
    if len(digests) != 1:
        sys.exit("budgets made different folders")
    edges = {facts["num_edges"] for results in found.values() for _, facts in results}
    if len(edges) != 1:
        sys.exit(f"the ways disagree about the edges: {edges}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="3M", help="purchases")
    parser.add_argument("--memory", default="300MB", help="the small budget")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--database", action="store_true", help="a SQLite file too")
    parser.add_argument("--folder", default=None, help="where to put the files")
    parser.add_argument("--quick", action="store_true", help="few rows, for a try")
    args = parser.parse_args()
    rows, runs = (20_000, 1) if args.quick else (parse_count(args.rows), args.runs)
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="fg-bench-") as name:
        folder = Path(name)
        make_tables(folder, rows)
        size = sum(one.stat().st_size for one in folder.glob("*.parquet"))
        if args.database:
            make_database(folder)
        found = measure(folder, runs, args.memory, args.database)
    report = Report("convert_typed", __doc__)
    edges = next(iter(found.values()))[0][1]["num_edges"]
    report.line(
        f"{rows:,} purchases, {rows // 10:,} users and {rows // 20:,} items in "
        f"{format_bytes(size)} of Parquet; {edges:,} edges with their ways back. Whole processes, "
        f"{runs} runs in turn; median (smallest to largest)."
    )
    whole = statistics.median(took for took, _ in list(found.values())[-1])
    lines = []
    for way, results in found.items():
        took = [seconds for seconds, _ in results]
        peak = max(facts["peak_memory"] for _, facts in results)
        used = statistics.median(facts["processor"] for _, facts in results)
        lines.append(
            [
                way,
                f"{statistics.median(took):.2f} ({min(took):.2f} to {max(took):.2f})",
                f"{statistics.median(took) / whole:.2f}",
                f"{used:.2f}",
                format_bytes(peak),
            ]
        )
    head = ["way", "seconds", "ratio to in memory", "seconds of processors", "peak resident"]
    report.table(head, lines)
    report.write()


if __name__ == "__main__":
    main()
