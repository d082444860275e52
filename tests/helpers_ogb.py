"""A small data set in OGB's raw layout, as a download leaves it: csv.gz files or data.npz."""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
OgbLayout = Literal["csv", "binary"]


@dataclass(frozen=True)
class OgbGraph:
    """What goes into the folder; None leaves a file out."""

    edge_index: Array  # [2, E]
    num_nodes: int
    node_feat: Array | None = None  # [N, D]
    node_label: Array | None = None  # [N, C]; NaN = missing
    edge_feat: Array | None = None  # [E, W]
    node_year: Array | None = None  # [N, 1]
    splits: Mapping[str, Array] = field(default_factory=dict)


def tiny_ogb(
    seed: int = 0, num_nodes: int = 30, num_edges: int = 90, missing: bool = False
) -> OgbGraph:
    """A random graph with features, labels (some missing on request), years and splits."""
    random = np.random.default_rng(seed)
    order = random.permutation(num_nodes)
    label = random.integers(0, 5, (num_nodes, 1)).astype(np.float32 if missing else np.int64)
    if missing:
        label[order[: num_nodes // 3]] = np.nan
    return OgbGraph(
        edge_index=random.integers(0, num_nodes, (2, num_edges)),
        num_nodes=num_nodes,
        node_feat=random.normal(size=(num_nodes, 6)).astype(np.float32),
        node_label=label,
        node_year=random.integers(2000, 2020, (num_nodes, 1)),
        splits={
            "train": order[: num_nodes // 2],
            "valid": order[num_nodes // 2 : -num_nodes // 4],
            "test": order[-num_nodes // 4 :],
        },
    )


def write_ogb(
    root: Path,
    graph: OgbGraph,
    layout: OgbLayout = "csv",
    name: str = "ogbn_arxiv",
    split: str = "time",
) -> Path:
    """Writes `root/name/` and returns it."""
    folder = root / name
    raw = folder / "raw"
    raw.mkdir(parents=True)
    (folder / "RELEASE_v1.txt").write_text("")
    (folder / "mapping").mkdir()
    write_csv(folder / "mapping" / "nodeidx2paperid.csv.gz", np.arange(graph.num_nodes)[:, None])
    (folder / "processed").mkdir()
    (folder / "processed" / "geometric_data_processed.pt").write_bytes(b"\x80\x02not loaded")
    if layout == "csv":
        _write_csv_files(raw, graph)
    else:
        _write_archives(raw, graph)
    if graph.splits:
        (folder / "split" / split).mkdir(parents=True)
        for part, ids in graph.splits.items():
            write_csv(folder / "split" / split / f"{part}.csv.gz", np.asarray(ids)[:, None])
    return folder


def write_csv(path: Path, rows: Array) -> None:
    """Rows as OGB's csv.gz: commas, no header; NaN as pandas leaves it, empty."""
    lines = (",".join("" if x != x else str(x) for x in row) for row in rows)
    # a lone empty field would be a blank line, which csv readers pass over
    text = "".join((line or '""') + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def _write_csv_files(raw: Path, graph: OgbGraph) -> None:
    write_csv(raw / "edge.csv.gz", graph.edge_index.T)
    write_csv(raw / "num-node-list.csv.gz", np.array([[graph.num_nodes]]))
    write_csv(raw / "num-edge-list.csv.gz", np.array([[graph.edge_index.shape[1]]]))
    for stem, rows in (
        ("node-feat", graph.node_feat),
        ("node-label", graph.node_label),
        ("edge-feat", graph.edge_feat),
        ("node_year", graph.node_year),
    ):
        if rows is not None:
            write_csv(raw / f"{stem}.csv.gz", rows)


def _write_archives(raw: Path, graph: OgbGraph) -> None:
    arrays: dict[str, Array] = {
        "edge_index": graph.edge_index,
        "num_nodes_list": np.array([graph.num_nodes]),
        "num_edges_list": np.array([graph.edge_index.shape[1]]),
    }
    for name in ("node_feat", "edge_feat", "node_year"):
        if getattr(graph, name) is not None:
            arrays[name] = getattr(graph, name)
    np.savez_compressed(raw / "data.npz", **arrays)  # type: ignore[arg-type]
    if graph.node_label is not None:
        np.savez_compressed(raw / "node-label.npz", node_label=graph.node_label)
