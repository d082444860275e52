#include "sampling/typed/hgt_sample.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "parallel/pool.hpp"
#include "sampling/keys.hpp"

namespace foregather {
namespace {

constexpr int kUnit = 40;  // bits of a budget of 1
// Of a minibatch: no row adds more than 1 to a budget, so sums fit 62 bits.
constexpr std::int64_t kMostRows = std::int64_t{1} << 22;
constexpr std::int64_t kAhead = 16;  // ids ahead whose entries in the tables are asked for

struct Row {
  std::int64_t begin, end;
};

template <typename Id>
Row row_of(const Topology<Id>& graph, std::int64_t v) {
  const auto at = static_cast<std::size_t>(v);
  return {graph.indptr[at], graph.indptr[at + 1]};
}

}  // namespace

template <typename Id>
void HgtWorker<Id>::start(const TypedGraph<Id>& graph, std::span<const TypedSeeds> seeds,
                          std::size_t index, TypedArrays<Id>& out) {
  const std::size_t types = graph.num_nodes.size();
  local_.resize(types);
  open_.resize(types);
  budgets_.resize(types);
  out.types.resize(types);
  out.relations.resize(graph.relations.size());
  out.in_trees = false;
  rows_ = 0;
  for (std::size_t type = 0; type < types; ++type) {
    local_[type].begin(graph.num_nodes[type]);
    open_[type].begin(graph.num_nodes[type]);
    budgets_[type].clear();
    out.types[type].num_nodes.clear();
    out.types[type].seed_position.clear();
    out.types[type].node.reserve(1);  // an array, however empty, is somewhere
  }
  for (const TypedSeeds& group : seeds) {
    const auto first = static_cast<std::size_t>(group.ptr[index]),
               last = static_cast<std::size_t>(group.ptr[index + 1]);
    TypeArrays<Id>& own = out.types[group.type];
    Relabel& local = local_[group.type];
    own.node.reserve(last - first + 1);
    std::vector<std::int64_t> places;
    for (std::size_t s = first; s < last; ++s) {
      check_seed(s - first, group.seeds[s], graph.num_nodes[group.type]);
      const std::uint32_t id = local.insert(group.seeds[s]);
      own.node[id] = static_cast<Id>(group.seeds[s]);
      places.push_back(id);
    }
    if (static_cast<std::size_t>(local.known()) < places.size()) own.seed_position = places;
  }
  for (std::size_t type = 0; type < types; ++type) {
    out.types[type].num_nodes.push_back(local_[type].known());
  }
}

// Adds to the budgets of those that have edges into vertices with local ids from first[type] on.
template <typename Id>
void HgtWorker<Id>::spread(const TypedGraph<Id>& graph, std::span<const std::int64_t> first,
                           const TypedArrays<Id>& out) {
  for (const TypedRelation<Id>& relation : graph.relations) {
    const TypeArrays<Id>& target = out.types[relation.target];
    const Id* indices = relation.graph.indices.data();
    const Relabel& local = local_[relation.source];
    Relabel& open = open_[relation.source];
    std::vector<Budget>& budgets = budgets_[relation.source];
    const std::int64_t last = local_[relation.target].known();
    rows_ += last - first[relation.target];
    if (rows_ > kMostRows) {
      throw InputError(
          "a minibatch reads " + std::to_string(rows_) + " rows, more than " +
          std::to_string(kMostRows) +
          ", above which budgets are not exact; take smaller batches or fewer samples");
    }
    for (std::int64_t i = first[relation.target]; i < last; ++i) {
      const auto [begin, end] = row_of(
          relation.graph, static_cast<std::int64_t>(target.node[static_cast<std::size_t>(i)]));
      const std::int64_t units = std::max<std::int64_t>(
          1, (std::int64_t{1} << kUnit) / std::max<std::int64_t>(1, end - begin));
      for (std::int64_t e = begin; e < end; ++e) {
        if (e + kAhead < end) {
          local.prefetch(static_cast<std::int64_t>(indices[e + kAhead]));
          open.prefetch(static_cast<std::int64_t>(indices[e + kAhead]));
        }
        const auto v = static_cast<std::int64_t>(indices[e]);
        if (local.find(v) != Relabel::kNone) continue;
        const std::uint32_t place = open.insert(v);
        if (place == budgets.size()) budgets.push_back({v, 0});
        budgets[place].units += units;
      }
    }
  }
}

// Takes vertices of a type, in ascending order.
template <typename Id>
void HgtWorker<Id>::take(std::size_t type, std::int64_t number, std::uint64_t key,
                         TypeArrays<Id>& out) {
  std::vector<Budget>& budgets = budgets_[type];
  if (number == 0 || budgets.empty()) return;
  const auto weight = [&](std::int64_t i) {
    const double units =
        static_cast<double>(budgets[static_cast<std::size_t>(i)].units) * 0x1.0p-40;
    return units * units;
  };
  const auto count = static_cast<std::int64_t>(budgets.size());
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) total += weight(i);
  detail::choose(
      count, [&](std::int64_t i) { return budgets[static_cast<std::size_t>(i)].node; }, weight,
      total, key, number, found_);
  std::sort(found_.begin(), found_.end(),
            [](const auto& a, const auto& b) { return a.tie < b.tie; });
  const std::int64_t known = local_[type].known();
  const std::int64_t all = known + static_cast<std::int64_t>(found_.size());
  local_[type].require_room(all);
  out.node.reserve(static_cast<std::size_t>(all) + 1, static_cast<std::size_t>(known));
  for (const detail::Candidate& one : found_) {
    out.node[local_[type].insert(one.tie)] = static_cast<Id>(one.tie);
    budgets[static_cast<std::size_t>(one.place)].units = 0;
  }
}

// All edges between the vertices of the minibatch.
template <typename Id>
void HgtWorker<Id>::induce(const TypedGraph<Id>& graph, TypedArrays<Id>& out) {
  for (std::size_t r = 0; r < graph.relations.size(); ++r) {
    const TypedRelation<Id>& relation = graph.relations[r];
    const TypeArrays<Id>& target = out.types[relation.target];
    const Relabel& local = local_[relation.source];
    const Id* indices = relation.graph.indices.data();
    RelationArrays& edges = out.relations[r];
    edges.weighted = false;
    edges.count = 0;
    edges.make_room(1, 0);
    for (std::int64_t i = 0; i < local_[relation.target].known(); ++i) {
      const auto [begin, end] = row_of(
          relation.graph, static_cast<std::int64_t>(target.node[static_cast<std::size_t>(i)]));
      edges.make_room(edges.count + (end - begin) + 1, edges.count);
      for (std::int64_t e = begin; e < end; ++e) {
        if (e + kAhead < end) local.prefetch(static_cast<std::int64_t>(indices[e + kAhead]));
        const std::uint32_t id = local.find(static_cast<std::int64_t>(indices[e]));
        const auto at = static_cast<std::size_t>(edges.count);
        edges.row[at] = id;  // stays only if it was taken
        edges.col[at] = static_cast<std::uint32_t>(i);
        edges.edge[at] = e;
        edges.count += id != Relabel::kNone ? 1 : 0;
      }
    }
    edges.num_edges = {edges.count};
  }
}

template <typename Id>
void HgtWorker<Id>::sample(const TypedGraph<Id>& graph, const HgtRule& rule,
                           std::span<const TypedSeeds> seeds, std::size_t index, std::uint64_t key,
                           TypedArrays<Id>& out) {
  start(graph, seeds, index, out);
  const std::size_t types = graph.num_nodes.size();
  std::vector<std::int64_t> first(types, 0);
  for (std::size_t layer = 0; layer < rule.layers; ++layer) {
    spread(graph, first, out);
    for (std::size_t type = 0; type < types; ++type) first[type] = local_[type].known();
    for (std::size_t type = 0; type < types; ++type) {
      const std::array<std::uint64_t, 2> words{layer_key(key, layer), type};
      take(type, rule.numbers[type][layer], fold_key(words), out.types[type]);
      out.types[type].num_nodes.push_back(local_[type].known());
    }
  }
  induce(graph, out);
}

template <typename Id>
std::size_t HgtWorker<Id>::bytes() const {
  std::size_t total = 0;
  for (const Relabel& table : local_) total += table.bytes();
  for (const Relabel& table : open_) total += table.bytes();
  for (const auto& own : budgets_) total += own.capacity() * sizeof(Budget);
  return total;
}

template <typename Id>
void sample_hgt(const TypedGraph<Id>& graph, const HgtRule& rule, std::span<const TypedSeeds> seeds,
                std::uint64_t seed, std::uint64_t epoch, std::uint64_t first_batch, int threads,
                std::span<HgtWorker<Id>> workers, std::span<TypedArrays<Id>* const> out) {
  check_groups(seeds, graph.num_nodes.size(), out.size());
  if (rule.numbers.size() != graph.num_nodes.size()) throw InputError("numbers lack a type");
  for (const auto& own : rule.numbers) {
    if (own.size() != rule.layers) throw InputError("numbers lack a layer");
  }
  parallel_tasks(static_cast<std::int64_t>(out.size()), threads, [&](std::int64_t i, int thread) {
    const auto k = static_cast<std::size_t>(i);
    workers[static_cast<std::size_t>(thread)].sample(
        graph, rule, seeds, k, batch_key(seed, epoch, first_batch + k), *out[k]);
  });
}

#define FOREGATHER_HGT(Id)                                                                     \
  template class HgtWorker<Id>;                                                                \
  template void sample_hgt(const TypedGraph<Id>&, const HgtRule&, std::span<const TypedSeeds>, \
                           std::uint64_t, std::uint64_t, std::uint64_t, int,                   \
                           std::span<HgtWorker<Id>>, std::span<TypedArrays<Id>* const>);
FOREGATHER_HGT(std::uint32_t)
FOREGATHER_HGT(std::int64_t)
#undef FOREGATHER_HGT

}  // namespace foregather
