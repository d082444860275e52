"""Bugs to plant in the C++ core: keys, picks, weights, samplers, plans, bounds."""

from tests.mutants.mutant import mutants

_PICKS = "sampling/test_neighbor.py sampling/test_neighbor_statistics.py sampling/test_reference.py"
_WEIGHTS = "sampling/test_weighted.py sampling/test_weighted_statistics.py"
_PLANS = "plan/test_planner.py"
_TYPED = "sampling/hetero/test_hetero_neighbor.py sampling/hetero/test_hetero_statistics.py"

CORE = [
    *mutants(
        "csrc/sampling/keys.hpp",
        _PICKS,
        ("keys: layers share their draws", "return derive(batch, layer);", "return batch;"),
        ("keys: epochs share their draws", "purpose)), epoch);", "purpose)), 0);"),
        (
            "keys: batches share their draws",
            "Purpose::kSample, epoch), batch);",
            "Purpose::kSample, epoch), 0);",
        ),
        ("keys: all vertices share their draws", "derive(layer, vertex);", "derive(layer, 0);"),
    ),
    *mutants(
        "csrc/sampling/keys.hpp",
        _TYPED,
        ("keys: relations share their draws", "relation == 0 ? layer : ", "true ? layer : "),
        ("keys: relation 0 has a key of its own", "relation == 0 ? layer : ", ""),
    ),
    *mutants(
        "csrc/sampling/typed/prefix.hpp",
        _TYPED,
        ("typed: an edge at the seed's time is too late", "[base[k]] <= rows", "[base[k]] < rows"),
        ("typed: bisection stops a step early", "longest > 1;", "longest > 2;"),
    ),
    *mutants(
        "csrc/sampling/typed/typed_step.hpp",
        _TYPED,
        (
            "typed: a tree sees the time of another",
            "block[k] = {step.start[at + k], times_[tree], step.degree[at + k]};",
            "block[k] = {step.start[at + k], times_[tree / 2], step.degree[at + k]};",
        ),
        (
            "typed: last takes the first",
            "      step.start[at] += passed;\n",
            "",
        ),
    ),
    *mutants(
        "csrc/sampling/typed/typed_sample.hpp",
        _TYPED,
        (
            "typed: trees draw under the first one's key",
            "relation_key(layers_[target.tree[static_cast<std::size_t>(i)]], step.number);",
            "relation_key(layers_[0 * target.tree[static_cast<std::size_t>(i)]], step.number);",
        ),
    ),
    *mutants(
        "csrc/sampling/typed/tree_numbers.hpp",
        _TYPED,
        ("typed: trees share nodes", "return tree * nodes_ + ", "return (tree & ~1u) * nodes_ + "),
    ),
    *mutants(
        "csrc/sampling/picking/part_pick.hpp",
        _TYPED,
        ("typed: draws that come to a later edge stay", "at >= part.length || ", ""),
        (
            "typed: a node drawn before is drawn again",
            "if (!replace) refused[at / 64] |= bit;",
            "",
        ),
        (
            "typed: a short prefix is drawn from as its row",
            "part.length - part.gaps.size() <= kShortRow",
            "part.length == 0",
        ),
    ),
    *mutants(
        "csrc/sampling/typed/typed_sample.cpp",
        _TYPED,
        (
            "typed: a layer expands what it found itself",
            "  for (std::size_t r = 0; r < graph.relations.size(); ++r) {\n"
            "    if (!set(step, graph, rule, r, layer, frontier[graph.relations[r].target], out)) "
            "continue;",
            "  for (std::size_t r = 0; r < graph.relations.size(); ++r) {\n"
            "    Span rows = frontier[graph.relations[r].target];\n"
            "    rows.last = known(rule, graph.relations[r].target);\n"
            "    if (!set(step, graph, rule, r, layer, rows, out)) continue;",
        ),
    ),
    *mutants(
        "csrc/base/random.hpp",
        "sampling/subgraphs/test_saint.py sampling/test_edges_of_draws.py",
        (
            "random: rejection left out",
            "uint32_t>(product);\n  if (low < range) {",
            "uint32_t>(product);\n  if (false) {",
        ),
        ("random: unit from 52 bits", "(bits >> 11) * 0x1.0p-53", "(bits >> 12) * 0x1.0p-52"),
    ),
    *mutants(
        "csrc/sampling/picking/pick.hpp",
        _PICKS,
        (
            "picks: a draw taken twice is not replaced (word)",
            "taken |= (taken & bit) != 0 ? std::uint64_t{1} << last : bit;",
            "taken |= bit;",
        ),
        (
            "picks: few, the range is one too small",
            "    drawn[slot] = bounded(key, slot, last + 1);\n  }\n  if (rank",
            "    drawn[slot] = bounded(key, slot, last);\n  }\n  if (rank",
        ),
        (
            "picks: many, the bitmap is left dirty",
            "for (std::uint32_t slot = 0; slot < count; ++slot) scratch[out[slot] / 64] = 0;",
            "",
        ),
        (
            "picks: with replacement not in order",
            "bounded(key, slot, degree);\n  detail::sort_even(out, count, degree);",
            "bounded(key, slot, degree);",
        ),
    ),
    *mutants(
        "csrc/sampling/picking/short_row.hpp",
        _WEIGHTS,
        ("short rows: tiny weights get no unit", "std::max<std::int32_t>(1, units)", "units"),
        (
            "short rows: taken entries stay in the sum",
            "    left -= own;\n  }\n  return upto;",
            "  }\n  return upto;",
        ),
        ("short rows: zero weights get a unit", "if (w > 0) sum += std::max", "sum += std::max"),
    ),
    *mutants(
        "csrc/sampling/picking/alias.cpp",
        _WEIGHTS,
        (
            "alias: guard for weights of zero left out",
            "cells[i] = {0, weights[i] > 0 ? i : static_cast<std::uint32_t>(heaviest)};",
            "cells[i] = {0, i};",
            # The parts of n cells sum to n, but for the rounding of a sum of n (n + 3 times 2^-53
            # of n at most) and of n steps that each round a part of at most n: 2 n (n + 2) 2^-53.
            # A zero's part stays 0 and any other left over is below 1, so m cells that are left
            # with a zero among them hold at most m - 1: a whole cell is missing.
            "a zero is left over only if rounding loses a whole cell: a row of n entries loses at "
            "most 2 n (n + 2) 2^-53 of one, so no row of fewer than 60 million does",
        ),
        (
            "alias: the rest of a cell is given away twice",
            "part[greater] = (part[greater] + part[lesser]) - 1;",
            "part[greater] = part[greater] - 1;",
        ),
        (
            "alias: negative weights accepted",
            "if (!(w >= 0 && std::isfinite(w))) {",
            "if (!std::isfinite(w)) {",
        ),
        ("alias: NaN weights accepted", "if (!(w >= 0 && std::isfinite(w))) {", "if (w < 0) {"),
    ),
    *mutants(
        "csrc/sampling/picking/choose.hpp",
        "sampling/test_matrix.py sampling/test_edges_of_draws.py sampling/test_layerwise.py",
        (
            "choose: ties by place, not by vertex",
            "if (tie != other.tie) return tie < other.tie;",
            "",
        ),
        (
            "choose: the margin of rounding is gone",
            "bound_(limit * (1 + 0x1.0p-40))",
            "bound_(limit * (1 - 0x1.0p-6))",
        ),
        (
            "choose: tau is the largest chosen, not the next",
            "tau = found[s].key;",
            "tau = found[s > 0 ? s - 1 : 0].key;",
        ),
        ("choose: one more than asked", "found.resize(s);", "found.resize(s + 1);"),
    ),
    *mutants(
        "csrc/sampling/layerwise/layerwise_step.hpp",
        "sampling/test_layerwise.py",
        (
            "layer-wise: weights are not divided by inclusion",
            "return inclusion(p * tau);",
            "return 1.0;",
        ),
        (
            "layer-wise: probabilities by value, not by square",
            "const std::int64_t units = fixed(w * w);",
            "const std::int64_t units = fixed(w);",
        ),
        (
            "layer-wise: reference weights not normalised",
            "rule_.debias == Debias::kReference && sum != 0 ? sum : 1;",
            "1;",
        ),
    ),
    *mutants(
        "csrc/sampling/layerwise/layerwise_worker.hpp",
        "sampling/test_layerwise.py",
        ("layer-wise: all layers share a key", "layer_key(batch, layer),", "layer_key(batch, 0),"),
    ),
    *mutants(
        "csrc/sampling/nodewise/labor_draw.hpp",
        "sampling/test_labor.py",
        (
            "labor: a vertex at the limit is taken",
            "next += shared.low(static_cast<std::uint32_t>(ids[p])) < limit;",
            "next += shared.low(static_cast<std::uint32_t>(ids[p])) <= limit;",
        ),
        (
            "labor: weights forget the chance",
            "1.0 / static_cast<double>(row.degree) / chance;",
            "1.0 / static_cast<double>(row.degree);",
        ),
    ),
    *mutants(
        "csrc/sampling/nodewise/labor.cpp",
        "sampling/test_labor.py",
        ("labor: layers differ where they should share", "rule.same ? 0 : layer", "layer"),
    ),
    *mutants(
        "csrc/sampling/nodewise/trees.hpp",
        "sampling/test_trees.py",
        (
            "trees: keyed by their place in the minibatch, not by input row",
            "static_cast<std::uint64_t>(rows[s]), trees.one());",
            "s - first, trees.one());",
        ),
        (
            "trees: targets keep the numbers of their own tree",
            "out.col[at] = moved_[all_.col[from]];",
            "out.col[at] = all_.col[from];",
        ),
        (
            "trees: weights stay in the order of trees",
            "std::copy_n(all_.weight.data() + edge, count, out.weight.data() + to);",
            "std::copy_n(all_.weight.data() + edge, count, out.weight.data() + edge);",
        ),
        (
            "trees: nodes of later layers belong to the first tree",
            "count, static_cast<std::uint32_t>(tree));",
            "count, i % parts == 0 ? static_cast<std::uint32_t>(tree) : 0u);",
        ),
        (
            "trees: edge counts of the minibatch before stay",
            "    fresh_.clear();\n    spans_.clear();\n",
            "    fresh_.clear();\n",
        ),
        (
            "trees: positions of seeds stay from a plain minibatch",
            "  out.seed_position.clear();\n",
            "",
        ),
    ),
    *mutants(
        "csrc/sampling/walk.cpp",
        "sampling/subgraphs/test_walk.py sampling/subgraphs/test_saint.py",
        (
            "walk: walkers of one start walk together",
            "static_cast<std::uint64_t>(starts[i]), i,",
            "static_cast<std::uint64_t>(starts[i]), 0,",
        ),
        (
            "walk: a dead end goes to node 0",
            "? path[i * stride + step]\n",
            "? static_cast<Id>(0)\n",
        ),
        (
            "walk: parallel edges of long rows once only",
            "for (; at < row + end && *at == v; ++at) {",
            "if (at < row + end && *at == v) {",
        ),
    ),
    *mutants(
        "csrc/sampling/picking/draw.cpp",
        "sampling/subgraphs/test_saint.py",
        (
            "saint: nodes by norm, not by squared norm",
            "          entry * entry;\n    }",
            "          entry;\n    }",
        ),
        (
            "saint: edges by the target's degree only",
            "      total += own + inverse_degree(graph, u);\n    }\n    cumulative[v]",
            "      total += own;\n    }\n    cumulative[v]",
        ),
    ),
    *mutants(
        "csrc/plan/plan_maker.hpp",
        _PLANS + " plan/test_policies.py plan/test_narrow_tables.py",
        ("planner: the look-ahead is not looked at", "look(ahead, batches.size(), false);", ""),
        ("planner: the table is not aged when steps run out", "table_.forget_steps();", ""),
        (
            "planner: uses do not count as popularity",
            "word_of(next, rank - (rank > 0));",
            "word_of(next, rank);",
        ),
        (
            "planner: an evicted row keeps its slot",
            "      slot = buckets_.pop();\n      table_.release(slot);\n",
            "      slot = buckets_.pop();\n",
        ),
        (
            "planner: riders that nobody will use are kept",
            "if (place >= limit() || place >= horizon_ + kRankMask) return false;",
            "if (place >= limit()) return false;",
        ),
        (
            "planner: a row of the same worth replaces another",
            "if (bucket(table_.entry(row)) < limit())",
            "if (bucket(table_.entry(row)) <= limit())",
        ),
        (
            "planner: rows twice in a batch are accepted",
            "if (next == now) repeated(first + t, row);",
            "",
        ),
        (
            "planner: carried rows are forgotten by the bound",
            "if (place < batches.size()) sweep.carry(place);",
            "",
        ),
        (
            "planner: a lost plan leaves its cache",
            "      clear();  // the plan is lost",
            "      // the plan is lost",
        ),
    ),
    *mutants(
        "csrc/plan/buckets.hpp",
        _PLANS,
        (
            "buckets: the highest is not lowered when emptied",
            "if (static_cast<std::int64_t>(bucket) == largest_) largest_ = set_.largest();",
            "if (static_cast<std::int64_t>(bucket) == largest_) --largest_;",
        ),
    ),
    *mutants(
        "csrc/plan/miss.hpp",
        _PLANS + " gather/test_disk.py",
        ("requests: longer than allowed", "if (next_hi - lo > shape_.max_request) break;", ""),
        (
            "requests: gaps merged one byte too far",
            "if (next_lo > hi + shape_.merge_gap) break;",
            "if (next_lo >= hi + shape_.merge_gap + 4096 + 1) break;",
        ),
    ),
    *mutants(
        "csrc/plan/bounds/bound.cpp",
        _PLANS,
        (
            "bound: several rows of a block count apart",
            "    used = 0;  // several rows",
            "    // several rows",
        ),
        (
            "bound: one slot more than there is",
            "while (kept_ > slots_) {",
            "while (kept_ > slots_ + 1) {",
        ),
    ),
    *mutants(
        "csrc/plan/plan.cpp",
        "plan/test_hostile_plan.py",
        ("plan check: output rows written twice", "if (seen_[position]) {", "if (false) {"),
        ("plan check: requests beyond the file", "length > g.file_bytes - offset) {", "false) {"),
    ),
    *mutants(
        "csrc/base/permutation.hpp",
        "loader/test_seeds.py",
        (
            "shuffle: the same in all rounds",
            "keys_[round] = derive(key, round);",
            "keys_[round] = derive(key, 0);",
        ),
    ),
]
