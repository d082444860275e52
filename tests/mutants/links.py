"""Bugs to plant in negatives of links and in what minibatches leave out."""

from tests.mutants.mutant import mutants

LINKS = [
    *mutants(
        "csrc/sampling/links/negatives.cpp",
        "sampling/links/test_negatives.py sampling/links/test_negative_statistics.py",
        (
            "negatives: a node at the positive's time is too late",
            "upper_bound(end.time",
            "lower_bound(end.time",
        ),
        (
            "negatives: known links are stepped over one too late",
            "units_before(destination_, rank) - known <= unit",
            "units_before(destination_, rank) - known < unit",
        ),
        ("negatives: both ends share their draws", "2 * one.number + 1)", "2 * one.number)"),
        (
            "negatives: all rows share their draws",
            "derive(key, static_cast<std::uint64_t>(given.rows[place]));",
            "derive(key, 0);",
        ),
    ),
    *mutants(
        "csrc/sampling/links/excluded.hpp",
        "sampling/links/test_excluded.py sampling/links/test_excluded_typed.py",
        (
            "excluded: only the first parallel edge",
            "if (*first == source) {",
            "if (*first == source && (first == graph.indices.data() || first[-1] != source)) {",
        ),
        (
            "excluded: rows of all trees",
            "return a.tree < b.tree;",
            "return a.tree / 2 < b.tree / 2;",
        ),
    ),
    *mutants(
        "csrc/sampling/typed/typed_step.hpp",
        "sampling/links/test_excluded_typed.py",
        ("excluded: the last edges count those left out", "      --first;\n", ""),
    ),
    *mutants(
        "csrc/sampling/picking/part_pick.hpp",
        "sampling/links/test_excluded.py",
        (
            "excluded: an edge left out is drawn by weight",
            "refused[place(gap) / 64] |= std::uint64_t{1}",
            "refused[place(gap) / 64] |= std::uint64_t{0}",
        ),
    ),
    *mutants(
        "csrc/sampling/on_disk/row_search.hpp",
        "sampling/links/test_excluded.py",
        (
            "on disk: only the first parallel edge is left out",
            "number % 2 == 0 ? std::lower_bound",
            "number % 2 < 2 ? std::lower_bound",
        ),
        (
            "on disk: a row of several blocks ends with the first",
            "place == last && last < search.high",
            "place == last && last > search.high",
        ),
    ),
    *mutants(
        "csrc/sampling/on_disk/row_gaps.hpp",
        "sampling/links/test_excluded.py",
        (
            "on disk: a row is sampled again with what it left out",
            "if (met && at < first) continue;",
            "if (met) continue;",
        ),
    ),
    *mutants(
        "src/foregather/dist/sampling/left_out.py",
        "dist/sampling/test_left_out.py",
        (
            "over ranks: gaps are stepped over one too late",
            'rows * wide + place, side="right"',
            'rows * wide + place, side="left"',
        ),
        (
            "over ranks: what is left out of one is left out of all",
            "batch * self.num_nodes +",
            "0 * batch +",
        ),
        (
            "over ranks: whole rows keep what is left out",
            "return ~gone | (found < 0)",
            "return ~gone | (found < 0) | (entries.edge % 2 == 0)",
        ),
        (
            "over ranks: parallel edges stay",
            "right = found <= value[open_] if last",
            "right = found < value[open_] if last",
        ),
    ),
    *mutants(
        "src/foregather/loader/links/pair_loader.py",
        "dist/runs/test_link_command.py",
        (
            "pairs over ranks: padding counts",
            "share=share)",
            "share=1.0)",
        ),
    ),
    *mutants(
        "src/foregather/loader/own_batches.py",
        "dist/runs/test_link_command.py",
        (
            "pairs over ranks: all take the batch of the first",
            "step * self.size + self.rank",
            "step * self.size",
        ),
        (
            "typed links over ranks: padding counts",
            "batch.share = share",
            "batch.share = 1.0",
        ),
    ),
    *mutants(
        "src/foregather/loader/batches/assemble.py",
        "loader/links/test_link_storage.py",
        (
            "trees from disk: rows in the order they were read",
            "np.searchsorted(distinct_nodes(sample), sample.node)",
            "np.arange(len(sample.node)) % len(rows)",
        ),
    ),
    *mutants(
        "src/foregather/train/trainers/linking.py",
        "dist/runs/test_link_command.py",
        (
            "links over ranks: gradients are not shared",
            "call = self.model if self.parallel is None else self.parallel",
            "call = self.model",
        ),
    ),
    *mutants(
        "src/foregather/graph/links/from_pyg.py",
        "graph/test_links_from_pyg.py",
        (
            "from PyG: negatives are kept as links",
            "if not there.all():",
            "if not there.any():",
        ),
        (
            "from PyG: times of negatives go to links",
            "{name: values[there] for name",
            "{name: values[: there.sum()] for name",
        ),
    ),
    *mutants(
        "src/foregather/nn/arguments.py",
        "train/test_saint_losses.py",
        (
            "a subgraph is trimmed by layers",
            'getattr(model, "num_layers", 0) > hops',
            'getattr(model, "num_layers", 0) > hops + 9',
        ),
    ),
    *mutants(
        "src/foregather/train/trainers/sampled.py",
        "train/test_saint_losses.py",
        (
            "saint: losses are of all nodes, not of training nodes",
            "self.graph.num_nodes / max(1, int(learned.sum()))",
            "self.graph.num_nodes / self.graph.num_nodes",
        ),
    ),
]
