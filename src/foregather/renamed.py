"""renamed: modules of release 0.1 under their old names, for one more release.

Importing an old name returns the module of the new name, with a DeprecationWarning. What was
renamed inside such a module is then found in it under its old name too, with another warning. Names
that are imported from a room (`from foregather.sampling import Neighbor`) have not changed.
"""

import importlib
import sys
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["RENAMED", "RENAMED_INSIDE", "install"]

#: Old and new names, below `foregather`.
RENAMED = {
    "cli.convert": "cli.graphs.convert",
    "cli.infer": "cli.training.infer",
    "cli.info": "cli.graphs.info",
    "cli.partition": "cli.graphs.partition",
    "cli.quickstart_files": "cli.quickstart.files",
    "cli.report": "cli.training.report",
    "cli.synth": "cli.graphs.synth",
    "cli.tenth": "cli.quickstart.storage",
    "cli.train": "cli.training.train",
    "cli.train_full": "cli.training.train_full",
    "cli.train_ranks": "cli.training.train_ranks",
    "cli.verify": "cli.graphs.verify",
    "dist.agree": "dist.transport.agreement",
    "dist.ask": "dist.sampling.row_requests",
    "dist.ask_picks": "dist.sampling.pick_requests",
    "dist.codec": "dist.transport.codec",
    "dist.column_owners": "dist.sampling.column_owners",
    "dist.crossed": "dist.traffic",
    "dist.deadline": "dist.transport.call_timeout",
    "dist.exchange": "dist.features.exchange",
    "dist.expand": "dist.sampling.expand",
    "dist.facts": "dist.loader_facts",
    "dist.fetch_paper": "dist.baselines.fetch_paper",
    "dist.fetch_plan": "dist.features.fetch_plan",
    "dist.fetch_rows": "dist.features.fetch_rows",
    "dist.fixed_point": "dist.sampling.column_sums",
    "dist.guard": "dist.transport.last_word",
    "dist.ledger": "dist.transport.ledger",
    "dist.measure": "dist.forecast.cut_quality",
    "dist.meet": "dist.transport.meet",
    "dist.mesh": "dist.transport.mesh",
    "dist.model": "dist.forecast.cluster_forecast",
    "dist.over_ranks": "dist.rank_batches",
    "dist.own_disk": "dist.features.block_reader",
    "dist.paper": "dist.baselines.stages_1_5d",
    "dist.partition": "dist.sampling.partition",
    "dist.pieces": "dist.transport.message_pack",
    "dist.planned": "dist.features.planned_fetcher",
    "dist.program": "dist.sampling.layers",
    "dist.rehearsal": "dist.forecast.rehearsal",
    "dist.row_picks": "dist.sampling.row_picks",
    "dist.shares": "dist.features.memory_split",
    "dist.varint": "dist.transport.varint",
    "dist.watch": "dist.transport.liveness",
    "dist.wire": "dist.transport.wire",
    "graph.add_checks": "graph.integrity.add_checks",
    "graph.blocks": "graph.integrity.blocks",
    "graph.checked_reads": "graph.integrity.checked_reads",
    "graph.checks": "graph.integrity.checks",
    "graph.convert.array_source": "graph.convert.sources.array_source",
    "graph.convert.arrays": "graph.convert.reading.named_arrays",
    "graph.convert.columns": "graph.convert.reading.columns",
    "graph.convert.folder_source": "graph.convert.sources.folder_source",
    "graph.convert.inflate": "graph.convert.reading.inflate",
    "graph.convert.ogb": "graph.convert.sources.ogb",
    "graph.convert.ogb_layouts": "graph.convert.sources.ogb_layouts",
    "graph.convert.ogb_splits": "graph.convert.sources.ogb_splits",
    "graph.convert.parquet": "graph.convert.sources.parquet",
    "graph.convert.sniff": "graph.convert.reading.text_dialect",
    "graph.convert.stream": "graph.convert.reading.stream",
    "graph.convert.tables": "graph.convert.reading.tables",
    "graph.convert.text": "graph.convert.sources.text",
    "graph.convert.zipped": "graph.convert.reading.npz",
    "graph.digest": "graph.on_disk.digest",
    "graph.files": "graph.on_disk.files",
    "graph.folder": "graph.on_disk.folder",
    "graph.meta": "graph.on_disk.meta",
    "graph.npy": "graph.on_disk.npy",
    "graph.owned": "graph.on_disk.owned",
    "graph.sound": "graph.integrity.check_topology",
    "graph.stamp": "graph.on_disk.stamp",
    "graph.verify": "graph.integrity.verify",
    "graph.workspace": "graph.on_disk.workspace",
    "graph.write_behind": "graph.on_disk.write_behind",
    "graph.writer": "graph.on_disk.writer",
    "observe.usable": "observe.usable_memory",
    "pipeline.across": "pipeline.passes.way_exchange",
    "pipeline.aggregation": "pipeline.passes.aggregation",
    "pipeline.chunks": "pipeline.partition.chunks",
    "pipeline.chunkwise": "pipeline.passes.chunkwise",
    "pipeline.cut": "pipeline.partition.cut",
    "pipeline.layerwise": "pipeline.passes.layerwise",
    "pipeline.link": "pipeline.passes.link",
    "pipeline.local": "pipeline.partition.chunk_topology",
    "pipeline.loss": "pipeline.passes.loss",
    "pipeline.measure": "pipeline.planning.measured_line",
    "pipeline.meter": "pipeline.staleness",
    "pipeline.planner": "pipeline.planning.planner",
    "pipeline.probe": "pipeline.dry_run",
    "pipeline.profile": "pipeline.planning.profile",
    "pipeline.program": "pipeline.passes.segments",
    "pipeline.programs": "pipeline.planning.programs",
    "pipeline.reach": "pipeline.partition.way_rows",
    "pipeline.schedule": "pipeline.planning.schedule",
    "pipeline.shared_plan": "pipeline.planning.shared_plan",
    "pipeline.simulate": "pipeline.planning.simulate",
    "pipeline.stage": "pipeline.passes.stage",
    "pipeline.tensor": "pipeline.passes.tensor_parallel",
    "pipeline.volume": "pipeline.planning.volume",
    "pipeline.workload": "pipeline.planning.workload",
    "plan.compare": "plan.baselines.compare",
    "plan.policies": "plan.baselines.policies",
    "sampling.kept": "sampling.kernel_cache",
    "sampling.saint": "sampling.subgraphs.saint",
    "sampling.subgraph": "sampling.subgraphs.subgraph",
    "sampling.walk": "sampling.subgraphs.walk",
    "train.arguments": "loader.arguments",
    "train.assemble": "loader.batches.assemble",
    "train.auto": "loader.memory.ways",
    "train.batch": "loader.batches.batch",
    "train.budget": "loader.memory.budget",
    "train.build": "train.settings.from_settings",
    "train.checkpoint": "train.checkpoints.checkpoint",
    "train.checkpoint_ranks": "train.checkpoints.ranks",
    "train.conduct": "train.runs.run_loop",
    "train.disk_run": "loader.disk.disk_run",
    "train.edge_rows": "loader.batches.edge_rows",
    "train.epoch_plan": "loader.disk.epoch_plan",
    "train.feed": "loader.prefetch",
    "train.final": "train.runs.final_scores",
    "train.home": "loader.memory.resident",
    "train.layout": "loader.memory.layout",
    "train.loader": "loader.loader",
    "train.loop": "loader.loop",
    "train.maker": "loader.batch_recipe",
    "train.meter": "train.runs.run_counters",
    "train.out_of_core": "loader.disk.out_of_core",
    "train.position": "loader.loader_state",
    "train.predict": "loader.disk.predict",
    "train.prune": "train.checkpoints.prune",
    "train.pyg_batch": "loader.batches.pyg_batch",
    "train.ranks": "loader.rank_options",
    "train.run": "train.runs.run",
    "train.run_folder": "train.runs.run_folder",
    "train.score": "train.metrics",
    "train.seeds": "loader.seeds",
    "train.shelf": "loader.batches.array_pool",
    "train.spread": "train.parallel_model",
    "train.steps": "train.exact.steps",
    "train.storage": "loader.memory.storage",
    "train.together": "train.rank_agreement",
}

#: New module, and what is in it: old and new names.
RENAMED_INSIDE = {
    "dist.features.block_reader": {"OwnDisk": "FeatureBlockReader"},
    "dist.traffic": {"count_crossed": "count_traffic", "explain_crossed": "explain_traffic"},
    "graph.convert.reading.text_dialect": {"Sniffed": "Dialect", "sniff": "guess_dialect"},
    "loader.prefetch": {"Feed": "Prefetcher", "TrayFeed": "ListPrefetcher"},
    "train.runs.run_loop": {"conduct": "run_loop"},
}


class _NewName(Loader):
    """Loads a module by substituting the one with the new name."""

    def __init__(self, new: str) -> None:
        self.new = new

    def create_module(self, spec: ModuleSpec) -> None:
        """Returns the default empty module, which `exec_module` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        """Registers the module of the new name under the old name."""
        old = module.__name__
        warnings.warn(
            f"{old} is now called {self.new}; the old name will be removed in the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        new = importlib.import_module(self.new)
        if names := RENAMED_INSIDE.get(self.new.removeprefix("foregather.")):
            vars(new)["__getattr__"] = partial(_old_name, new, names)
        sys.modules[old] = new


def _old_name(module: ModuleType, names: Mapping[str, str], name: str) -> Any:
    """What a module has under an old name; it is asked for names that are not found otherwise."""
    if name not in names:
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"{name} of {module.__name__} is now called {names[name]}; the old name will be removed in "
        "the next release",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(module, names[name])


class _Finder(MetaPathFinder):
    """The last finder, so it is only asked for modules that were not found otherwise."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec for an old name."""
        new = RENAMED.get(fullname.removeprefix("foregather."))
        if new is None or not fullname.startswith("foregather."):
            return None
        return ModuleSpec(fullname, _NewName(f"foregather.{new}"))


def install() -> None:
    """Installs the finder for old names, once."""
    if not any(type(finder).__name__ == _Finder.__name__ for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
