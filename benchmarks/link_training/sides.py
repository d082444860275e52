"""Sides: one run of a cell by foregather, or on PyG's batches or with PyG's model.

Where the other side is a loader, model, first weights, optimiser, loss, number of epochs and scores
are the same code, and only the batches come from `LinkNeighborLoader` with pyg-lib: triplets, or
pairs, with uniform negatives, links in the message passing as PyG leaves them. With times its links
see what is at least one unit earlier, since it would otherwise show them themselves.

Where it is a model, PyG's own LightGCN or DistMult is trained on pairs and negatives that torch
draws, from first weights of the same distribution, and its rows are scored as ours are.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from foregather import Graph, HeteroGraph
from foregather.nn.links.decoders import ProductDecoder, make_decoder
from foregather.train.checkpoints.checkpoint import seed_everything
from foregather.train.links.make_links import training_links
from foregather.train.links.pair_scores import PairScorer
from foregather.train.links.rate import rate_rows
from foregather.train.rank_agreement import Together
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import run_loop
from foregather.train.settings import Settings
from foregather.train.trainers.linking import LinkTrainer
from foregather.train.trainers.trainer import run_epochs

__all__ = ["run_ours", "run_peer"]


def _silent(text: str) -> None:
    """Says nothing."""


def run_ours(settings: Settings) -> dict[str, Any]:
    """One run of `foregather train`."""
    with Run.create(settings, _silent) as run:
        return run_loop(run) | {"curve": _curve(run.trainer)}


def _curve(trainer: Any) -> list[float]:
    """The validation of each epoch; nothing where there is none."""
    return [record["valid"] for record in trainer.history if "valid" in record]


class PygLoader:
    """PyG's loader of the training links, as a trainer sees a loader."""

    ranks = None

    def __init__(self, trainer: LinkTrainer) -> None:
        from torch_geometric.loader import LinkNeighborLoader
        from torch_geometric.sampler import NegativeSampling

        settings, data = trainer.settings, trainer.data
        links = training_links(data, settings)
        index: Any = torch.from_numpy(np.ascontiguousarray(links.index))
        options: dict[str, Any] = {}
        fanouts: Any = list(settings.sampler.fanouts)
        if isinstance(data.graph, HeteroGraph):
            graph = data.graph.to_pyg()
            index = (data.edge_type, index)
            if settings.typed.time != "none":
                assert links.time is not None
                options = {
                    "time_attr": "time",
                    "edge_label_time": torch.from_numpy(links.time) - 1,
                    "temporal_strategy": settings.typed.temporal_strategy,
                }
        else:
            graph = _plain(data.graph)
        self._loader = LinkNeighborLoader(
            graph,
            fanouts,
            index,
            neg_sampling=NegativeSampling(settings.link.mode, settings.link.negatives),
            batch_size=settings.train.batch_size,
            shuffle=True,
            **options,
        )

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._loader)

    def close(self) -> None:
        """Nothing is held."""


def _plain(graph: Graph) -> Any:
    from torch_geometric.data import Data

    targets = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    edges = np.stack([np.asarray(graph.indices, np.int64), targets])
    return Data(edge_index=torch.from_numpy(edges), num_nodes=graph.num_nodes)


def run_peer(settings: Settings, peer: str, folder: Path) -> dict[str, Any]:
    """One run of the other side."""
    torch.set_num_threads(settings.train.threads)
    trainer = LinkTrainer(settings, folder, _silent, Together(None))
    seed_everything(settings.train.seed)
    if peer == "loader":
        trainer.training.loader = PygLoader(trainer)  # type: ignore[assignment]
        trainer.begin()
        run_epochs(trainer, settings.train.epochs)
        return trainer.final_scores() | {"curve": _curve(trainer)}
    rows = (_lightgcn if peer == "lightgcn" else _distmult)(trainer)
    return {"test": rate_rows(rows, trainer.data, "test", trainer.ratings["test"])}


def _pairs(trainer: LinkTrainer) -> Iterator[tuple[torch.Tensor, ...]]:
    """Sources, targets, relations and drawn targets of the batches of all epochs."""
    settings, data = trainer.settings, trainer.data
    links = training_links(data, settings)
    left, right = (torch.from_numpy(np.ascontiguousarray(one)) for one in links.index)
    kind = torch.zeros_like(left) if links.relation is None else torch.from_numpy(links.relation)
    for _ in range(settings.train.epochs):
        for part in torch.randperm(len(left)).split(settings.train.batch_size):
            drawn = torch.randint(data.counts[1], (len(part), settings.link.negatives))
            yield left[part], right[part], kind[part], drawn


def _lightgcn(trainer: LinkTrainer) -> PairScorer:
    """PyG's LightGCN, with its own loss."""
    from torch_geometric.nn import LightGCN

    settings, data = trainer.settings, trainer.data
    users, items = data.counts
    model = LightGCN(users + items, settings.model.hidden, settings.model.layers)
    torch.nn.init.normal_(model.embedding.weight, std=0.1)
    pairs = np.unique(data.every_edge() + np.array([[0], [users]]), axis=1)
    both = torch.from_numpy(np.concatenate([pairs, pairs[::-1]], axis=1))
    matrix = torch.sparse_coo_tensor(both, torch.ones(both.shape[1]), (users + items,) * 2)
    edges = matrix.coalesce().to_sparse_csr()
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.optimizer.lr)
    for left, right, _, drawn in _pairs(trainer):
        optimizer.zero_grad()
        rows = model.get_embedding(edges)
        ends = left, right + users, drawn[:, 0] + users
        positive, negative = ((rows[left] * rows[one]).sum(-1) for one in ends[1:])
        loss = model.recommendation_loss(
            positive, negative, torch.cat(ends).unique(), lambda_reg=0.0
        )
        square = sum(model.embedding.weight[one].square().sum() for one in ends)
        loss = loss + settings.link.embedding_decay * square / (2 * len(left))
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        found = model.get_embedding(edges)
    return PairScorer(found[:users], found[users:], ProductDecoder(found.shape[1]))


def _distmult(trainer: LinkTrainer) -> PairScorer:
    """PyG's DistMult, with the loss of the cell."""
    from torch_geometric.nn.kge import DistMult

    settings, data = trainer.settings, trainer.data
    model = DistMult(data.counts[0], max(1, data.several), settings.model.hidden)
    # as ours begin; PyG's own rows begin ten times smaller where there are many nodes
    torch.nn.init.normal_(model.node_emb.weight, std=settings.model.hidden**-0.5)
    optimizer = torch.optim.Adam(
        model.parameters(),
        lr=settings.optimizer.lr,
        weight_decay=settings.optimizer.weight_decay,
    )
    for left, right, kind, drawn in _pairs(trainer):
        optimizer.zero_grad()
        every = torch.cat([right.unsqueeze(1), drawn], dim=1)
        shape = every.shape
        head, relation = (one.unsqueeze(1).expand(shape).reshape(-1) for one in (left, kind))
        scores = model(head, relation, every.reshape(-1)).view(shape)
        functional.cross_entropy(scores, scores.new_zeros(len(left), dtype=torch.long)).backward()
        optimizer.step()
    decoder: Any = make_decoder("distmult", settings.model.hidden, data.several)
    rows = model.node_emb.weight.detach()
    with torch.no_grad():
        decoder.relation.copy_(model.rel_emb.weight)
    return PairScorer(rows, rows, decoder)
