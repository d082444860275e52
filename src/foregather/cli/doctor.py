"""doctor: reports what this machine offers and what limits it, and measures one disk.

Every line of the report is a check with a verdict, good or limited, and a limited one says what to
do. A refusal (no io_uring, no O_DIRECT, read-only folder, full disk) is a finding, never a failure.
"""

import os
import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import tyro

from foregather import _core
from foregather.errors import ForegatherError, InputError
from foregather.observe.disk import (
    MEMORY_FILESYSTEMS,
    Calibration,
    calibrate,
    find_calibration,
    first_backend,
)
from foregather.observe.machine import PACKAGES, describe_machine
from foregather.units import format_bytes, format_count

__all__ = ["Doctor"]

_QUICK_SIZE = 256 << 20
_EXTRAS = {"torch-geometric": "pyg", "pyarrow": "parquet"}
_SMALL_QUEUE = 32  # below this a disk queue cannot hold the reads io_uring keeps in flight
_SMALL_LOCKED = 64 << 20  # below this a staging buffer cannot be pinned
_SLOW = 5000  # reads per second; solid-state disks do ten times more

Check = dict[str, str]


@dataclass(frozen=True)
class Doctor:
    """Report versions, memory, cores and read backends, and measure a disk.

    The measured rates are stored for later runs, which use them to choose block size and depth.
    """

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="[FOLDER]")] = Path(".")
    """A folder (or a file) on the disk to test."""
    quick: bool = False
    """Measure for about 2 seconds instead of 10."""
    no_disk: bool = False
    """Do not write a test file; show the stored measurement, if there is one."""
    json: bool = False
    """Print the facts as JSON."""

    def run(self) -> dict[str, Any]:
        """Inspects, probes and measures; refusals become checks."""
        if not self.path.exists():
            raise InputError(f"{self.path.name} does not exist; name a folder on the disk to test")
        folder = self.path if self.path.is_dir() else self.path.parent
        machine = describe_machine(folder)
        reader, checks = _check_reading(folder)
        checks = [*_check_packages(machine), *_check_machine(machine), *checks]
        calibration, stored, more = self._measure(folder)
        checks += [*more, *_check_disk(machine["disk"], calibration)]
        return {
            "machine": machine,
            "reader": reader,
            "checks": checks,
            "calibration": calibration.to_json() if calibration else None,
            "stored": stored,
        }

    def _measure(self, folder: Path) -> tuple[Calibration | None, str | None, list[Check]]:
        """(calibration, where it is stored, what went wrong)."""
        if self.no_disk:
            old, note = find_calibration(folder)
            return old, None, [_limited("stored", note, "run without --no-disk")] if note else []
        try:
            found = calibrate(folder, 2.0, _QUICK_SIZE) if self.quick else calibrate(folder)
        except ForegatherError as error:
            return None, None, [_limited("disk test", str(error), "the disk was not measured")]
        try:
            return found, str(found.save()), []
        except ForegatherError as error:
            return found, None, [_limited("stored", str(error), "this result was not stored")]

    def show(self, facts: dict[str, Any]) -> str:
        """Returns the report as text."""
        width = max(len(check["what"]) for check in facts["checks"])
        lines = []
        for check in facts["checks"]:
            lines.append(f"{check['status']:8} {check['what']:{width}}  {check['found']}")
            if check["advice"]:
                lines.append(f"{'':8} {'':{width}}  -> {check['advice']}")
        if facts["calibration"]:
            lines += ["", *_table(Calibration.from_json(facts["calibration"]))]
        if facts["stored"]:
            lines.append(f"stored in {facts['stored']}")
        return "\n".join(lines)


def _good(what: str, found: str) -> Check:
    return {"status": "good", "what": what, "found": found, "advice": ""}


def _limited(what: str, found: str, advice: str) -> Check:
    return {"status": "limited", "what": what, "found": found, "advice": advice}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])


def _least_versions() -> dict[str, str]:
    """Returns the minimum version of each package that this installation requires.

    Empty if it cannot be looked up: the package folder may not be readable for this user.
    """
    found = {}
    try:
        requirements = metadata.requires("foregather") or []
    except metadata.PackageNotFoundError:
        requirements = []
    for requirement in requirements:
        if match := re.match(
            r"([A-Za-z0-9_.-]+?)\s*(?:\[.*?\])?\s*[(]?>=\s*([0-9.]+)", requirement
        ):
            found[match[1].lower()] = match[2]
    return found


def _check_packages(machine: dict[str, Any]) -> list[Check]:
    checks = [_good("python", machine["python"])]
    least = _least_versions()
    for name in PACKAGES:
        have, need = machine["packages"][name], least.get(name)
        if have is None and name in _EXTRAS:
            extra = f'pip install "foregather[{_EXTRAS[name]}]"'
            checks.append(_limited(name, "not installed", f"only if you need it: {extra}"))
        elif have is None:
            checks.append(_limited(name, "not installed", f"pip install {name}"))
        elif need and _numbers(have) < _numbers(need):
            advice = f'pip install "{name}>={need}"'
            checks.append(_limited(name, f"{have} is older than {need}", advice))
        else:
            checks.append(_good(name, have))
    return checks


def _check_machine(machine: dict[str, Any]) -> list[Check]:
    cpu, memory = machine["cpu"], machine["memory"]
    checks = [_good("kernel", machine["kernel"])]
    cores = f"{cpu['cores_allowed']} of {cpu['cores_total']} ({cpu['model']})"
    if cpu["cores_allowed"] < (cpu["cores_total"] or 0):
        advice = "an affinity mask or container restricts the process to these"
        checks.append(_limited("cores", cores, advice))
    else:
        checks.append(_good("cores", cores))
    if {"avx2", "asimd"} & set(cpu["simd"]):
        checks.append(_good("simd", " ".join(cpu["simd"])))
    else:
        found = " ".join(cpu["simd"]) or "none of interest"
        checks.append(_limited("simd", found, "everything works, but copies and casts are slower"))
    amount = f"{_bytes(memory['available'])} available of {_bytes(memory['total'])}"
    if memory["cgroup_limit"]:
        found = f"{amount}, limited to {_bytes(memory['cgroup_limit'])} by its control group"
        checks.append(_limited("memory", found, "keep memory budgets below that limit"))
    else:
        checks.append(_good("memory", amount))
    if memory["huge_pages"] in ("always", "madvise"):
        checks.append(_good("huge pages", memory["huge_pages"]))
    else:
        advice = "set /sys/kernel/mm/transparent_hugepage/enabled to madvise (needs root)"
        checks.append(_limited("huge pages", memory["huge_pages"] or "unknown", advice))
    locked = memory["locked_limit"]
    if locked is None or locked >= _SMALL_LOCKED or os.geteuid() == 0:  # root may lock any amount
        checks.append(_good("locked memory", "enough to pin read buffers"))
    else:
        advice = "raise ulimit -l; until then every read pins its own pages, which costs some CPU"
        checks.append(_limited("locked memory", f"at most {_bytes(locked)}", advice))
    return checks


def _check_reading(folder: Path) -> tuple[dict[str, Any], list[Check]]:
    """Runs `probe_reader`; returns its result and the checks derived from it."""
    try:
        reader: dict[str, Any] = dict(_core.probe_reader(str(folder)))
        reader["backend"] = first_backend(reader["backends"])
    except ForegatherError as error:
        return {}, [_limited("reading", str(error), "nothing was tried there")]
    backends, checks = reader["backends"], []
    if backends["pread"] is None:
        found = f"yes, in multiples of {reader['alignment']} bytes"
        checks.append(_good("O_DIRECT", found))
    else:
        advice = "reads fall back to the page cache; put the graph on a local disk to avoid that"
        checks.append(_limited("O_DIRECT", backends["pread"], advice))
    if backends["io_uring"] is None:
        kind = "with deferred completions" if reader["deferred"] else "without deferred completions"
        checks.append(_good("io_uring", f"yes, {kind}"))
    else:
        rest = "a pool of pread threads" if backends["pread"] is None else "buffered reads"
        advice = f"reads fall back to {rest}: the same bytes, more CPU"
        checks.append(_limited("io_uring", backends["io_uring"], advice))
    return reader, checks


def _check_disk(disk: dict[str, Any], calibration: Calibration | None) -> list[Check]:
    found = f"{disk['filesystem']} on {disk['source']}, {_bytes(disk['free'])} free"
    queue = disk["requests"]
    checks = [_good("disk", found)]
    if queue is not None and queue < _SMALL_QUEUE:
        advice = f"raise nr_requests of {disk['source']} (needs root)"
        checks.append(_limited("disk queue", f"{queue} requests", advice))
    if disk["filesystem"] in MEMORY_FILESYSTEMS:
        advice = "test a folder on the disk that will hold the graph"
        checks.append(_limited("disk", f"{disk['filesystem']} is in memory", advice))
    if calibration is not None and calibration.iops < _SLOW:
        found = f"{format_count(round(calibration.iops))} reads per second"
        advice = "a hard drive, or a throttled volume; graphs train faster from a solid-state disk"
        checks.append(_limited("disk rate", found, advice))
    return checks


def _bytes(size: int | None) -> str:
    return "unknown" if size is None else format_bytes(size)


def _table(found: Calibration) -> list[str]:
    day = found.date.replace("T", " ")
    lines = [
        f"random reads with {found.backend}, a file of {format_bytes(found.file_bytes)}, {day}",
        f"{'block':>8} {'reads/s':>10} {'MB/s':>8} {'depth':>6}",
    ]
    for rate in found.rates:
        size = f"{rate.block_bytes >> 10} KiB"
        iops, speed = format_count(round(rate.iops)), format_count(round(rate.bandwidth / 1e6))
        lines.append(f"{size:>8} {iops:>10} {speed:>8} {rate.depth:>6}")
    return [
        *lines,
        f"one 4 KiB read alone takes {found.latency * 1e6:.0f} us",
        f"sequential: read {format_bytes(found.sequential_read)}/s, "
        f"write {format_bytes(found.sequential_write)}/s",
        f"a core copies {format_bytes(found.copying)}/s in memory",
        f"a read of up to {format_bytes(found.break_even_bytes)} costs as much as a small one",
        *(f"note: {note}" for note in found.notes),
    ]
