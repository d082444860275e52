"""device: finds the device that the settings name."""

import os
import re

import torch

from foregather.errors import InputError

__all__ = ["find_device"]


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
