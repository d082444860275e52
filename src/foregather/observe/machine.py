"""Machine: facts about the machine, read from /proc and /sys without privileges.

Every fact is optional: one that cannot be read is None, never an error. No heavy package is
imported
unless the caller asks about GPUs.
"""

import contextlib
import os
import platform
import re
import resource
from importlib import metadata
from pathlib import Path
from typing import Any

from foregather import _core
from foregather.errors import InputError

__all__ = ["PACKAGES", "describe_machine", "describe_place", "device_id", "memory_limit"]

PACKAGES = ("foregather", "numpy", "torch", "torch-geometric", "pyarrow")

#: Instruction sets that make a difference to sampling, hashing or casting.
_SIMD = ("sse4_2", "avx", "avx2", "avx512f", "bmi2", "f16c", "fma", "asimd", "sve", "sve2")
_NO_LIMIT = 1 << 60  # cgroup v1 writes "none" as a number near 2^63


def _read(path: Path | str) -> str | None:
    """The text of a small system file, or None."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _read_int(path: Path | str) -> int | None:
    text = _read(path)
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except (metadata.PackageNotFoundError, OSError):
        return None


def _cpu() -> dict[str, Any]:
    fields: dict[str, str] = {}
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip().lower(), value.strip())
    flags = set((fields.get("flags") or fields.get("features") or "").split())
    return {
        "model": fields.get("model name") or platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "cores_allowed": _core.default_threads(),
        "cores_total": os.cpu_count(),
        "simd": [name for name in _SIMD if name in flags],
    }


def memory_limit(
    groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """The tightest cgroup memory limit over this process in bytes (v1 or v2), or None."""
    limits = []
    for line in (_read(groups) or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, inside = rest.partition(":")
        if number == "0" and not controllers:
            tops, name = [root, root / "unified"], "memory.max"
        elif "memory" in controllers.split(","):
            tops, name = [root / "memory"], "memory.limit_in_bytes"
        else:
            continue
        for top in tops:
            # Limits of all parent groups apply too. Inside a container the path may not be visible;
            # then the walk ends at the container's root.
            here = top / inside.lstrip("/")
            for folder in (here, *here.parents):
                limit = _read_int(folder / name)
                if limit is not None and 0 < limit < _NO_LIMIT:
                    limits.append(limit)
                if folder == top:
                    break
    return min(limits, default=None)


def _memory() -> dict[str, Any]:
    fields: dict[str, int] = {}
    for line in (_read("/proc/meminfo") or "").splitlines():
        if match := re.fullmatch(r"(\w+):\s+(\d+) kB", line):
            fields[match[1]] = int(match[2]) * 1024
    huge = re.search(r"\[(\w+)\]", _read("/sys/kernel/mm/transparent_hugepage/enabled") or "")
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return {
        "total": fields.get("MemTotal"),
        "available": fields.get("MemAvailable"),
        "cgroup_limit": memory_limit(),
        "huge_pages": huge[1] if huge else None,
        "locked_limit": None if locked == resource.RLIM_INFINITY else locked,
    }


def _mount(path: Path) -> tuple[str, str]:
    """(file system, source) of the mount that holds an absolute path."""
    best, found = -1, ("unknown", "unknown")
    for line in (_read("/proc/self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(" "), right.split(" ")
        if len(fields) < 5 or len(tail) < 2:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4]))
        # The last of several mounts on one point is on top.
        if len(point.parts) >= best and path.is_relative_to(point):
            best, found = len(point.parts), (tail[0], tail[1])
    return found


def describe_place(path: str | os.PathLike[str]) -> dict[str, Any]:
    """File system, device, space and queue settings of the disk that holds `path`.

    Raises:
        InputError: there is no such path.
    """
    place = Path(path)
    try:
        place = place.resolve(strict=True)
        device = place.stat().st_dev
        space = os.statvfs(place)
    except OSError as error:
        raise InputError(
            f"{place.name or place} cannot be inspected ({error.strerror}); name an existing folder"
        ) from error
    filesystem, source = _mount(place)
    major, minor = os.major(device), os.minor(device)
    block = Path(f"/sys/dev/block/{major}:{minor}")
    with contextlib.suppress(OSError):
        block = block.resolve()
    # A partition has no queue settings; its disk, one folder up, has them.
    queue = block / "queue" if (block / "queue").is_dir() else block.parent / "queue"
    scheduler = re.search(r"\[([\w-]+)\]", _read(queue / "scheduler") or "")
    return {
        "filesystem": filesystem,
        "source": source,
        "device": f"{major}:{minor}",
        "total": space.f_frsize * space.f_blocks,
        "free": space.f_frsize * space.f_bavail,
        "rotational": _read_int(queue / "rotational"),
        "requests": _read_int(queue / "nr_requests"),
        "read_ahead_kb": _read_int(queue / "read_ahead_kb"),
        "logical_block": _read_int(queue / "logical_block_size"),
        "scheduler": scheduler[1] if scheduler else None,
    }


def device_id(path: str | os.PathLike[str]) -> str:
    """A file-name-safe name for the disk that holds `path`.

    It includes the host name: home folders may be shared between machines, disks are not.
    """
    place = describe_place(path)
    name = f"{platform.node()}-{Path(place['source']).name}-{place['device']}"
    return re.sub(r"[^A-Za-z0-9._-]+", ".", name)


def _gpus() -> list[str]:
    try:
        import torch
    except ImportError:
        return []
    if not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def describe_machine(path: str | os.PathLike[str] = ".", gpu: bool = False) -> dict[str, Any]:
    """Versions, CPU, memory, kernel and the disk under `path`, as a JSON-able dict.

    Args:
        path: which disk to describe.
        gpu: also ask torch for GPUs, which imports torch.
    """
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "packages": {package: _version(package) for package in PACKAGES},
        "cpu": _cpu(),
        "memory": _memory(),
        "kernel": platform.release(),
        "disk": describe_place(path),
    }
    if gpu:
        facts["gpus"] = _gpus()
    return facts
