#include "sampling/typed/typed_sample.hpp"

#include <algorithm>
#include <limits>

#include "parallel/pool.hpp"
#include "sampling/links/excluding_draw.hpp"
#include "sampling/nodewise/draws.hpp"
#include "sampling/nodewise/labor_draw.hpp"
#include "sampling/typed/prefix_draw.hpp"
#include "sampling/typed/typed_step.hpp"
#include "sampling/typed/typed_team.hpp"

namespace foregather {

template <typename Id>
void TypedWorker<Id>::add_seed(const TypedRule& rule, std::size_t type, std::int64_t seed,
                               std::size_t place, std::size_t given, TypeArrays<Id>& out) {
  if (rule.trees) {
    const auto tree = static_cast<std::uint32_t>(keys_.size());
    const std::uint32_t id = paired_[type].insert(tree, seed);
    out.node[id] = static_cast<Id>(seed);
    out.tree[id] = tree;
    return;
  }
  const std::int64_t before = plain_[type].known();
  const std::uint32_t id = plain_[type].insert(seed);
  if (id < before && out.seed_position.empty()) {  // the first repeat: all before were in order
    out.seed_position.resize(given);
    for (std::size_t j = 0; j < place; ++j) out.seed_position[j] = static_cast<std::int64_t>(j);
  }
  out.node[id] = static_cast<Id>(seed);
  if (!out.seed_position.empty()) out.seed_position[place] = id;
}

// Empties the tables and the arrays for a batch of `trees` trees.
template <typename Id>
void TypedWorker<Id>::reset(const TypedGraph<Id>& graph, const TypedRule& rule, std::int64_t trees,
                            TypedArrays<Id>& out) {
  const std::size_t types = graph.num_nodes.size();
  plain_.resize(types);
  paired_.resize(types);
  out.types.resize(types);
  out.relations.resize(graph.relations.size());
  out.in_trees = rule.trees;
  for (std::size_t type = 0; type < types; ++type) {
    if (rule.trees) {
      paired_[type].begin(graph.num_nodes[type], trees);
    } else {
      plain_[type].begin(graph.num_nodes[type]);
    }
    out.types[type].num_nodes.clear();
    out.types[type].seed_position.clear();
    out.types[type].node.reserve(1);  // an array, however empty, is somewhere
    out.types[type].tree.reserve(1);
  }
  for (RelationArrays& edges : out.relations) {
    edges.num_edges.clear();
    edges.count = 0;
    edges.weighted = rule.labor && rule.weight != LaborWeight::kNone;
    edges.make_room(1, 0);
  }
  keys_.clear();
  times_.clear();
}

// Begins a batch: its seeds are its first nodes, each with the key and the time of its tree.
template <typename Id>
void TypedWorker<Id>::start(const TypedGraph<Id>& graph, const TypedRule& rule,
                            std::span<const TypedSeeds> seeds, std::size_t index,
                            std::uint64_t seed, std::uint64_t epoch, std::uint64_t batch,
                            TypedArrays<Id>& out) {
  std::int64_t trees = 0;
  for (const TypedSeeds& group : seeds) trees += group.ptr[index + 1] - group.ptr[index];
  reset(graph, rule, trees, out);
  for (const TypedSeeds& group : seeds) {
    const auto first = static_cast<std::size_t>(group.ptr[index]),
               last = static_cast<std::size_t>(group.ptr[index + 1]);
    TypeArrays<Id>& own = out.types[group.type];
    own.node.reserve(last - first + 1);
    if (rule.trees) {
      own.tree.reserve(last - first + 1);
      paired_[group.type].make_room(static_cast<std::int64_t>(last - first));
    }
    for (std::size_t s = first; s < last; ++s) {
      check_seed(s - first, group.seeds[s], graph.num_nodes[group.type]);
      add_seed(rule, group.type, group.seeds[s], s - first, last - first, own);
      if (!rule.trees) continue;
      keys_.push_back(batch_key(seed, epoch, static_cast<std::uint64_t>(group.rows[s])));
      times_.push_back(group.times.empty() ? std::numeric_limits<std::int64_t>::max()
                                           : group.times[s]);
    }
  }
  if (!rule.trees) keys_.push_back(batch_key(seed, epoch, batch));
  for (std::size_t type = 0; type < out.types.size(); ++type) {
    out.types[type].num_nodes.push_back(known(rule, type));
  }
}

// Makes ready the step of a relation in a layer; returns whether there is anything to expand.
template <typename Id>
bool TypedWorker<Id>::set(TypedStep<Id>& step, const TypedGraph<Id>& graph, const TypedRule& rule,
                          std::size_t relation, std::size_t layer, Span rows,
                          const TypedArrays<Id>& out) {
  const TypedRelation<Id>& own = graph.relations[relation];
  step.relation = &own;
  step.number = relation;
  step.fanout = own.fanouts[layer];
  step.first = rows.first;
  step.last = rows.last;
  step.before = out.relations[relation].count;
  step.timed = !own.time.empty() && !times_.empty();
  step.cut = -1;
  if (rule.last && step.timed) std::swap(step.cut, step.fanout);
  if (own.fanouts[layer] == 0 || rows.first == rows.last) return false;
  step.start.reserve(static_cast<std::size_t>(rows.last - rows.first));
  step.degree.reserve(static_cast<std::size_t>(rows.last - rows.first));
  step.excluded = leaves_out(rule, relation, own.target, rows) ? &excluded_[relation] : nullptr;
  return true;
}

// Whether any of these rows of a relation leaves an edge out.
template <typename Id>
bool TypedWorker<Id>::leaves_out(const TypedRule& rule, std::size_t relation, std::size_t target,
                                 Span rows) {
  if (excluded_.empty() || excluded_[relation].empty()) return false;
  return excluded_[relation].place(rows.first, rows.last, [&](std::int64_t tree, std::int64_t v) {
    return rule.trees ? paired_[target].find(static_cast<std::uint32_t>(tree), v)
                      : plain_[target].find(v);
  });
}

// Calls use(draw) with the Draw of a step, which draws under `key` and with the scratch of this
// thread.
template <typename Id>
template <typename Use>
void TypedWorker<Id>::with_draw(const TypedGraph<Id>& graph, const TypedRule& rule,
                                const TypedStep<Id>& step, std::uint64_t key, const Use& use) {
  const TypedRelation<Id>& own = *step.relation;
  const auto apply = [&]<typename Draw>(Draw& draw) {
    if (step.excluded == nullptr) return use(draw);
    ExcludingDraw<Id, Draw> excluding{draw, step.excluded};
    use(excluding);
  };
  if (rule.labor) {
    LaborDraw<Id> draw{rule.weight,
                       own.values,
                       step.fanout,
                       SharedDraw(key),
                       own.graph.indices.data(),
                       best_sweep<Id>(graph.num_nodes[own.source]),
                       weights_};
    return apply(draw);
  }
  if (step.fanout > 0) picks_.reserve(static_cast<std::size_t>(step.fanout));
  const Fanout fanout{step.fanout, rule.replace, key, picks_.data(), scratch_};
  if (own.weights.cells.empty() || (rule.last && step.timed)) {
    UniformDraw<Id> draw{fanout};
    apply(draw);
  } else if (!step.timed) {
    WeightedDraw<Id> draw{fanout, own.weights};
    apply(draw);
  } else {
    PrefixDraw<Id> draw{fanout, own.weights, own.graph.indptr.data()};
    apply(draw);
  }
}

template <typename Id>
template <bool kTrees>
void TypedWorker<Id>::expand(const TypedGraph<Id>& graph, const TypedRule& rule, std::size_t layer,
                             std::span<const Span> frontier, TypedArrays<Id>& out) {
  TypedStep<Id>& step = steps_[0];
  for (std::size_t r = 0; r < graph.relations.size(); ++r) {
    if (!set(step, graph, rule, r, layer, frontier[graph.relations[r].target], out)) continue;
    with_draw(graph, rule, step, relation_key(layers_[0], r),
              [&](auto& draw) { run<kTrees>(step, draw, out); });
  }
}

// All edges between the vertices of the minibatch, for the relations that were sampled.
template <typename Id>
void TypedWorker<Id>::induce(const TypedGraph<Id>& graph, const TypedRule& rule,
                             std::span<const ExcludedEdges> excluded, std::size_t index,
                             TypedArrays<Id>& out) {
  for (std::size_t r = 0; r < graph.relations.size(); ++r) {
    const TypedRelation<Id>& relation = graph.relations[r];
    const TypeArrays<Id>& target = out.types[relation.target];
    RelationArrays& edges = out.relations[r];
    edges.count = 0;
    const Span rows{0, relation.used() ? known(rule, relation.target) : 0};
    const UniformDraw<Id> all{{-1, false, 0, nullptr, scratch_}};
    TypedStep<Id>& step = steps_[0];
    step.relation = &relation;
    step.first = 0;
    step.cut = -1;
    step.timed = !relation.time.empty() && !times_.empty();
    step.start.reserve(static_cast<std::size_t>(rows.last));
    step.degree.reserve(static_cast<std::size_t>(rows.last));
    step.excluded = nullptr;
    if (!excluded_.empty()) {
      excluded_[r].begin(excluded[r], index, relation.graph);  // layers have forgotten their rows
      if (leaves_out(rule, r, relation.target, rows)) step.excluded = &excluded_[r];
    }
    find_rows(step, rows, all, target);
    for (std::int64_t i = rows.first; i < rows.last; ++i) {
      const FrontierRow<Id> own = step.row(i, target);
      edges.make_room(edges.count + own.degree, edges.count);
      std::span<const std::int64_t> gaps;
      if (step.excluded != nullptr) gaps = step.excluded->of(own);
      for (std::int64_t e = own.begin; e < own.begin + own.degree; ++e) {
        if (!gaps.empty() && std::binary_search(gaps.begin(), gaps.end(), e)) continue;
        const auto v =
            static_cast<std::int64_t>(relation.graph.indices[static_cast<std::size_t>(e)]);
        const std::uint32_t id =
            rule.trees ? paired_[relation.source].find(target.tree[static_cast<std::size_t>(i)], v)
                       : plain_[relation.source].find(v);
        if (id == Relabel::kNone) continue;
        const auto at = static_cast<std::size_t>(edges.count++);
        edges.row[at] = id;
        edges.col[at] = static_cast<std::uint32_t>(i);
        edges.edge[at] = e;
      }
    }
    edges.num_edges = {edges.count};
  }
}

template <typename Id>
void TypedWorker<Id>::sample(const TypedGraph<Id>& graph, const TypedRule& rule,
                             std::span<const TypedSeeds> seeds, std::size_t index,
                             std::uint64_t seed, std::uint64_t epoch, std::uint64_t batch,
                             TypedArrays<Id>& out, std::span<TypedWorker> team,
                             std::span<const ExcludedEdges> excluded) {
  start(graph, rule, seeds, index, seed, epoch, batch, out);
  excluded_.resize(excluded.size());
  for (std::size_t r = 0; r < excluded.size(); ++r) {
    excluded_[r].begin(excluded[r], index, graph.relations[r].graph);
  }
  const std::size_t types = graph.num_nodes.size();
  // How many edges LABOR takes of a row is not known before, so a team could not place them.
  const bool alone = team.size() < 2 || rule.labor;
  if (steps_.empty()) steps_.resize(1);
  std::vector<Span> frontier(types);
  std::vector<std::int64_t> before(graph.relations.size());
  for (std::size_t layer = 0; layer < rule.layers; ++layer) {
    for (std::size_t t = 0; t < types; ++t) frontier[t].last = known(rule, t);
    for (std::size_t r = 0; r < before.size(); ++r) before[r] = out.relations[r].count;
    layers_.clear();
    for (const std::uint64_t key : keys_) {
      layers_.push_back(layer_key(key, rule.same ? 0 : layer));
    }
    if (layers_.empty()) layers_.push_back(0);  // no trees: nothing is drawn
    if (rule.trees && alone) {
      expand<true>(graph, rule, layer, frontier, out);
    } else if (alone) {
      expand<false>(graph, rule, layer, frontier, out);
    } else if (rule.trees) {
      expand_by_team<true>(graph, rule, layer, frontier, team, out);
    } else {
      expand_by_team<false>(graph, rule, layer, frontier, team, out);
    }
    for (std::size_t r = 0; r < before.size(); ++r) {
      out.relations[r].num_edges.push_back(out.relations[r].count - before[r]);
    }
    for (std::size_t t = 0; t < types; ++t) {
      out.types[t].num_nodes.push_back(known(rule, t));
      frontier[t].first = frontier[t].last;
    }
  }
  if (rule.induced) induce(graph, rule, excluded, index, out);
}

template <typename Id>
std::size_t TypedWorker<Id>::bytes() const {
  std::size_t total = picks_.bytes();
  for (const TypedStep<Id>& step : steps_) total += step.bytes();
  for (const ExcludedRows& rows : excluded_) total += rows.bytes();
  for (const Relabel& table : plain_) total += table.bytes();
  for (const TreeNumbers& table : paired_) total += table.bytes();
  return total;
}

template <typename Id>
void sample_typed(const TypedGraph<Id>& graph, const TypedRule& rule,
                  std::span<const TypedSeeds> seeds, std::uint64_t seed, std::uint64_t epoch,
                  std::uint64_t first_batch, int threads, std::span<TypedWorker<Id>> workers,
                  std::span<TypedArrays<Id>* const> out, std::span<const ExcludedEdges> excluded) {
  check_groups(seeds, graph.num_nodes.size(), out.size());
  if (!excluded.empty() && excluded.size() != graph.relations.size()) {
    throw InputError("what is left out is not given for each relation");
  }
  for (const ExcludedEdges& own : excluded) own.check(out.size());
  for (const TypedSeeds& group : seeds) {
    if (rule.trees && group.rows.size() != group.seeds.size()) {
      throw InputError("rows does not have an entry for each seed");
    }
    if (!group.times.empty() && group.times.size() != group.seeds.size()) {
      throw InputError("times does not have an entry for each seed");
    }
  }
  const auto all = static_cast<std::size_t>(threads);
  const std::size_t team = std::max<std::size_t>(1, all / std::max<std::size_t>(1, out.size()));
  parallel_tasks(static_cast<std::int64_t>(out.size()), threads, [&](std::int64_t i, int thread) {
    const auto k = static_cast<std::size_t>(i);
    const auto own = workers.subspan(static_cast<std::size_t>(thread) * team, team);
    own[0].sample(graph, rule, seeds, k, seed, epoch, first_batch + k, *out[k], own, excluded);
  });
}

#define FOREGATHER_TYPED(Id)                                                                       \
  template class TypedWorker<Id>;                                                                  \
  template void sample_typed(const TypedGraph<Id>&, const TypedRule&, std::span<const TypedSeeds>, \
                             std::uint64_t, std::uint64_t, std::uint64_t, int,                     \
                             std::span<TypedWorker<Id>>, std::span<TypedArrays<Id>* const>,        \
                             std::span<const ExcludedEdges>);
FOREGATHER_TYPED(std::uint32_t)
FOREGATHER_TYPED(std::int64_t)
#undef FOREGATHER_TYPED

}  // namespace foregather
