"""Bugs to plant where data is brought in: names, node tables, splits, original ids."""

from tests.mutants.mutant import mutants

_FG = "src/foregather/"

BRINGING = [
    *mutants(
        _FG + "graph/convert/names.py",
        "graph/convert/test_numbering.py",
        ("names: one of two fillings comes twice", "first[0] = not known", "first[0] = True"),
        (
            "names: no comparison between fillings",
            "if (same != places",
            "if False and (same != places",
        ),
    ),
    *mutants(
        _FG + "graph/convert/numbering.py",
        "graph/convert/test_numbering.py",
        (
            "numbering: the second part of the keys counts from 0",
            "result[hit] = found[hit] + start",
            "result[hit] = found[hit]",
        ),
    ),
    *mutants(
        _FG + "graph/convert/nodes/join.py",
        "graph/convert/test_node_tables.py",
        (
            "nodes: the same id in one chunk",
            "twice = (before > 0) | (after != rows.lines)",
            "twice = before > 0",
        ),
        (
            "nodes: classes in the order of the table",
            "rank[order] = np.arange(len(names))",
            "rank[: len(names)] = np.arange(len(names))",
        ),
        (
            "nodes: features of nodes without a row are 0",
            "(count, self.width), self.fill",
            "(count, self.width), 0",
        ),
        (
            "nodes: empty fields are not filled",
            "np.where(empty, self.fill, given)",
            "np.where(empty, 0, given)",
        ),
        (
            "nodes: val is another split than valid",
            '"valid" if name in ("val", "validation") else name',
            "name",
        ),
    ),
    *mutants(
        _FG + "graph/convert/nodes/node_splits.py",
        "graph/convert/test_node_splits.py",
        ("splits: valid starts after its time", 'side="right"', 'side="left"'),
        ("splits: the seed is not used", "rule.seed, 0, 0, order", "0, 0, 0, order"),
    ),
    *mutants(
        _FG + "graph/convert/nodes/write_nodes.py",
        "graph/convert/test_node_splits.py::test_another_seed_is_another_division",
        (
            "splits: chance in the order of the numbers",
            'np.argsort(table.lines[labelled], kind="stable")',
            "np.arange(len(labelled))",
        ),
    ),
    *mutants(
        _FG + "graph/original_ids.py",
        "graph/test_original_ids.py cli/test_named.py",
        ("ids: nodes of ids that do not ascend", "at if order is None else order[at]", "at"),
        (
            "ids: names of a partition in the old order",
            "places = order[start : start + _STEP]",
            "places = np.arange(start, min(start + _STEP, len(order)))",
        ),
    ),
]
