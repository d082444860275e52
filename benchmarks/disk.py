"""Does the block reader reach what fio reaches? Random reads of one file, in turns.

Both read the same file of random bytes, directly, 64 reads in flight. fio runs as it is by default
and with the settings our reader uses too (registered file and buffers, batches of 16). Our buffers
lie in huge pages and fio's do not, so a third row of ours, with small pages, tells how much of a
difference is due to that. Our seconds are those inside `read`; fio's are the whole run. Without
fio on the PATH only our reader is measured. The test file is removed at the end.

    python benchmarks/disk.py [folder] [--quick]
"""

import argparse
import datetime
import json
import mmap
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common.report import FOLDER
from common.skip import need_disk

from foregather import _core
from foregather.observe.buffer import aligned_buffer
from foregather.observe.machine import describe_machine
from foregather.units import format_bytes

QUICK = "--quick" in sys.argv  # a small file, one round
SIZE = 64 << 20 if QUICK else 2_000_000_000 >> 20 << 20
BLOCKS = (4 << 10, 16 << 10, 64 << 10)
DEPTH = 64
ROUNDS, SECONDS = (1, 0.1) if QUICK else (5, 1.5)
TUNED = ("--fixedbufs=1", "--registerfiles=1", "--iodepth_batch_submit=16")
TUNED += ("--iodepth_batch_complete_min=1", "--iodepth_batch_complete_max=64")


def write(file):
    random = np.random.SFC64(7)
    for _ in range(SIZE >> 20):
        file.write(random.random_raw(1 << 17).tobytes())
    file.flush()
    os.fsync(file.fileno())


def small_pages(nbytes):
    memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, np.uint8)


class Ours:
    """One backend of the reader: (reads a second, CPU seconds a GB)."""

    def __init__(self, path, backend, huge=True):
        self.reader = _core.BlockReader(str(path), backend, DEPTH)
        self.buffer = aligned_buffer(DEPTH << 18) if huge else small_pages(DEPTH << 18)
        self.reader.attach(self.buffer)
        self.random = np.random.default_rng(11)

    def __call__(self, block):
        """Reads random blocks for a while."""
        total, count, done, start = SIZE // block, 1024, 0, time.perf_counter()
        before = self.reader.counters()["seconds"]
        order = self.random.permutation(total)
        places = np.arange(total) % (self.buffer.size // block) * block
        lengths = np.full(total, block)
        used = -sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        while time.perf_counter() - start < SECONDS:
            part = order[np.arange(done, done + count) % total] * block
            self.reader.read(part, lengths[:count], places[:count], self.buffer)
            done += count
            count = min(total, 20_000)
        used += sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        seconds = self.reader.counters()["seconds"] - before
        return done / seconds, used / (done * block / 1e9)


def fio(path, block, extra):
    command = ["fio", "--name=r", f"--filename={path}", f"--size={SIZE}", "--rw=randread"]
    command += [f"--bs={block}", f"--iodepth={DEPTH}", "--ioengine=io_uring", "--direct=1"]
    command += ["--time_based", f"--runtime={int(SECONDS * 1000)}ms", "--norandommap"]
    command += ["--thread", "--gtod_reduce=1", "--output-format=json", *extra]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    job = json.loads(done.stdout)["jobs"][0]
    cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["read"]["runtime"] / 1000
    return job["read"]["iops"], cpu / (job["read"]["io_bytes"] / 1e9)


def measure(path):
    """{(system, block): [(reads a second, CPU seconds a GB)]}, systems taking turns."""
    allowed = _core.probe_reader(str(path))["backends"]
    systems = {
        f"foregather {name}": Ours(path, name)
        for name in ("io_uring", "pread")
        if allowed[name] is None
    }
    if allowed["io_uring"] is None:
        systems["foregather io_uring, small pages"] = Ours(path, "io_uring", huge=False)
    if shutil.which("fio"):
        systems["fio, default"] = lambda block: fio(path, block, ())
        systems["fio, tuned"] = lambda block: fio(path, block, TUNED)
    found = {}
    for turn in range(ROUNDS):
        for block in BLOCKS:
            names = list(systems)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                found.setdefault((name, block), []).append(systems[name](block))
                print(turn, block, name, *found[name, block][-1], file=sys.stderr)
    return found


def report(found, facts, date):
    disk, cpu = facts["disk"], facts["cpu"]
    version = "not installed"
    if shutil.which("fio"):
        version = subprocess.run(["fio", "--version"], capture_output=True, text=True).stdout
    lines = [
        f"# Disk: the block reader beside fio, {date}",
        "",
        f"{cpu['cores_allowed']} cores ({cpu['model']}), "
        f"{format_bytes(facts['memory']['total'])} memory, Linux {facts['kernel']}; "
        f"{disk['filesystem']} on {disk['source']}, scheduler {disk['scheduler']}, "
        f"{disk['requests']} requests in its queue. {version.strip()}.",
        "",
        f"Random direct reads of a file of {format_bytes(SIZE)}, depth {DEPTH}, {SECONDS} s a run, "
        f"{ROUNDS} runs, systems in turns. Median [least, most]. "
        "`fio, tuned` = registered file and buffers, batches of 16.",
        "",
        "| block | system | reads/s | MB/s | CPU s/GB | of the better fio |",
        "|---|---|---|---|---|---|",
    ]
    for block in BLOCKS:
        rates = {name: [run[0] for run in runs] for (name, b), runs in found.items() if b == block}
        peer = max(
            (statistics.median(runs) for name, runs in rates.items() if "fio" in name), default=None
        )
        for name, runs in rates.items():
            middle = statistics.median(runs)
            used = statistics.median(run[1] for run in found[name, block])
            share = f"{middle / peer:.2f}" if peer else "-"
            lines.append(
                f"| {block >> 10} KiB | {name} | {middle:,.0f} [{min(runs):,.0f}, {max(runs):,.0f}]"
                f" | {middle * block / 1e6:,.0f} | {used:.2f} | {share} |"
            )
    lines += [
        "",
        f"Load average at the end: {os.getloadavg()[0]:.1f}. The file was read soon after it was "
        "written, so a cache of the host or the drive may have served a part. Compare the rows of "
        "one run, not the figures of different days.",
        "",
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path(), help="where the file is")
    parser.add_argument("--quick", action="store_true", help="a small file, one round")
    folder = parser.parse_args().folder
    need_disk(folder, 2 * SIZE)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".foregather-bench-") as file:
        write(file)
        found = measure(Path(file.name))
    date = datetime.date.today().isoformat()
    target = FOLDER / f"disk_{date}.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text(report(found, describe_machine(folder), date), encoding="utf-8")
    print(target.read_text())


if __name__ == "__main__":
    main()
