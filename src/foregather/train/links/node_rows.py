"""node_rows: the rows of all nodes that links may connect, with every edge or with sampled ones.

Where every link has its own view of the graph (times), rows cannot be shared: `TreeScores` computes
the two trees of each pair instead.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from foregather.graph.features import Features
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.mapped import fetch
from foregather.graph.on_disk.npy import map_array
from foregather.loader.hetero.hetero_loader import HeteroLoader
from foregather.loader.loader import Loader
from foregather.loader.options import BatchContents
from foregather.nn.links.encoders import OwnTypedEncoder, PlainEncoder, TypedEncoder
from foregather.nn.links.lookup import Lookup
from foregather.nn.links.model import LinkModel, links_of
from foregather.observe.progress import Progress
from foregather.train.hetero.exact import whole_batch
from foregather.train.hetero.layers import rows_by_layers
from foregather.train.hetero.make import exact_sampler, make_typed_sampler
from foregather.train.infer import check_infer, infer
from foregather.train.links.link_data import LinkData, SplitLinks
from foregather.train.links.make_links import pair_loader, relation_of
from foregather.train.links.pair_scores import PairScorer
from foregather.train.settings import Settings
from foregather.train.settings.from_settings import budget_of, count_layers, infer_options, norm_of
from foregather.train.settings.samplers import make_sampler

__all__ = ["NodeRows", "TreeScores"]

Ids = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class NodeRows:
    """Computes the rows of all nodes.

    Attributes:
        model: called in evaluation mode.
        data: the graph and the links.
        settings: of the run.
        folder: where rows between layers may be written.
    """

    model: LinkModel
    data: LinkData
    settings: Settings
    folder: Path

    @torch.no_grad()
    def exact(self) -> PairScorer:
        """With every edge of the graph.

        Raises:
            BudgetError: the run's budget is too small.
            InputError: the model cannot be computed in parts of the graph.
            StorageError: the disk has no room for the rows between layers.
        """
        return self._of(self._exact)

    @torch.no_grad()
    def sampled(self) -> PairScorer:
        """With the fan-outs of the training, the same whenever it is called."""
        return self._of(self._sampled)

    def _of(self, compute: Any) -> PairScorer:
        model, training = self.model, self.model.training
        model.eval()
        try:
            if isinstance(model.encoder, Lookup):
                left, right = model.encoder.every()
            else:
                left, right = compute(model.encoder)
        finally:
            model.train(training)
        return PairScorer(left.detach().float(), right.detach().float(), model.decoder)

    # ---- with every edge -------------------------------------------------------------------

    def _exact(self, encoder: nn.Module) -> tuple[Tensor, Tensor]:
        if isinstance(encoder, PlainEncoder):
            rows = self._plain_exact(encoder)
            return rows, rows
        graph, threads = self.data.graph, self.settings.train.threads
        assert isinstance(graph, HeteroGraph)
        if isinstance(encoder, TypedEncoder):
            kinds = {encoder.source, encoder.schema.place}
            found = rows_by_layers(encoder, graph, threads, kinds)
            left = encoder.give(encoder.source, found)
            return left, encoder.give(encoder.schema.place, found)
        assert isinstance(encoder, OwnTypedEncoder)
        target: Any = _Ends(graph, encoder.ends[1])
        batch = whole_batch(graph, target, self.settings, self._hops())
        made: tuple[Tensor, Tensor] = encoder(batch.to(_device(encoder)))
        return made

    def _hops(self) -> int:
        return count_layers(self.settings)

    def check(self) -> None:
        """Raises what `exact` would raise before it starts, where that is known."""
        if isinstance(self.model.encoder, PlainEncoder):
            graph, options = self._plain_input(self.model.encoder)
            check_infer(self.model.encoder.model, graph, **options)

    def _plain_input(self, encoder: PlainEncoder) -> tuple[Graph, dict[str, Any]]:
        """The graph that rows start from, and how they are computed."""
        graph, options = self.data.graph, infer_options(self.settings)
        assert isinstance(graph, Graph)
        if encoder.learned is not None:
            weights = encoder.learned.weight.detach().cpu().numpy()
            graph = replace(graph, features=Features(weights))
            options |= {"memory": None, "storage": "memory"}
        return graph, options

    def _plain_exact(self, encoder: PlainEncoder) -> Tensor:
        graph, options = self._plain_input(encoder)
        out = self.folder / "rows.npy"
        model = encoder.model
        device = _device(model)
        try:
            infer(model.to("cpu"), graph, out, overwrite=True, **options)
            return torch.from_numpy(fetch(map_array(out))).to(device)
        finally:
            model.to(device)
            out.unlink(missing_ok=True)

    # ---- with sampled edges ----------------------------------------------------------------

    def _sampled(self, encoder: nn.Module) -> tuple[Tensor, Tensor]:
        graph = self.data.graph
        if isinstance(graph, Graph):
            rows = self._collect(encoder, self._plain_loader(graph), None, graph.num_nodes, 0)
            return rows, rows
        assert self.data.edge_type is not None
        source, _, target = self.data.edge_type
        right = self._collect(
            encoder, self._typed_loader(graph, target), target, self.data.counts[1], 1
        )
        if source == target:
            return right, right
        left = self._collect(
            encoder, self._typed_loader(graph, source), source, self.data.counts[0], 0
        )
        return left, right

    def _plain_loader(self, graph: Graph) -> Any:
        settings = self.settings
        return Loader(
            graph,
            None,
            None,
            settings.train.batch_size,
            sampler=make_sampler(graph, settings),
            seed=settings.train.seed,
            memory=budget_of(settings),
            storage=settings.memory.storage,
            threads=settings.train.threads,
            contents=BatchContents("seeds", None, norm_of(settings), pyg=False),
        )

    def _typed_loader(self, graph: HeteroGraph, kind: str) -> Any:
        settings = self.settings
        return HeteroLoader(
            graph,
            None,
            (kind, None),
            settings.train.batch_size,
            sampler=make_typed_sampler(graph, settings),
            seed=settings.train.seed,
            threads=settings.train.threads,
        )

    def _collect(
        self, encoder: nn.Module, loader: Any, kind: str | None, count: int, end: int
    ) -> Tensor:
        """Rows of the seeds of all batches."""
        device, parts = _device(self.model), []
        for batch in loader:
            placed = batch if device.type == "cpu" else batch.to(device)
            store = placed if kind is None else placed[kind]
            parts.append(encoder(placed)[end][: store.batch_size])
        found = torch.cat(parts)
        assert len(found) == count
        return found


@dataclass(frozen=True)
class _Ends:
    """What `whole_batch` needs to know of a target type."""

    graph: HeteroGraph
    target: str

    @property
    def table(self) -> Any:
        """The nodes of the type."""
        return self.graph.nodes[self.target]


@dataclass(frozen=True, eq=False)
class TreeScores:
    """Scores of pairs, each from the two trees that it may see.

    Attributes:
        model: called in evaluation mode.
        data: the graph and the links.
        settings: of the run.
        exact: every neighbour that a tree may see, instead of the fan-outs.
    """

    model: LinkModel
    data: LinkData
    settings: Settings
    exact: bool

    @torch.no_grad()
    def pairs(
        self, sources: Ids, targets: Ids, relation: Ids | None = None, time: Ids | None = None
    ) -> Scores:
        """Scores of pairs [n], or of each source with several targets [n, k]."""
        each = targets.shape[1] if targets.ndim == 2 else 1
        index = np.stack([np.repeat(sources, each), targets.reshape(-1)])
        links = SplitLinks(
            index,
            None if relation is None else np.repeat(relation, each),
            None if time is None else np.repeat(time, each),
        )
        sampler = exact_sampler(self.settings, count_layers(self.settings)) if self.exact else None
        loader = pair_loader(self.data, self.settings, links, _device(self.model), sampler=sampler)
        model, training, parts = self.model, self.model.training, []
        model.eval()
        try:
            with Progress("scores of links", len(loader), "batches") as bar:
                for batch in loader:
                    parts.append(self._batch(batch, links).float().cpu().numpy())
                    bar.advance(1)
        finally:
            model.train(training)
        return np.concatenate(parts).reshape(targets.shape)

    def _batch(self, batch: Any, links: SplitLinks) -> Tensor:
        row = links_of(batch, self.model.edge_type).row
        scores: Tensor = self.model(batch, relation_of(links, row))[0]
        return scores


def _device(model: nn.Module) -> torch.device:
    """Where a model is; the host for one without weights."""
    weight = next(iter(model.parameters()), None)
    return torch.device("cpu") if weight is None else weight.device
