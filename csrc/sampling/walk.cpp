#include "sampling/walk.hpp"

#include <algorithm>
#include <string>

#include "parallel/pool.hpp"
#include "sampling/picking/draw.hpp"

namespace foregather {
namespace {

constexpr std::size_t kAhead = 24;  // walkers, or entries of a row, that are asked for ahead
constexpr std::size_t kLong = 8;    // a row this many times the subgraph is searched, not scanned

[[noreturn]] void refuse(const char* what, std::size_t number, std::int64_t v, std::int64_t n) {
  throw InputError(std::string(what) + " " + std::to_string(number) + " is node " +
                   std::to_string(v) + ", but the graph has " + std::to_string(n) +
                   " nodes (ids are 0 to N-1)");
}

}  // namespace

template <typename Id>
void walk(const Topology<Id>& graph, std::span<const std::int64_t> starts, std::int64_t length,
          std::uint64_t key, std::span<Id> path, Buffer<std::int64_t>& scratch) {
  const std::int64_t n = graph.num_nodes();
  const std::size_t count = starts.size(), stride = static_cast<std::size_t>(length) + 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (starts[i] < 0 || starts[i] >= n) refuse("start", i, starts[i], n);
    path[i * stride] = static_cast<Id>(starts[i]);
  }
  scratch.reserve(count);
  const std::int64_t* indptr = graph.indptr.data();
  for (std::size_t step = 0; step + 1 < stride; ++step) {
    const std::uint64_t layer = layer_key(key, step);
    // Positions first, then what is there: so the misses of all walkers overlap.
    for (std::size_t i = 0; i < count; ++i) {
      if (i + kAhead < count) __builtin_prefetch(&indptr[path[(i + kAhead) * stride + step]]);
      const Id v = path[i * stride + step];
      const std::int64_t begin = indptr[v], degree = indptr[v + 1] - begin;
      if (degree == 0) {
        scratch[i] = -1;
        continue;
      }
      scratch[i] = begin + walk_draw(layer, static_cast<std::uint64_t>(starts[i]), i,
                                     static_cast<std::uint32_t>(degree));
      __builtin_prefetch(&graph.indices[static_cast<std::size_t>(scratch[i])]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      path[i * stride + step + 1] = scratch[i] < 0
                                        ? path[i * stride + step]
                                        : graph.indices[static_cast<std::size_t>(scratch[i])];
    }
  }
}

template <typename Id>
void SubgraphWorker<Id>::start(const Topology<Id>& graph, std::span<const std::int64_t> seeds,
                               SampleArrays<Id>& out) {
  const std::int64_t n = graph.num_nodes();
  local_.begin(n);
  out.num_nodes.clear();
  out.num_edges.clear();
  out.seed_position.clear();
  out.node.reserve(seeds.size() + 1);
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    if (seeds[i] < 0 || seeds[i] >= n) refuse("seed", i, seeds[i], n);
    const std::int64_t known = local_.known();
    const std::uint32_t id = local_.insert(seeds[i]);
    if (id < known && out.seed_position.empty()) {  // the first repeat: all before were in order
      out.seed_position.resize(seeds.size());
      for (std::size_t before = 0; before < i; ++before) {
        out.seed_position[before] = static_cast<std::int64_t>(before);
      }
    }
    out.node[id] = static_cast<Id>(seeds[i]);
    if (!out.seed_position.empty()) out.seed_position[i] = id;
  }
}

template <typename Id>
void SubgraphWorker<Id>::add(std::span<const Id> vertices, SampleArrays<Id>& out) {
  const auto known = static_cast<std::size_t>(local_.known());
  out.node.reserve(known + vertices.size() + 1, known);
  for (std::size_t i = 0; i < vertices.size(); ++i) {
    if (i + kAhead < vertices.size()) {
      local_.prefetch(static_cast<std::int64_t>(vertices[i + kAhead]));
    }
    out.node[local_.insert(static_cast<std::int64_t>(vertices[i]))] = vertices[i];
  }
}

template <typename Id>
void SubgraphWorker<Id>::add_walks(const Topology<Id>& graph, const SubgraphRule& rule,
                                   std::span<const std::int64_t> seeds, std::uint64_t key,
                                   SampleArrays<Id>& out) {
  starts_.clear();
  for (const std::int64_t v : seeds) {
    starts_.insert(starts_.end(), static_cast<std::size_t>(rule.walks), v);
  }
  const std::size_t visits = starts_.size() * (static_cast<std::size_t>(rule.length) + 1);
  met_.reserve(visits + 1);
  walk<Id>(graph, starts_, rule.length, key, {met_.data(), visits}, scratch_);
  add({met_.data(), visits}, out);
}

template <typename Id>
void SubgraphWorker<Id>::induce(const Topology<Id>& graph, SampleArrays<Id>& out) {
  const auto nodes = static_cast<std::size_t>(local_.known());
  const std::int64_t* indptr = graph.indptr.data();
  std::size_t edges = 0;
  members_.clear();
  for (std::size_t target = 0; target < nodes; ++target) {
    if (target + kAhead < nodes) __builtin_prefetch(&indptr[out.node[target + kAhead]]);
    const auto begin = static_cast<std::size_t>(indptr[out.node[target]]);
    const auto end = static_cast<std::size_t>(indptr[out.node[target] + 1]);
    // Room for the whole row, of which mostly a little is kept.
    out.row.reserve(edges + (end - begin), edges);
    out.col.reserve(edges + (end - begin), edges);
    out.edge.reserve(edges + (end - begin), edges);
    const std::size_t first = edges;
    edges = end - begin > kLong * nodes ? search_row(graph, begin, end, edges, out)
                                        : scan_row(graph, begin, end, edges, out);
    std::fill(out.col.data() + first, out.col.data() + edges, static_cast<std::uint32_t>(target));
  }
  out.num_edges.push_back(static_cast<std::int64_t>(edges));
}

// Asks for each entry of a row whether it is in the subgraph.
template <typename Id>
std::size_t SubgraphWorker<Id>::scan_row(const Topology<Id>& graph, std::size_t begin,
                                         std::size_t end, std::size_t edges,
                                         SampleArrays<Id>& out) const {
  for (std::size_t e = begin; e < end; ++e) {
    if (e + kAhead < end) local_.prefetch(static_cast<std::int64_t>(graph.indices[e + kAhead]));
    const std::uint32_t source = local_.find(static_cast<std::int64_t>(graph.indices[e]));
    // Written in any case and kept by moving on: there is room, and no branch to mispredict.
    out.row[edges] = source;
    out.edge[edges] = static_cast<std::int64_t>(e);
    edges += source != Relabel::kNone;
  }
  return edges;
}

// Looks for each vertex of the subgraph in a row much longer than the subgraph is large.
template <typename Id>
std::size_t SubgraphWorker<Id>::search_row(const Topology<Id>& graph, std::size_t begin,
                                           std::size_t end, std::size_t edges,
                                           SampleArrays<Id>& out) {
  if (members_.empty()) {
    members_.assign(out.node.data(), out.node.data() + local_.known());
    std::sort(members_.begin(), members_.end());
  }
  const Id* const row = graph.indices.data();
  const Id* at = row + begin;
  for (const Id v : members_) {
    at = std::lower_bound(at, row + end, v);
    for (; at < row + end && *at == v; ++at) {
      out.row[edges] = local_.find(static_cast<std::int64_t>(v));
      out.edge[edges++] = at - row;
    }
  }
  return edges;
}

template <typename Id>
void SubgraphWorker<Id>::sample(const Topology<Id>& graph, const SubgraphRule& rule,
                                std::span<const std::int64_t> seeds, std::uint64_t key,
                                SampleArrays<Id>& out) {
  const bool seeded = rule.kind == SubgraphKind::kGiven || rule.kind == SubgraphKind::kWalk;
  start(graph, seeded ? seeds : std::span<const std::int64_t>{}, out);
  const std::int64_t first = local_.known();
  const auto size = static_cast<std::size_t>(rule.size);
  switch (rule.kind) {
    case SubgraphKind::kGiven:
      break;
    case SubgraphKind::kWalk:
      add_walks(graph, rule, seeds, key, out);
      break;
    case SubgraphKind::kNode:
      met_.reserve(size);
      draw_nodes<Id>(rule.cumulative, key, {met_.data(), size});
      add({met_.data(), size}, out);
      break;
    case SubgraphKind::kEdge:
      met_.reserve(2 * size);
      draw_edges<Id>(graph, rule.cumulative, key, {met_.data(), 2 * size});
      add({met_.data(), 2 * size}, out);
      break;
  }
  out.num_nodes = {seeded ? first : local_.known(), local_.known()};
  induce(graph, out);
}

template <typename Id>
std::size_t SubgraphWorker<Id>::bytes() const {
  return local_.bytes() + met_.bytes() + scratch_.bytes() +
         starts_.capacity() * sizeof(std::int64_t) + members_.capacity() * sizeof(Id);
}

template <typename Id>
void sample_subgraphs(const Topology<Id>& graph, const SubgraphRule& rule,
                      std::span<const std::int64_t> seeds, std::span<const std::int64_t> ptr,
                      std::uint64_t key, std::uint64_t first_batch, int threads,
                      std::span<SubgraphWorker<Id>> workers,
                      std::span<SampleArrays<Id>* const> out) {
  if (ptr.size() != out.size() + 1 || ptr.front() != 0 ||
      ptr.back() != static_cast<std::int64_t>(seeds.size()) ||
      !std::is_sorted(ptr.begin(), ptr.end())) {
    throw InputError("ptr does not cut the seeds into minibatches");
  }
  const bool drawn = rule.kind == SubgraphKind::kNode || rule.kind == SubgraphKind::kEdge;
  if (drawn && (rule.cumulative.size() != static_cast<std::size_t>(graph.num_nodes()) ||
                rule.cumulative.empty() || !(rule.cumulative.back() > 0))) {
    throw InputError("there is nothing to draw: no vertex or edge has a weight above zero");
  }
  parallel_tasks(static_cast<std::int64_t>(out.size()), threads, [&](std::int64_t i, int worker) {
    const auto k = static_cast<std::size_t>(i);
    const auto count = static_cast<std::size_t>(ptr[k + 1] - ptr[k]);
    workers[static_cast<std::size_t>(worker)].sample(
        graph, rule, seeds.subspan(static_cast<std::size_t>(ptr[k]), count),
        derive(key, first_batch + k), *out[k]);
  });
}

#define FOREGATHER_WALK(Id)                                                                        \
  template void walk(const Topology<Id>&, std::span<const std::int64_t>, std::int64_t,             \
                     std::uint64_t, std::span<Id>, Buffer<std::int64_t>&);                         \
  template class SubgraphWorker<Id>;                                                               \
  template void sample_subgraphs(const Topology<Id>&, const SubgraphRule&,                         \
                                 std::span<const std::int64_t>, std::span<const std::int64_t>,     \
                                 std::uint64_t, std::uint64_t, int, std::span<SubgraphWorker<Id>>, \
                                 std::span<SampleArrays<Id>* const>);
FOREGATHER_WALK(std::uint32_t)
FOREGATHER_WALK(std::int64_t)
#undef FOREGATHER_WALK

}  // namespace foregather
