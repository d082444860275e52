"""Bugs to plant in the Python part: caches, weights, plans, ledger, history, resume, budgets."""

from tests.mutants.mutant import mutants

_FG = "src/foregather/"
#: Several chunks a tick.
_ABREAST = "pipeline/passes/test_ways.py::test_chunks_abreast_equal_the_oracle"

PYTHON = [
    *mutants(
        _FG + "sampling/kernel_cache.py",
        "sampling/test_kernel_cache.py",
        (
            "cache: the kernel of another graph",
            "key, kept, process = id(of), self._entries.get(id(of)), os.getpid()",
            "key, kept, process = 0, self._entries.get(0), os.getpid(); of = type(of)",
        ),
        ("cache: the counts of another seed", " and kept.other == other:", ":"),
    ),
    *mutants(
        _FG + "sampling/subgraphs/saint.py",
        "sampling/subgraphs/test_saint.py",
        (
            "saint: edge weights the wrong way round",
            "weight = (target / np.maximum(counts.edge[sample.edge], 1))",
            "weight = (np.maximum(counts.edge[sample.edge], 1) / target)",
        ),
        (
            "saint: presampling stops after one subgraph",
            "if held >= self.coverage * graph.num_nodes:",
            "if held >= 1:",
        ),
    ),
    *mutants(
        _FG + "sampling/seeds.py",
        "sampling/test_neighbor.py sampling/test_layerwise.py sampling/test_matrix.py",
        (
            "seeds: repeated ones in sorted order",
            "order = np.argsort(first)",
            "order = np.arange(len(first))",
        ),
        (
            "seeds: negative ids accepted",
            "wrong = (ids < 0) | (ids >= graph.num_nodes)",
            "wrong = ids >= graph.num_nodes",
        ),
    ),
    *mutants(
        _FG + "sampling/weights.py",
        "sampling/test_weighted.py",
        (
            "weights: of another number of edges",
            "if len(self.values) != graph.num_edges:",
            "if len(self.values) < graph.num_edges:",
        ),
        (
            "weights: the caller's array is kept, not copied",
            'copy = np.array(values, np.float32, order="C")',
            "copy = np.asarray(values, np.float32)",
        ),
    ),
    *mutants(
        _FG + "loader/seeds.py",
        "loader/test_seeds.py loader/test_loader.py",
        (
            "batches: input_id of a mask by position",
            "return ids, array.dtype != np.bool_",
            "return ids, True",
        ),
        (
            "batches: the last one is dropped",
            "return -(-self.count // self.batch_size)",
            "return max(1, self.count // self.batch_size)",
        ),
        (
            "batches: the caller's ids are kept, not copied",
            'ids = np.array(to_ids(array, graph.num_nodes, "input_nodes"), np.int64)',
            'ids = np.asarray(to_ids(array, graph.num_nodes, "input_nodes"), np.int64)',
        ),
    ),
    *mutants(
        _FG + "loader/loader_state.py",
        "loader/test_loader.py",
        ("resume: input nodes are not compared", '        "input_nodes": seeds.digest,\n', ""),
        (
            "resume: the order is not compared",
            '        "shuffle": seeds.shuffle if isinstance(seeds.shuffle, bool) '
            "else str(seeds.shuffle),\n",
            "",
        ),
        ("resume: the graph is not compared", '        "graph": maker.graph.digest,\n', ""),
    ),
    *mutants(
        _FG + "loader/loader_state.py",
        "interop/test_disjoint.py::test_resume_is_exact",
        (
            "resume: trees are taken for plain minibatches",
            "f\"{'disjoint ' if maker.disjoint else ''}{identity_of(maker.sampler)}\"",
            "identity_of(maker.sampler)",
        ),
    ),
    *mutants(
        _FG + "loader/batch_recipe.py",
        "interop/test_disjoint.py",
        (
            "trees: keyed from the first row of the batch on",
            "rows = [tree_rows(one) for one in dealt]",
            "rows = [tree_rows(one) - tree_rows(one)[:1] for one in dealt]",
        ),
    ),
    *mutants(
        _FG + "loader/hetero/hetero_recipe.py",
        "loader/hetero/test_hetero_loader.py",
        (
            "typed trees: keyed from the first row of the batch on",
            "rows = {kind: [one.input_id for one in dealt]}",
            "rows = {kind: [one.input_id - one.input_id[:1] for one in dealt]}",
        ),
    ),
    *mutants(
        _FG + "loader/hetero/columns.py",
        "loader/hetero/test_hetero_loader.py",
        (
            "typed batches: times of edges in the order they were given in",
            "return given if walked.edge_ids is None else given[walked.edge_ids]",
            "return given",
        ),
    ),
    *mutants(
        _FG + "loader/hetero/input_rows.py",
        "loader/hetero/test_hetero_loader.py",
        (
            "typed batches: times of rows by the place in the batch",
            "return self.given[position]",
            "return self.given[: len(position)]",
        ),
    ),
    *mutants(
        _FG + "loader/hetero/identity.py",
        "loader/hetero/test_hetero_loader.py",
        ("typed resume: times are not compared", '        "input_time": maker.times.digest,\n', ""),
    ),
    *mutants(
        _FG + "interop/typed/repeat.py",
        "interop/typed/test_typed_seat.py",
        (
            "typed seat: a seed given twice keeps the sources of others",
            "row = renamed[row]",
            "row = row + 0",
        ),
        (
            "typed seat: edges given again are not counted",
            "[n + more * (i == 0) for i, n in enumerate(own)]",
            "list(own)",
        ),
    ),
    *mutants(
        _FG + "interop/typed/ahead.py",
        "interop/typed/test_typed_seat.py",
        (
            "typed seat: e_id in the order of the walk",
            "return given if ids is None else _numbers(ids, given, threads, self._pool)",
            "return given",
        ),
    ),
    *mutants(
        _FG + "loader/memory/budget.py",
        "loader/memory/test_budget.py",
        (
            "budget: batches in flight are not counted",
            "return self.tables + (self.prefetch + 2) * self.batch",
            "return self.tables + self.prefetch * self.batch",
        ),
        ("budget: no reserve for larger batches", "reserved(batch, pooled=True)", "batch"),
        ("budget: one byte too little is enough", "if least > memory:", "if least > memory + 1:"),
    ),
    *mutants(
        _FG + "loader/memory/layout.py",
        "loader/memory/test_layout.py loader/disk/test_disk_budget.py",
        (
            "layout: planner tables are not counted",
            "max(1, cache.slots(memory - spent))",
            "max(1, cache.slots(memory - spent + cache.tables(1)))",
        ),
        (
            "layout: staging is not counted",
            "return self._batches + self.scratch + self.staging",
            "return self._batches + self.scratch",
        ),
        (
            "layout: sweep buffers are not counted",
            "slots = layout.num_slots - max(0, -(-(need - free) // row_bytes))",
            "slots = layout.num_slots",
        ),
    ),
    *mutants(
        _FG + "plan/choice.py",
        "plan/test_cost.py",
        ("choice: repacking at any gain", "_REPACK_MARGIN = 1.5", "_REPACK_MARGIN = 1.0"),
        (
            "choice: the dearest",
            "best = min(ways, key=lambda way: way.decides).block_bytes",
            "best = max(ways, key=lambda way: way.decides).block_bytes",
        ),
        (
            "choice: bulks do not see the next",
            "(bulk, self.bulks[k + 1] if k + 1 < len(self.bulks) else [])",
            "(bulk, [])",
        ),
    ),
    *mutants(
        _FG + "plan/cost.py",
        "plan/test_cost.py",
        (
            "cost: writing a scratch file is free",
            "seconds = written / disk.sequential_write",
            "seconds = 0.0",
        ),
        ("cost: short writes are free", " + writes * disk.latency", ""),
        ("cost: a core copies at once", "_handled(plan) / disk.copying", "0.0"),
        (
            "cost: as deep as one size was measured",
            "return max(rate.depth for",
            "return min(rate.depth for",
        ),
        ("cost: reading back is free", "(back, reads)):", "(back[:0], 0)):"),
    ),
    *mutants(
        _FG + "dist/features/fetch_plan.py",
        "dist/features/test_exchange.py",
        (
            "rounds: a full round is cut early",
            "if held + rows > staging and step > first:",
            "if held + rows >= staging and step > first:",
        ),
        (
            "rounds: a step of exactly the staging is cut",
            "if rows <= staging:",
            "if rows < staging:",
        ),
        ("rounds: the last is never done", "skip + staging >= rows", "skip + staging > rows"),
        (
            "exchange: own rows cross too",
            "own = (rows >= low) & (rows < high)",
            "own = (rows > low) & (rows < high)",
        ),
    ),
    *mutants(
        _FG + "dist/features/fetch_plan.py",
        "dist/features/test_exchange.py::test_what_the_next_bulk_needs_stays",
        (
            "exchange: the look-ahead is forgotten",
            "core = self._core.plan(wanted, later)",
            "core = self._core.plan(wanted, [])",
        ),
    ),
    *mutants(
        _FG + "dist/transport/ledger.py",
        "dist/transport/test_ledger.py",
        (
            "ledger: rows handed to oneself are counted",
            "if destination == self.rank or nbytes == 0:",
            "if nbytes == 0:",
        ),
        (
            "ledger: empty messages are counted",
            "if destination == self.rank or nbytes == 0:",
            "if destination == self.rank:",
        ),
        (
            "ledger: what both tables have is not summed",
            "Entry(before.bytes + entry.bytes, before.messages + entry.messages)",
            "entry",
        ),
    ),
    *mutants(
        _FG + "pipeline/passes/chunkwise.py",
        _ABREAST,
        (
            "history: rows of the own tick are stale",
            "fresh = place <= now",
            "fresh = place < now",
        ),
    ),
    *mutants(
        _FG + "pipeline/passes/chunkwise.py",
        "pipeline/passes/test_passes.py pipeline/test_full_graph.py",
        ("history: never renewed", "rows.fresh, rows.history = rows.history, rows.fresh", "pass"),
        (
            "history: gradients of the last epoch are added",
            "            rows.adjoint.zero_()",
            "            pass",
        ),
    ),
    *mutants(
        _FG + "pipeline/engine.py",
        "pipeline/passes/test_passes.py pipeline/test_full_graph.py",
        (
            "history: renewed in every epoch",
            "if (epoch + 1) % self.techniques.refresh == 0:",
            "if True:",
        ),
        (
            "history: staleness measured against other dropout",
            "if drawn is None or drawn == epoch:",
            "if True:",
        ),
        (
            "pipeline: NaN gradients pass",
            "if p.grad is not None and not bool(torch.isfinite(p.grad).all())",
            "if False",
        ),
    ),
    *mutants(
        _FG + "pipeline/passes/aggregation.py",
        _ABREAST,
        (
            "history: gradients are pushed to history",
            "            theirs, others = theirs[self.fresh], others[self.fresh]",
            "            pass",
        ),
    ),
    *mutants(
        _FG + "pipeline/passes/aggregation.py",
        "pipeline/passes/test_passes.py pipeline/test_full_graph.py",
        ("history: the factor is left out", "theirs = theirs * self._factors(theirs)", "pass"),
    ),
    *mutants(
        _FG + "train/checkpoints/checkpoint.py",
        "train/runs/test_run.py",
        (
            "resume: the checksum is not compared",
            "if _checksum(text, tensors) != checksum:",
            "if not checksum:",
        ),
        (
            "resume: random numbers of torch are not restored",
            '    torch.set_rng_state(state["torch"])\n',
            "",
        ),
        ("resume: the oldest checkpoint", "sorted(names, reverse=True)]", "sorted(names)]"),
    ),
    *mutants(
        _FG + "train/runs/run.py",
        "dist/runs/test_train_command.py",
        ("ranks: all drop the same values out", "_BETWEEN_RANKS = 1_000_003", "_BETWEEN_RANKS = 0"),
    ),
]
