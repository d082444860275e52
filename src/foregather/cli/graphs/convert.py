"""foregather convert: converts existing data to a graph folder, in bounded memory."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from foregather.cli.graphs.timed import described
from foregather.cli.graphs.typed_info import made_links, show_converted
from foregather.errors import ForegatherError, InputError
from foregather.graph.order import Order, reorder
from foregather.units import format_bytes, format_count, format_number, parse_count

__all__ = ["Convert"]

_SHOWN_CLASSES = 20


@dataclass(frozen=True)
class Convert:
    """Make a graph folder from arrays, an edge list, Parquet, an OGB folder or a graph folder."""

    src: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SRC")]
    """A .npz, .npy, csv/tsv/txt/mtx (or .gz), .parquet, OGB folder or graph folder; or a .toml that
    describes tables of several types, or a database of SQLite or DuckDB."""
    dst: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DST")]
    """The graph folder to make."""
    memory: str = "2GB"
    """Memory the process may use; at most what the machine has is used."""
    undirected: bool = False
    """Add the reverse of each edge, then drop repeated pairs. Done by default for data sets
    that are undirected by definition but stored one way."""
    directed: bool = False
    """Never add reverse edges, whatever the data set."""
    self_loops: bool = False
    """Add an edge from each node to itself if there is none."""
    dedup: bool = False
    """Keep the first of several edges with the same source and target."""
    dtype: Literal["auto", "float32", "float16", "int8", "source"] = "auto"
    """Storage of node features; auto keeps float16 and converts everything else to float32."""
    ids: Literal["auto", "dense", "sparse", "string"] = "auto"
    """dense: integers used unchanged; sparse: integers renumbered; string: text numbered."""
    nodes: str | None = None
    """Number of nodes, if the source does not state it."""
    columns: tuple[str, str] | None = None
    """Source and target column of a table, by name or position."""
    weight: str | None = None
    """Weight column of a table, by name or position."""
    time: str | None = None
    """Time column of an edge list (csv, tsv, txt with tabs, parquet), by name or position: whole
    numbers or dates. Makes a typed graph of one node type, whose edges have times."""
    header: Literal["auto", "yes", "no"] = "auto"
    """Whether the first line of an edge list, or of files of links, is a header; auto detects it,
    and refuses a line that could be an edge as well."""
    order: Order = "ids"
    """How feature rows lie in their file, so that training from disk reads less: communities, bfs,
    rcm, metis, hot, hot+communities, ...; ids: by node id. See foregather plan --orders."""
    features: Path | None = None
    """A .npy or .npz with the node features; those of the source are left out."""
    splits: bool = True
    """--no-splits leaves the splits of the source out."""
    node_table: Path | None = None
    """A table with a row per node (csv, tsv or txt, or .gz of these, or .parquet): ids as in the
    edges, features, labels, splits."""
    node_id: str | None = None
    """Id column of the node table, by name or position; if not given, id, node, name or
    the first."""
    node_features: tuple[str, ...] | None = None
    """Feature columns of the node table; if not given, every column of numbers that is nothing
    else."""
    node_label: str | None = None
    """Label column of the node table; if not given, one called label, class or y."""
    node_label_kind: Literal["auto", "number", "text"] = "auto"
    """Labels as numbers, or as names of classes; auto looks."""
    node_split: str | None = None
    """Column of the node table that names splits; if not given, one called split."""
    node_time: str | None = None
    """Column of times of the node table, whole numbers or dates; if not given, time,
    timestamp or date."""
    node_header: Literal["auto", "yes", "no"] = "auto"
    """Whether the first line of the node table is a header."""
    fill: float | None = None
    """Value of node features that the node table does not have; if not given, that is refused."""
    split: tuple[float, float, float] | None = None
    """Divide the labelled nodes by chance into train, valid and test, such as 0.6 0.2 0.2."""
    split_seed: int = 0
    """Seed of --split."""
    split_time: tuple[str, str] | None = None
    """Divide the labelled nodes by time: valid from the first time on, test from the second."""
    split_links: tuple[float, float, float] | None = None
    """Divide the edges into links train, valid and test, such as 0.8 0.1 0.1; only training links
    stay edges."""
    split_links_by: Literal["chance", "time"] = "chance"
    """Whether --split-links goes by chance, or by time: the earliest edges are train."""
    split_links_time: tuple[str, str] | None = None
    """Divide the edges by time: valid links from the first time on, test links from the second."""
    split_links_seed: int = 0
    """Seed of --split-links by chance."""
    split_links_relation: tuple[str, ...] | None = None
    """The relation whose edges are divided: source type, relation, target type; not needed
    if there is only one. "*" for all of them (a knowledge graph)."""
    links: tuple[str, ...] | None = None
    """Links that are divided already: train=train.csv valid=valid.csv test=test.csv, and
    valid_negatives=FILE for pairs that are no links. Of a typed graph they are tables with the
    columns source and target (or the first two), and time and label where there are any; with
    --split-links-relation "*" they hold facts, as [triples] does."""
    strict: bool = False
    """Refuse foreign keys that point nowhere, and facts that two files of links have, instead of
    counting them (several types)."""
    skip_columns: tuple[str, ...] = ()
    """Columns of a database that are left out, each as table.column."""
    overwrite: bool = False
    """Replace an existing graph folder."""
    threads: int = 0
    """Threads, 0 for all cores."""
    json: bool = False
    """Print the facts as JSON."""

    def run(self) -> dict[str, Any]:
        """Converts."""
        if self.undirected and self.directed:
            raise InputError("--undirected and --directed exclude each other; pass one of them")
        with ExitStack() as held:
            if self.time is None:
                header = _said(self.header)
                return self._convert(self.src, self.columns, self.weight, header)
            given = (self.time, self.columns, self.weight, _said(self.header))
            source, notes = held.enter_context(described(self.src, *given))
            # the description has columns, weight and header; that of files of links it has not
            made = self._convert(source, None, None, given[-1] if self.links else None)
            return {**made, "notes": [*made["notes"], *notes]}

    def _convert(
        self,
        source: Path,
        columns: tuple[str, str] | None,
        weight: str | None,
        header: bool | None,
    ) -> dict[str, Any]:
        from foregather.graph.convert import ReadOptions, convert

        reading = ReadOptions(
            ids=self.ids,
            num_nodes=None if self.nodes is None else parse_count(self.nodes, "--nodes"),
            columns=columns,
            weight=weight,
            header=header,
            table=self._table(),
            strict=self.strict,
            skip_columns=self.skip_columns,
        )
        made = convert(
            source,
            self.dst,
            memory=self.memory,
            undirected=True if self.undirected else False if self.directed else None,
            self_loops=self.self_loops,
            dedup=self.dedup,
            dtype=self.dtype,
            reading=reading,
            features=self.features,
            splits=self._splits(),
            overwrite=self.overwrite,
            threads=self.threads,
        )
        return made if self.order == "ids" else self._in_order(made)

    def _in_order(self, made: dict[str, Any]) -> dict[str, Any]:
        if "relations" in made:
            raise InputError(
                f"--order is for graphs of one node type; {self.dst.name} was converted without it"
            )
        try:
            reorder(
                self.dst,
                self.dst,
                self.order,
                memory=self.memory,
                overwrite=True,
                threads=self.threads,
            )
        except ForegatherError as error:
            text = f"{error}; {self.dst.name} was converted, without order {self.order}"
            raise type(error)(text) from error
        return {**made, "order": self.order}

    def _table(self) -> Any:
        from foregather.graph.convert import NodeFile

        options: dict[str, Any] = {
            "id": self.node_id,
            "features": self.node_features,
            "label": self.node_label,
            "split": self.node_split,
            "time": self.node_time,
            "header": _said(self.node_header),
            "fill": self.fill,
        }
        kind = self.node_label_kind
        if self.node_table is not None:
            return NodeFile(self.node_table, label_kind=kind, **options)
        unused = [name for name, given in options.items() if given is not None]
        if unused or kind != "auto":
            name = unused[0] if unused else "label-kind"
            flag = "--fill" if name == "fill" else f"--node-{name}"
            raise InputError(f"{flag} has no effect without --node-table; leave it out")
        return None

    def _splits(self) -> Any:
        from foregather.graph.convert import SplitRule

        rule = self._link_rule()
        if rule is not None:
            if self.split is not None or self.split_time is not None:
                raise InputError(
                    "splits of nodes and links are made one at a time; leave out --split and "
                    "--split-time, or the division of links"
                )
            return rule
        if self.split is None and self.split_seed:
            raise InputError("--split-seed has no effect without --split; leave it out")
        if self.split is None and self.split_time is None:
            return self.splits
        if not self.splits:
            raise InputError("--no-splits and --split exclude each other; pass one of them")
        return SplitRule(fractions=self.split, seed=self.split_seed, times=self.split_time)

    def _link_rule(self) -> Any:
        from foregather.graph.convert.link_files import LinkFiles
        from foregather.graph.links.rule import LinkSplit

        divided = self.split_links is not None or self.split_links_time is not None
        if self.links is not None:
            if divided:
                raise InputError("--links and --split-links exclude each other; pass one of them")
            return LinkFiles.of(self.links, self._relation())
        if divided:
            return LinkSplit(
                self.split_links,
                self.split_links_time,
                by_time=self.split_links_by == "time",
                seed=self.split_links_seed,
                relation=self._relation(),
            )
        for name, given in (
            ("by", self.split_links_by != "chance"),
            ("seed", self.split_links_seed != 0),
            ("relation", self.split_links_relation is not None),
        ):
            if given:
                raise InputError(
                    f"--split-links-{name} has no effect without --split-links; leave it out"
                )
        return None

    def _relation(self) -> Any:
        given = self.split_links_relation
        if given is None or len(given) == 3:
            return given
        if given != ("*",):
            raise InputError(
                f"--split-links-relation has {len(given)} words, expected source type, relation "
                'and target type, or "*" for all relations'
            )
        return given[0]

    def show(self, facts: dict[str, Any]) -> str:
        """Returns the summary as text."""
        if "relations" in facts:
            return show_converted(facts, self.dst)
        lines = [
            f"{facts['graph']}: {format_number(facts['num_nodes'], 'node')}, "
            f"{format_number(facts['num_edges'], 'edge')} from {facts['source']}"
        ]
        for key, noun, done in (
            ("duplicates_removed", "repeated edge", "removed"),
            ("self_loops_added", "self-loop", "added"),
        ):
            if facts[key]:
                lines.append(f"  {format_number(facts[key], noun)} {done}")
        if "features" in facts:
            lines.append("  " + _features(facts["features"]))
        if "order" in facts:
            lines.append(f"  feature rows in order {facts['order']}")
        if "labels" in facts:
            kind, classes = facts["labels"]["kind"], facts["labels"]["num_classes"]
            what = "numbers, not classes" if classes is None else format_number(classes, "class")
            lines.append(f"  labels: {kind}, {what}, {facts['labels']['missing']} missing")
            lines += _classes(facts["labels"].get("classes", ()))
        if "splits" in facts:
            sizes = ", ".join(f"{name} {format_count(n)}" for name, n in facts["splits"].items())
            lines.append(f"  splits: {sizes}")
        lines += made_links(facts)
        lines += [f"  {note}" for note in facts["notes"]]
        lines.append(
            f"  {format_bytes(facts['bytes'])} in {facts['seconds']:.1f} s, "
            f"peak memory {format_bytes(facts['peak_memory'])}"
        )
        lines.append(f"next: foregather info {self.dst}")
        return "\n".join(lines)


def _said(answer: str) -> bool | None:
    return None if answer == "auto" else answer == "yes"


def _classes(names: Sequence[str]) -> list[str]:
    """The first classes by number, in one line."""
    if not names:
        return []
    shown = ", ".join(f"{k} = {name}" for k, name in enumerate(names[:_SHOWN_CLASSES]))
    more = len(names) - _SHOWN_CLASSES
    return [f"  classes: {shown}" + (f" and {more} more (in meta.json)" if more > 0 else "")]


def _features(facts: dict[str, Any]) -> str:
    text = f"features: {format_number(facts['width'], 'column')} of {facts['dtype']}"
    if "error" in facts:
        text += f", relative error {facts['error']['relative_rms']:.2g}"
    if facts["nonfinite"]:
        text += f", {format_count(facts['nonfinite'])} values are NaN or infinite"
    return text
