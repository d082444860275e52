"""full_graph_infer: exact scores of all nodes by a finished full-graph run.

The graph is held in memory, as it was in training; rows are computed chunk by chunk, so that a
model of any depth needs rows of all nodes only between two aggregations.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load

from foregather.errors import FormatError, InputError
from foregather.files import write_safely
from foregather.graph.graph import Graph
from foregather.graph.load import load_if_fits
from foregather.pipeline import infer_scores
from foregather.pipeline.state import load_weights
from foregather.pipeline.user_weights import UserWeights
from foregather.targets import check_file
from foregather.train.runs.run_folder import read_finished
from foregather.train.trainers.chosen_plan import plan_of
from foregather.train.trainers.layers import make_full_model

__all__ = ["infer_full"]


def infer_full(
    folder: Path,
    graph: Graph,
    out: Path,
    *,
    trust_code: bool = False,
    overwrite: bool = False,
    finish: Callable[[Any], Any] | None = None,
) -> dict[str, Any]:
    """Writes the scores of all nodes to an array file (.npy, float32 [N, columns]).

    Args:
        folder: of the run.
        graph: with features as the run had them; labels are not needed.
        out: the file to make.
        trust_code: the code that the run's settings name may be imported and run.
        overwrite: replace `out`.
        finish: applied to the scores, such as `Task.finish`.

    Raises:
        InputError: the run names code and is not trusted, or its model does not fit the graph.
        FormatError: the run is damaged, or has not finished.
        NumericError: scores that are NaN or infinite.
        StorageError: `out` exists, or the disk is full.
    """
    check_file(out, overwrite)
    settings, facts, data = read_finished(folder, trust_code)
    width = facts["model"]["width"]
    if graph.features is None or graph.features.width != width:
        has = (
            "no features" if graph.features is None else f"features of width {graph.features.width}"
        )
        raise InputError(f"the graph has {has}, but {folder.name} was trained on width {width}")
    model = make_full_model(settings, **facts["model"])
    chunks = min(plan_of(facts).chunks, max(1, graph.num_nodes))

    def take(layers: Any) -> None:
        try:
            load_weights(UserWeights(layers).all(), load(data))
        except (SafetensorError, InputError) as error:
            raise FormatError(
                f"model.safetensors of {folder.name} does not fit its model: {error}"
            ) from error

    scores = infer_scores(load_if_fits(graph), model, chunks, take)
    rows = (scores if finish is None else finish(scores)).to(torch.float32).cpu().numpy()
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(rows), allow_pickle=False)
    write_safely(out, file.getvalue())
    return {
        "out": str(out),
        "nodes": graph.num_nodes,
        "sweeps": 1,
        "way": f"{chunks} chunks" if chunks > 1 else "one chunk",
        "bytes": 0,
        "written": out.stat().st_size,
    }
