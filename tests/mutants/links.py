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
]
