"""Bugs to plant where tables of several types and databases become a typed graph."""

from tests.mutants.mutant import mutants

_TYPED = "src/foregather/graph/convert/typed/"
_STREAM = "graph/convert/test_typed_streaming.py graph/convert/test_typed.py"
_KILLED = "graph/convert/test_typed_killed.py"
_BASES = "graph/convert/test_databases.py"
_KEYS = "graph/convert/test_databases_keys.py"

TABLES = [
    *mutants(
        _TYPED + "lookup/index.py",
        _STREAM,
        (
            "tables: rows of ids are their places",
            'self._held["row"][place[hit]].view(np.int64)',
            "place[hit]",
        ),
        (
            "tables: an id that is there twice",
            "                if same.size:",
            "                if 0:",
        ),
        ("tables: an id that is missing is one", "(place >= 0) & keys.there", "place >= 0"),
    ),
    *mutants(
        _TYPED + "lookup/joined.py",
        _STREAM,
        (
            "tables: ids of the next group are passed by",
            "                        break",
            "                        pass",
        ),
        (
            "tables: rows without a key are left out",
            "self._put(places[~keys.there], np.int64(-1))",
            "pass",
        ),
        (
            "tables: nodes in the order of their keys",
            'np.argsort(group.records["place"], kind="stable")',
            "slice(None)",
        ),
    ),
    *mutants(
        _TYPED + "lookup/text_runs.py",
        _STREAM,
        (
            "tables: runs are merged beyond their border",
            "border = min((blocks",
            "border = max((blocks",
        ),
        (
            "tables: texts of two runs come twice",
            "_in_order(pa.compute.unique(pa.concat_arrays(parts)))",
            "_in_order(pa.concat_arrays(parts))",
        ),
    ),
    *mutants(
        _TYPED + "lookup/columns.py",
        _STREAM,
        (
            "tables: text begins anew in each batch",
            "text.offsets[1:] + self._text.rows",
            "text.offsets[1:]",
        ),
    ),
    *mutants(
        _TYPED + "codes.py",
        _STREAM,
        (
            "tables: names in the order they came in",
            "final[self._numbers[name]] = place",
            "final[place] = place",
        ),
    ),
    *mutants(
        _TYPED + "relations.py",
        _STREAM,
        (
            "tables: the way back is the way there",
            "ends = (target, source)",
            "ends = (source, target)",
        ),
        (
            "tables: edges are numbered by batch",
            "np.arange(self.edges, self.edges + len(source))",
            "np.arange(len(source))",
        ),
    ),
    *mutants(
        _TYPED + "nodes.py",
        _STREAM,
        (
            "tables: splits are numbered by piece",
            "np.flatnonzero(values == place) + start",
            "np.flatnonzero(values == place)",
        ),
    ),
    *mutants(
        _TYPED + "edges.py",
        _STREAM + " graph/convert/test_relational.py",
        (
            "tables: rows of keys are numbered by batch",
            "out.add(source + rows, target[source])",
            "out.add(source, target[source])",
        ),
        (
            "tables: a row without a key points nowhere",
            "nowhere = given & (target < 0)",
            "nowhere = target < 0",
        ),
    ),
    *mutants(
        _TYPED + "triples.py",
        _STREAM,
        (
            "tables: facts of two relations are mixed",
            'np.flatnonzero(np.diff(records["relation"])) + 1',
            "np.empty(0, np.int64)",
        ),
    ),
    *mutants(
        _TYPED + "splits.py",
        "graph/convert/test_typed_splits.py",
        ("tables: a division without its seed", "total, rule.seed, 0, start", "total, 0, 0, start"),
        ("tables: a limit within a second", "-(-limits // _SECOND)", "limits // _SECOND"),
        ("tables: nodes without labels are divided", "else values >= 0", "else values >= -1"),
    ),
    *mutants(
        _TYPED + "journal.py",
        _KILLED,
        ("journal: steps of other tables count", 'entry.get("made_of") != made_of', "False"),
        ("journal: arrays are believed", "array_entry(name, map_array(files[0])) == entry and", ""),
        ("journal: block checksums are believed", "== entry and blocks == table", "== entry"),
    ),
    *mutants(
        _TYPED + "run.py",
        _KILLED,
        ("journal: what was left stays in the graph", "writer.keep_only(", "set("),
    ),
    *mutants(
        _TYPED + "reader.py",
        _KILLED,
        ("tables: a change while reading is missed", "        self.check([path])\n", ""),
    ),
    *mutants(
        _TYPED + "databases/sqlite.py",
        _BASES,
        (
            "databases: rows in the order of an index",
            'f" ORDER BY {table.order}" if table.order else ""',
            '""',
        ),
        ("databases: a log beside the file", 'for end in ("-wal", "-journal"):', "for end in ():"),
    ),
    *mutants(
        _TYPED + "databases/plan.py",
        f"{_BASES} {_KEYS}",
        ("databases: any key is the primary one", "there.name, joined(other))", "there.name)"),
        (
            "databases: one of several dates is the time",
            "len(self._dates) != 1 or",
            "not self._dates or",
        ),
        ("databases: a date with gaps is the time", "or self._dates[0].missing:", "or False:"),
    ),
    *mutants(
        _TYPED + "databases/table.py",
        _BASES,
        (
            "databases: commas in keys of several columns",
            'for sign in ("\\\\", ","):',
            "for sign in ():",
        ),
    ),
    *mutants(
        _TYPED + "databases/catalogue.py",
        _KEYS,
        (
            "keys of databases: here decides how keys are compared",
            'f"named.{quoted(there)} = {quoted(table)}.{quoted(here)}"',
            'f"{quoted(table)}.{quoted(here)} = named.{quoted(there)}"',
        ),
        (
            "keys of databases: one that points nowhere has no value",
            'f"COALESCE(({found}), {quoted(table)}.{quoted(own)})"',
            'f"({found})"',
        ),
    ),
    *mutants(
        _TYPED + "databases/plan.py",
        _KEYS,
        (
            "keys of databases: columns in any order are the primary key",
            "if other == there.primary:",
            "if set(other) == set(there.primary):",
        ),
    ),
    *mutants(
        _TYPED + "values.py",
        _KEYS,
        ("dates: the row is that of the other kind", "row = max(_longest", "row = min(_longest"),
    ),
    *mutants(
        _TYPED + "space.py",
        _KEYS,
        (
            "space: what is on the way is not counted",
            "need += max((spooled",
            "need += min((0 * spooled",
        ),
    ),
    *mutants(
        _TYPED + "table_header.py",
        "graph/convert/typed/test_table_header.py",
        (
            "headers: a line in doubt is skipped",
            "if looks is None or looks != names_itself(file):",
            "if looks is not None and looks != names_itself(file):",
        ),
        (
            "headers: values are names of columns",
            "if value and (one or at in read):",
            "if False:",
        ),
        (
            "headers: what was assumed is not said",
            "if not header or any(one.header is not None for one in given):",
            "if header or any(one.header is not None for one in given):",
        ),
    ),
]
