"""state: weights and optimiser state of all stages as one dictionary, the same for any S.

History is not included: it is rebuilt by sweeps. So a run may resume with another number of stages.
A run that resumes with the same number also restores the history of each rank.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from foregather.errors import FormatError, InputError, StorageError
from foregather.files import write_safely
from foregather.pipeline.passes.chunkwise import History
from foregather.pipeline.passes.link import Link
from foregather.targets import check_file, check_target

__all__ = [
    "collect",
    "history_state",
    "keep_state",
    "load_history",
    "load_optimizer",
    "load_state",
    "optimizer_state",
    "save_state",
]


def optimizer_state(
    optimizer: torch.optim.Optimizer | None, parameters: Mapping[str, nn.Parameter]
) -> dict[str, Tensor]:
    """Returns the optimiser's tensors by "weight/field"."""
    if optimizer is None:
        return {}
    return {
        f"{name}/{key}": torch.as_tensor(value)
        for name, parameter in parameters.items()
        for key, value in optimizer.state.get(parameter, {}).items()
        if value is not None
    }


def load_optimizer(
    optimizer: torch.optim.Optimizer | None,
    parameters: Mapping[str, nn.Parameter],
    state: Mapping[str, Tensor],
) -> None:
    """Restores what `optimizer_state` returned, for the weights of this stage."""
    if optimizer is None:
        return
    for name, parameter in parameters.items():
        fields = {
            key.rpartition("/")[2]: value.clone()
            for key, value in state.items()
            if key.rpartition("/")[0] == name
        }
        if fields:
            optimizer.state[parameter] = fields


def load_weights(parameters: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    """Copies weights by name.

    Raises:
        InputError: a weight is missing, or has the wrong shape.
    """
    for name, parameter in parameters.items():
        given = weights.get(name)
        if given is None or given.shape != parameter.shape:
            has = "is missing" if given is None else f"has shape {list(given.shape)}"
            raise InputError(
                f"weight {name} {has}, expected shape {list(parameter.shape)}; "
                "the state belongs to another model"
            )
        with torch.no_grad():
            parameter.copy_(given)


def collect(own: dict[str, Tensor], link: Link) -> dict[str, Tensor]:
    """Returns the tensors of all stages on all stages: they go along the chain and back."""
    total = dict(own)
    if link.stages == 1:
        return total
    last = link.stages - 1
    if link.stage > 0:
        total = {**_receive(link, link.stage_peer(link.stage - 1)), **total}
    if link.stage < last:
        _send(link, link.stage_peer(link.stage + 1), total)
        total = _receive(link, link.stage_peer(link.stage + 1))
    if link.stage > 0:
        _send(link, link.stage_peer(link.stage - 1), total)
    link.flush()
    return total


def _send(link: Link, peer: int, tensors: dict[str, Tensor]) -> None:
    names = {k: [list(v.shape), str(v.dtype).removeprefix("torch.")] for k, v in tensors.items()}
    header = torch.frombuffer(bytearray(json.dumps(names).encode()), dtype=torch.uint8)
    link.send(peer, torch.tensor([header.numel()]), "state")
    link.send(peer, header, "state")
    for tensor in tensors.values():
        link.send(peer, tensor.detach().clone().reshape(-1), "state")


def _receive(link: Link, peer: int) -> dict[str, Tensor]:
    size = int(link.receive(peer, torch.empty(1, dtype=torch.int64), "state"))
    header = link.receive(peer, torch.empty(size, dtype=torch.uint8), "state")
    names: dict[str, Any] = json.loads(bytes(header.tolist()))
    tensors = {}
    for name, (shape, dtype) in names.items():
        like = torch.empty(shape, dtype=getattr(torch, dtype))
        tensors[name] = link.receive(peer, like.reshape(-1), "state").reshape(shape)
    return tensors


def history_state(history: History) -> dict[str, Any]:
    """Returns the history that this rank's next epoch may read, by layer; not copied."""
    rows = {
        str(layer): held.history
        for layer, held in sorted(history.rows.items())
        if held.history is not None
    }
    return {"epoch": history.epoch, "rows": rows}


def load_history(history: History, state: Mapping[str, Any]) -> None:
    """Restores what `history_state` returned.

    Raises:
        InputError: the rows of a layer have another shape here.
    """
    for layer, rows in state["rows"].items():
        buffers = history.of(int(layer))
        held = buffers.history
        if held is None or held.shape != rows.shape:
            has = "none" if held is None else str(list(held.shape))
            raise InputError(
                f"history of layer {layer} has shape {list(rows.shape)}, expected {has}; it "
                "belongs to other stages, ways or chunks"
            )
        held.copy_(rows)
        history.changed(buffers)
    history.epoch = None if state["epoch"] is None else int(state["epoch"])


def save_state(state: Mapping[str, Any], path: Path) -> None:
    """Writes what `FullGraph.state_dict` returned as one safetensors file.

    Raises:
        StorageError: the file would be inside a graph folder or is part of a run, or it cannot be
            written; an existing file is left as it was.
    """
    check_target(path)
    tensors = {
        f"{part}:{name}": value.contiguous()
        for part in ("weights", "optimizer")
        for name, value in state[part].items()
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write {path.name}: {error.strerror}") from error
    write_safely(path, save(tensors, {"epoch": str(state["epoch"])}))


def keep_state(state: Mapping[str, Any], path: Path, overwrite: bool) -> None:
    """Saves a state; if `path` cannot be written, it is saved nearby, so that it is not lost.

    Raises:
        StorageError: it could not be written to `path`; the message says where it is instead.
    """
    try:
        check_file(path, overwrite)  # again: the file may have appeared since
        save_state(state, path)
    except OSError as error:
        for folder in (path.parent, Path(), Path(tempfile.gettempdir())):
            kept = _free_name(folder, path.name)
            try:
                save_state(state, kept)
            except OSError:
                continue
            raise StorageError(f"{error}; the weights were kept in {kept}") from error
        raise


def _free_name(folder: Path, name: str) -> Path:
    """Returns an unused name that starts with `name`."""
    number, stem = 1, name[:200]
    while os.path.lexists(folder / f"{stem}.kept-{number}"):
        number += 1
    return folder / f"{stem}.kept-{number}"


def load_state(path: Path) -> dict[str, Any]:
    """Reads what `save_state` wrote.

    Raises:
        FormatError: there is no such file, or it is not a saved state.
    """
    try:
        with safe_open(path, "pt") as file:
            epoch = int(file.metadata()["epoch"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"{path.name} is not a state of full-graph training ({error}); "
            "give a file that train-full saved"
        ) from error
    parts: dict[str, Any] = {"epoch": epoch, "weights": {}, "optimizer": {}}
    for name, value in tensors.items():
        part, _, rest = name.partition(":")
        if part not in ("weights", "optimizer"):
            raise FormatError(
                f"{path.name} holds {name!r}, expected weights and optimizer state; "
                "give a file that train-full saved"
            )
        parts[part][rest] = value
    return parts
