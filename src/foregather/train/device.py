"""device: finds the device and the precision that the settings name."""

import os
import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from foregather.errors import InputError

__all__ = ["check_precision", "find_device", "in_precision"]

#: What /proc/cpuinfo calls instructions for bfloat16 products, on x86-64 and on ARM.
_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}


def find_device(name: str) -> torch.device:
    """Returns the device called `auto`, `cpu`, `cuda` or `cuda:N`.

    `auto` is a GPU if there is one. Under torchrun `auto` and `cuda` are the GPU of this rank's
    number on its machine.

    Raises:
        InputError: the name is unknown, or the device does not exist; the message says what does.
    """
    if name != "auto" and not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise InputError(f"train.device is {name!r}, expected auto, cpu, cuda or cuda:N")
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "cpu" or (name == "auto" and there == 0):
        return torch.device("cpu")
    _, colon, number = name.partition(":")
    wanted = int(number) if colon else int(os.environ.get("LOCAL_RANK", "0"))
    if name == "auto" and wanted >= there:
        wanted %= there
    if wanted >= there:
        built = "" if torch.version.cuda else " (this torch was built without CUDA)"
        found = f"are only {there} CUDA devices" if there else "is no CUDA device"
        raise InputError(
            f"train.device is {name!r}, but there {found} here{built}; use cpu or auto"
        )
    return torch.device("cuda", wanted)


def check_precision(name: str, device: torch.device) -> None:
    """Refuses a precision that the device has no instructions for.

    Raises:
        InputError: it has none; the message says what to use.
    """
    if name == "float32":
        return
    if device.type == "cpu":
        has = bool(_BFLOAT16 & _cpu_flags())
    else:
        has = device.type != "cuda" or torch.cuda.is_bf16_supported()
    if not has:
        raise InputError(
            f"train.precision is {name}, but this {device.type} has no instructions for it, so "
            "training would be slower; use float32"
        )


def in_precision(name: str, device: torch.device) -> AbstractContextManager[Any]:
    """A forward pass in this precision: torch's autocast, or nothing for float32."""
    if name == "float32":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


def _cpu_flags() -> set[str]:
    """Names of the processor's instruction sets; empty where the system does not list them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return set(found[1].split()) if found else set()
