#include "foregather/layerwise.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "choose.hpp"
#include "foregather/matrix.hpp"
#include "foregather/numbering.hpp"
#include "foregather/pool.hpp"

namespace foregather {
namespace {

constexpr std::int64_t kAhead = 8;  // entries between a prefetch and its use

void require(bool holds, const char* what) {
  if (!holds) throw InputError(what);
}

// One minibatch at a time on its way through the layers; tables are kept from one to the next.
template <typename Id>
class Worker {
 public:
  Worker(const Topology<Id>& graph, const LayerwiseRule& rule) : graph_(graph), rule_(rule) {}

  LayerwiseSample<Id> run(std::span<const Id> seeds, std::uint64_t batch) {
    made_ = {};
    local_.clear(local_.size());
    const auto nodes = static_cast<std::int64_t>(graph_.indptr.size()) - 1;
    for (Id v : seeds) {
      const auto id = static_cast<std::int64_t>(v);
      if (id < 0 || id >= nodes) {
        throw InputError("seeds hold node " + std::to_string(id) + ", but the graph has " +
                         std::to_string(nodes) + " nodes (ids are 0 to N-1)");
      }
      local_.number(v);
    }
    require(local_.size() == seeds.size(), "seeds of a minibatch hold a node twice");
    made_.num_nodes.push_back(static_cast<std::int64_t>(local_.size()));
    for (std::size_t layer = 0; layer < rule_.layer_sizes.size(); ++layer) {
      const std::uint64_t key = layer_key(batch, layer);
      const std::int64_t s = rule_.layer_sizes[layer];
      const auto before = static_cast<std::int64_t>(made_.edge.size());
      if (rule_.column_weights.empty()) {
        choose_ladies(key, s);
        emit([&](std::int64_t entry, Id) { return divisor_[place_[entry]]; });
      } else {
        choose_fastgcn(key, s);
        emit([&](std::int64_t, Id column) {
          const std::uint32_t at = columns_.find(column);
          return at == Numbering<Id>::kNone ? -1 : divisor_[at];
        });
      }
      made_.num_nodes.push_back(static_cast<std::int64_t>(local_.size()));
      made_.num_edges.push_back(static_cast<std::int64_t>(made_.edge.size()) - before);
    }
    made_.node.assign(local_.ids().begin(), local_.ids().end());
    return std::move(made_);
  }

 private:
  std::int64_t begin(Id v) const { return graph_.indptr[static_cast<std::int64_t>(v)]; }
  std::int64_t end(Id v) const { return graph_.indptr[static_cast<std::int64_t>(v) + 1]; }

  // A_iv of edge e in a row of `degree` entries.
  double value(std::int64_t e, std::int64_t degree) const {
    return graph_.edge_weight.empty() ? 1.0 / static_cast<double>(degree)
                                      : static_cast<double>(graph_.edge_weight[e]);
  }

  // Pass 1: fixed point of this layer.
  FixedPoint measure() {
    std::int64_t entries = 0;
    double largest = 0;
    for (Id v : local_.ids()) {
      const std::int64_t degree = end(v) - begin(v);
      entries += degree;
      const std::int64_t looked_at =
          graph_.edge_weight.empty() ? std::min<std::int64_t>(degree, 1) : degree;
      for (std::int64_t e = begin(v); e < begin(v) + looked_at; ++e) {
        const double a = value(e, degree);
        require(std::isfinite(a), "edge_weight holds a number that is not finite");
        largest = std::max(largest, a * a);
      }
    }
    place_.resize(static_cast<std::size_t>(entries));
    return FixedPoint(largest, entries);
  }

  // Pass 2 and the choice; divisor_ by column number, -1 where not chosen.
  void choose_ladies(std::uint64_t key, std::int64_t s) {
    const FixedPoint fixed = measure();
    columns_.clear(std::min(place_.size(), graph_.indptr.size()));
    sums_.clear();
    std::size_t entry = 0;
    std::int64_t total = 0;
    for (Id v : local_.ids()) {
      const std::int64_t first = begin(v), last = end(v), degree = last - first;
      std::int64_t units = 0;
      for (std::int64_t e = first; e < last; ++e) {
        if (e + kAhead < last) columns_.prefetch(graph_.indices[e + kAhead]);
        const double a = value(e, degree);
        if (e == first || !graph_.edge_weight.empty()) units = fixed(a * a);
        const std::uint32_t at = columns_.number(graph_.indices[e]);
        if (at == sums_.size()) sums_.push_back(0);
        sums_[at] += units;
        total += units;
        place_[entry++] = at;
      }
    }
    const double unit = fixed.unit();
    const double whole = static_cast<double>(total) * unit;
    const auto weight = [&](std::int64_t i) { return static_cast<double>(sums_[i]) * unit; };
    const auto ids = columns_.ids();
    const double tau = detail::choose(
        static_cast<std::int64_t>(sums_.size()), [&](std::int64_t i) { return ids[i]; }, weight,
        whole, key, s, found_);
    divisor_.assign(sums_.size(), -1);
    for (const detail::Candidate& winner : found_) {
      divisor_[winner.place] = divide_by(weight(winner.place), tau, whole);
    }
  }

  void choose_fastgcn(std::uint64_t key, std::int64_t s) {
    const double tau = detail::choose(
        static_cast<std::int64_t>(rule_.column_weights.size()), [](std::int64_t i) { return i; },
        [&](std::int64_t i) { return rule_.column_weights[i]; }, rule_.total, key, s, found_);
    columns_.clear(found_.size());
    divisor_.clear();
    for (const detail::Candidate& winner : found_) {
      columns_.number(static_cast<Id>(winner.tie));
      divisor_.push_back(divide_by(rule_.column_weights[winner.place], tau, rule_.total));
    }
  }

  // What A_iv is divided by for a chosen column of weight p.
  double divide_by(double p, double tau, double whole) const {
    if (rule_.debias == Debias::kExact) return inclusion(p * tau);
    return static_cast<double>(found_.size()) * (p / whole);
  }

  // Pass 3: edges from chosen columns, row by row. divisor(entry, column) is negative for others.
  template <typename Divisor>
  void emit(const Divisor& divisor) {
    const std::size_t targets = local_.size();
    const auto nodes = static_cast<std::int64_t>(graph_.indptr.size()) - 1;
    std::int64_t entry = 0;
    for (std::size_t target = 0; target < targets; ++target) {
      const Id v = local_.ids()[target];  // by index: new numbers move the ids
      const std::int64_t first = begin(v), degree = end(v) - first;
      double sum = 0;
      row_weight_.clear();
      for (std::int64_t e = first; e < first + degree; ++e) {
        const Id column = graph_.indices[e];
        const double by = divisor(entry++, column);
        if (!(by >= 0)) continue;
        require(static_cast<std::int64_t>(column) >= 0 && static_cast<std::int64_t>(column) < nodes,
                "indices hold an id that is not a node");
        made_.row.push_back(local_.number(column));
        made_.col.push_back(static_cast<std::uint32_t>(target));
        made_.edge.push_back(e);
        row_weight_.push_back(value(e, degree) / by);
        sum += row_weight_.back();
      }
      if (rule_.debias == Debias::kNone) continue;
      const double scale = rule_.debias == Debias::kReference && sum != 0 ? sum : 1;
      for (double w : row_weight_) made_.weight.push_back(static_cast<float>(w / scale));
    }
  }

  const Topology<Id>& graph_;
  const LayerwiseRule& rule_;
  LayerwiseSample<Id> made_;
  Numbering<Id> local_, columns_;
  std::vector<std::int64_t> sums_;
  std::vector<std::uint32_t> place_;
  std::vector<double> divisor_, row_weight_;
  std::vector<detail::Candidate> found_;
};

}  // namespace

template <typename Id>
std::vector<LayerwiseSample<Id>> sample_layerwise(const Topology<Id>& graph,
                                                  const LayerwiseRule& rule,
                                                  const Minibatches<Id>& batches, int threads) {
  const auto& ptr = batches.seed_ptr;
  require(!graph.indptr.empty(), "indptr is empty");
  require(graph.edge_weight.empty() || graph.edge_weight.size() == graph.indices.size(),
          "edge_weight does not have one entry for each edge");
  require(rule.column_weights.empty() || rule.column_weights.size() + 1 == graph.indptr.size(),
          "column_weights do not have one number for each node");
  require(!ptr.empty() && ptr.front() == 0 && std::is_sorted(ptr.begin(), ptr.end()) &&
              ptr.back() == static_cast<std::int64_t>(batches.seeds.size()),
          "seed_ptr does not cover the seeds");
  std::vector<LayerwiseSample<Id>> made(ptr.size() - 1);
  const int most = threads > 0 ? threads : default_threads();
  std::vector<std::unique_ptr<Worker<Id>>> workers(static_cast<std::size_t>(most));
  parallel_tasks(static_cast<std::int64_t>(made.size()), most, [&](std::int64_t b, int worker) {
    if (!workers[worker]) workers[worker] = std::make_unique<Worker<Id>>(graph, rule);
    const auto first = static_cast<std::size_t>(ptr[b]);
    const auto count = static_cast<std::size_t>(ptr[b + 1]) - first;
    const std::uint64_t key =
        batch_key(batches.seed, batches.epoch, batches.first_batch + static_cast<std::uint64_t>(b));
    made[b] = workers[worker]->run(batches.seeds.subspan(first, count), key);
  });
  return made;
}

template std::vector<LayerwiseSample<std::uint32_t>> sample_layerwise(
    const Topology<std::uint32_t>&, const LayerwiseRule&, const Minibatches<std::uint32_t>&, int);
template std::vector<LayerwiseSample<std::int64_t>> sample_layerwise(
    const Topology<std::int64_t>&, const LayerwiseRule&, const Minibatches<std::int64_t>&, int);

}  // namespace foregather
