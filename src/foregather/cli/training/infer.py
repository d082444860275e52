"""infer: computes exact scores of every node of a graph with a run's model: `foregather infer`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from foregather.cli.training.infer_links import AskedLinks, infer_links, show_links
from foregather.cli.training.infer_nodes import Asked, infer_nodes, show_nodes
from foregather.errors import InputError
from foregather.observe.report import NOT_SCORED
from foregather.observe.scores import show_score
from foregather.targets import check_file
from foregather.units import format_bytes, format_count, format_number

__all__ = ["Infer"]


@dataclass(frozen=True)
class Infer:
    """Write exact scores of all nodes, using every edge of the graph, layer by layer from disk.

    On a typed graph, of all nodes of the run's target type, in memory. With the model of a run on
    links: scores of given pairs, the best targets of every source, or the rows of nodes.
    """

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The run whose best model is used."""
    graph: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="GRAPH")]
    """The graph folder; it may differ from that of the run."""
    out: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[OUT]")] = None
    """The array file to make (.npy): float32, one row per node, one column per class, or
    numbers in the unit of the labels. Where the graph has ids of its source, OUT.ids.csv has the id
    of each row. With --nodes it may be left out."""
    nodes: tuple[str, ...] = ()
    """Only these nodes, at once: ids of the source where the graph has them, otherwise numbers from
    0 on. Prints a prediction for each; OUT, if given, has their rows."""
    pairs: Path | None = None
    """Links: score the pairs of this table (.csv or .parquet): source and target, as ids of the
    source; relation where there are several; time where the run looked at times. OUT is .csv or
    .parquet."""
    top_k: int | None = None
    """Links: the best targets of every source, without those it is known to be linked to. OUT is
    .csv or .parquet."""
    embeddings: bool = False
    """Links: the rows of nodes that are compared. OUT is .npy or .parquet."""
    relation: str = ""
    """Links of several relations: which one, for --top-k."""
    with_known: bool = False
    """With --top-k: targets that a source is known to be linked to may be answers too."""
    memory: str | None = None
    """Bytes (2GB) for graph, cache and batches; if not given, the run's own budget."""
    batch_size: int | None = None
    """Targets that are computed together; if not given, as many as the budget holds."""
    overwrite: bool = False
    """Replace OUT."""
    trust_code: bool = False
    """Run the code that the run's config names (module:Class); only if you trust who made it."""
    json: bool = False
    """Print the facts as JSON."""

    def run(self) -> dict[str, Any]:
        """Infers, and scores the splits that have labels."""
        from foregather.graph.graph import Graph
        from foregather.graph.on_disk.npy import map_array
        from foregather.graph.original_ids import id_kind, write_ids
        from foregather.observe.progress import peak_memory
        from foregather.train.hetero.load import check_same_kind
        from foregather.train.infer import infer
        from foregather.train.runs.run_folder import load_goal, load_model, read_environment
        from foregather.train.settings.from_settings import infer_options

        environment = read_environment(self.run_folder)
        about = AskedLinks(**{one: getattr(self, one) for one in AskedLinks.__dataclass_fields__})
        about.check("link" in environment)
        if "link" in environment:
            return infer_links(about)
        typed = check_same_kind(self.run_folder, "typed" in environment, self.graph)
        if self.nodes:
            if self.batch_size is not None:
                raise InputError("--batch-size has no effect with --nodes; leave it out")
            asked = {one: getattr(self, one) for one in Asked.__dataclass_fields__}
            return infer_nodes(Asked(**asked), typed)
        if self.out is None:
            raise InputError("OUT is not given; name the .npy file to make, or pass --nodes")
        if typed:
            return self._run_typed()
        if "plan" in environment:
            return self._run_full()
        model, settings = load_model(self.run_folder, self.trust_code)
        if self.memory is not None:
            settings = replace(settings, memory=replace(settings.memory, budget=self.memory))
        graph = Graph.open(self.graph)
        goal = load_goal(self.run_folder, settings, graph)
        options = infer_options(settings) | {"batch_size": self.batch_size}
        options["finish"] = goal.task.finish
        named = self.out.with_name(self.out.name + ".ids.csv")
        with_ids = id_kind(graph) != "same"
        if with_ids:
            check_file(named, self.overwrite)
        facts = infer(model, graph, self.out, overwrite=self.overwrite, **options)
        if with_ids:
            write_ids(graph, named)
            facts["ids"] = str(named)
        facts |= goal.rate_splits(graph, map_array(self.out), settings.train.split)
        return facts | {"peak_memory": peak_memory()}

    def _run_full(self) -> dict[str, Any]:
        """Infers by a full-graph run, in its chunks, with the graph in memory."""
        from foregather.graph.graph import Graph
        from foregather.graph.on_disk.npy import map_array
        from foregather.graph.original_ids import id_kind, write_ids
        from foregather.observe.progress import peak_memory
        from foregather.train.runs.run_folder import load_goal, read_finished
        from foregather.train.trainers.full_graph_infer import infer_full

        assert self.out is not None
        if self.memory is not None or self.batch_size is not None:
            raise InputError(
                f"{self.run_folder.name} was trained on the full graph, which is held in memory "
                "and inferred in the chunks of the run; leave --memory and --batch-size out"
            )
        settings = read_finished(self.run_folder, self.trust_code)[0]
        graph = Graph.open(self.graph)
        goal = load_goal(self.run_folder, settings, graph)
        named = self.out.with_name(self.out.name + ".ids.csv")
        with_ids = id_kind(graph) != "same"
        if with_ids:
            check_file(named, self.overwrite)
        facts = infer_full(
            self.run_folder,
            graph,
            self.out,
            trust_code=self.trust_code,
            overwrite=self.overwrite,
            finish=goal.task.finish,
        )
        if with_ids:
            write_ids(graph, named)
            facts["ids"] = str(named)
        facts |= goal.rate_splits(graph, map_array(self.out), settings.train.split)
        return facts | {"peak_memory": peak_memory()}

    def _run_typed(self) -> dict[str, Any]:
        """Infers on a typed graph."""
        from foregather.observe.progress import peak_memory
        from foregather.train.hetero.infer import infer_typed
        from foregather.train.hetero.load import load_typed

        assert self.out is not None
        facts = infer_typed(
            load_typed(self.run_folder, self.graph, self.trust_code),
            self.out,
            memory=self.memory,
            batch_size=self.batch_size,
            overwrite=self.overwrite,
        )
        return facts | {"peak_memory": peak_memory()}

    def show(self, facts: dict[str, Any]) -> str:
        """Returns the summary as text."""
        if "link" in facts:
            return show_links(facts)
        if "predictions" in facts:
            return show_nodes(facts)
        if "target" in facts:
            return _show_typed(facts)
        lines = [
            f"wrote     {facts['out']}: {format_count(facts['nodes'])} rows, "
            f"{format_number(facts['sweeps'], 'sweep')} over the graph by {facts['way']}",
            f"moved     {format_bytes(facts['bytes'])} read by plan, "
            f"{format_bytes(facts['written'])} written; peak {format_bytes(facts['peak_memory'])}",
        ]
        if "ids" in facts:
            lines.append(f"ids       {facts['ids']}: the id of each row in the source")
        return "\n".join([*lines, *_show_scores(facts)])


_WAYS = {
    "layers": "layer by layer, every edge",
    "whole": "one call with the whole graph",
    "trees": "a tree for each row, every edge that it may see",
}


def _show_typed(facts: dict[str, Any]) -> str:
    lines = [
        f"wrote     {facts['out']}: {format_count(facts['nodes'])} rows, the nodes of type "
        f"{facts['target']!r}; {_WAYS[facts['way']]}; peak {format_bytes(facts['peak_memory'])}"
    ]
    if "ids" in facts:
        lines.append(f"ids       {facts['ids']}: the id of each row in the source")
    return "\n".join([*lines, *_show_scores(facts)])


def _show_scores(facts: dict[str, Any]) -> list[str]:
    """A line for each split, with the metric's name and the baseline."""
    lines = [
        f"{name:<9} {show_score(facts, name, value)}" for name, value in facts["scores"].items()
    ]
    return [*lines, *(f"{name:<9} {NOT_SCORED}" for name in facts.get("not_scored", ()))]
