"""What batches of links must be, looked up the slow way."""

from typing import Any

import numpy as np
import torch

from foregather import Graph, Negatives


def edges_of(graph: Graph) -> np.ndarray[Any, Any]:
    """Sources and targets of all edges, in the order of rows."""
    targets = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return np.stack([np.asarray(graph.indices, np.int64), targets])


def check_edges(batch: Any, graph: Graph) -> None:
    """Every edge of a batch is one of the graph, between the nodes that it says."""
    ends = batch.n_id[batch.edge_index].numpy()
    assert np.array_equal(ends, edges_of(graph)[:, batch.e_id.numpy()])


def check_links(
    batch: Any, links: np.ndarray[Any, Any], rule: Negatives | None, known: set[tuple[int, int]]
) -> None:
    """Links and negatives of a plain batch are where it says."""
    pos, count = links[:, batch.input_id.numpy()], batch.input_id.numel()
    if rule is not None and rule.mode == "triplet":
        ends = [batch.n_id[getattr(batch, name)] for name in ("src_index", "dst_pos_index")]
        assert np.array_equal(torch.stack(ends).numpy(), pos)
        amount = int(rule.amount)
        negative = batch.n_id[batch.dst_neg_index]
        assert negative.shape == ((count,) if amount == 1 else (count, amount))
        drawn = np.stack([np.repeat(pos[0], amount), negative.reshape(-1).numpy()])
        assert "edge_label_index" not in batch
    else:
        ends = batch.n_id[batch.edge_label_index].numpy()
        assert np.array_equal(ends[:, :count], pos)
        drawn = ends[:, count:]
        assert drawn.shape[1] == (0 if rule is None else rule.count(count))
        if rule is not None:
            assert batch.edge_label.tolist() == [1.0] * count + [0.0] * drawn.shape[1]
    if rule is not None and rule.exclude:
        assert not known & set(map(tuple, drawn.T.tolist()))


def check_trees(batch: Any, keys: tuple[str, ...]) -> None:
    """Trees share no edges with others, and every node is of the link that its root is of."""
    assert torch.equal(batch.batch[batch.edge_index[0]], batch.batch[batch.edge_index[1]])
    count = batch.input_id.numel()
    for name in keys:
        place = batch[name]
        rows = (
            place if name == "edge_label_index" else place.reshape(1, count, -1).mT.reshape(1, -1)
        )
        for row in rows:
            assert torch.equal(batch.batch[row], torch.arange(row.numel()) % count)


def same_links(a: Any, b: Any) -> bool:
    """Whether two batches hold the same, bit for bit."""
    assert set(a.keys()) == set(b.keys())
    return all(
        torch.equal(a[key], b[key]) if isinstance(a[key], torch.Tensor) else a[key] == b[key]
        for key in a.keys()  # noqa: SIM118
    )
