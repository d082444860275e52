// Layerwise step: one layer of a minibatch, for one relation: chooses columns for its targets and
// emits the edges from them; see layerwise.hpp. Plain minibatches have one step a layer, typed ones
// (typed_layerwise.hpp) one for each relation.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/buffer.hpp"
#include "sampling/layerwise/layerwise.hpp"
#include "sampling/layerwise/piece_sums.hpp"
#include "sampling/numbering/numbering.hpp"
#include "sampling/picking/choose.hpp"
#include "sampling/sampling_verbs.hpp"

namespace foregather {
namespace detail {

/// The columns of a layer that were chosen, and what their edges are divided by.
template <typename Id>
class Chosen {
 public:
  void clear(std::size_t expected) {
    numbers_.clear(expected);
    divisor.clear();
    local.clear();
    // 32 bits per column, and never more than fit into the first cache.
    bits_ = std::clamp(static_cast<int>(std::bit_width(32 * expected)), 9, 17);
    filter_.assign(std::size_t{1} << (bits_ - 6), 0);
  }

  void add(Id column, double by) {
    numbers_.number(column);
    divisor.push_back(by);
    local.push_back(Numbering<Id>::kNone);
    const std::size_t bit = place(column);
    filter_[bit >> 6] |= std::uint64_t{1} << (bit & 63);
  }

  /// False for nearly all columns that were not chosen, without a memory access beyond the cache.
  bool maybe(Id column) const {
    const std::size_t bit = place(column);
    return (filter_[bit >> 6] >> (bit & 63)) & 1;
  }

  /// The number of a chosen column, kNone for others.
  std::uint32_t find(Id column) const { return numbers_.find(column); }

  std::vector<double> divisor;       ///< by number
  std::vector<std::uint32_t> local;  ///< local id by number, kNone until it has one

 private:
  std::size_t place(Id column) const {
    // Not Numbering's product: columns that share a bit should not share a slot as well.
    return static_cast<std::size_t>((static_cast<std::uint64_t>(column) * 0xD6E8FEB86659FD93ull) >>
                                    (64 - bits_));
  }

  Numbering<Id> numbers_;
  std::vector<std::uint64_t> filter_;
  int bits_ = 9;
};

}  // namespace detail

/// Edges that steps append to.
struct LayerwiseEdges {
  std::vector<std::uint32_t> row, col;
  std::vector<std::int64_t> edge;
  std::vector<float> weight;  ///< only where there is a Debias

  void clear() {
    for (auto* held : {&row, &col}) held->clear();
    edge.clear();
    weight.clear();
  }
};

/// The scratch of one thread.
template <typename Id>
class LayerwiseStep {
 public:
  /// Chooses `s` of the `sources` columns for targets, which are the first vertices of their type
  /// in the minibatch, under `key`; appends the edges from them, and gives those sources that have
  /// an edge numbers in `local` (which may also be the one that `targets` is of).
  void run(const LayerwiseGraph<Id>& graph, std::int64_t sources, const LayerwiseRule& rule,
           std::int64_t s, std::uint64_t key, std::span<const Id> targets, Numbering<Id>& local,
           LayerwiseEdges& out) {
    graph_ = graph;
    rule_ = rule;
    sources_ = sources;
    const FixedPoint fixed = measure(targets);
    if (rule.column_weights.empty()) {
      choose_ladies(fixed, key, s);
    } else {
      choose_fastgcn(key, s);
    }
    emit(local, out);
  }

  /// Bytes held between calls.
  std::size_t bytes() const {
    return sums_.bytes() + passed_.bytes() +
           (begin_.capacity() + degree_.capacity() + units_.capacity()) * sizeof(std::int64_t);
  }

 private:
  static void require(bool holds, const char* what) {
    if (!holds) throw InputError(what);
  }

  // A_iv of edge e in a row of `degree` entries.
  double value(std::int64_t e, std::int64_t degree) const {
    return graph_.edge_weight.empty() ? 1.0 / static_cast<double>(degree)
                                      : static_cast<double>(graph_.edge_weight[e]);
  }

  // Where the rows of the targets are, and the fixed point of this layer.
  FixedPoint measure(std::span<const Id> ids) {
    const std::int64_t* indptr = graph_.indptr.data();
    begin_.resize(ids.size());
    degree_.resize(ids.size());
    entries_ = 0;
    widest_ = 0;
    double largest = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i + kAhead < ids.size()) __builtin_prefetch(&indptr[ids[i + kAhead]]);
      const std::int64_t first = indptr[ids[i]], degree = indptr[ids[i] + 1] - first;
      begin_[i] = first;
      degree_[i] = degree;
      entries_ += degree;
      widest_ = std::max(widest_, degree);
      const std::int64_t looked_at =
          graph_.edge_weight.empty() ? std::min<std::int64_t>(degree, 1) : degree;
      for (std::int64_t e = first; e < first + looked_at; ++e) {
        const double a = value(e, degree);
        require(std::isfinite(a), "edge_weight holds a number that is not finite");
        largest = std::max(largest, a * a);
      }
    }
    return FixedPoint(largest, entries_);
  }

  // Asks for the rows of a target that comes soon; the hardware finds the rest of a long one.
  void prefetch_row(std::size_t target) const {
    if (target >= begin_.size()) return;
    const auto* at = reinterpret_cast<const char*>(graph_.indices.data() + begin_[target]);
    const auto bytes = static_cast<std::int64_t>(sizeof(Id)) * degree_[target];
    for (std::int64_t byte = 0; byte < std::min<std::int64_t>(bytes, 512); byte += 64) {
      __builtin_prefetch(at + byte);
    }
  }

  // Deals the entries of all rows into the pieces of sums_; returns the sum of their squares.
  std::int64_t deal(const FixedPoint& fixed) {
    const Id* indices = graph_.indices.data();
    const bool weighted = !graph_.edge_weight.empty();
    sums_.start(sources_, entries_, weighted);
    units_.resize(begin_.size());
    std::int64_t total = 0;
    for (std::size_t target = 0; target < begin_.size(); ++target) {
      prefetch_row(target + kRowsAhead);
      const std::int64_t first = begin_[target], last = first + degree_[target];
      if (weighted) {
        for (std::int64_t e = first; e < last; ++e) {
          const auto w = static_cast<double>(graph_.edge_weight[e]);
          const std::int64_t units = fixed(w * w);
          sums_.add(indices[e], units);
          total += units;
        }
      } else if (last > first) {
        const double a = 1.0 / static_cast<double>(last - first);
        units_[target] = fixed(a * a);
        total += units_[target] * (last - first);
        sums_.add_row(indices + first, indices + last, static_cast<std::uint32_t>(target));
      }
    }
    return total;
  }

  void choose_ladies(const FixedPoint& fixed, std::uint64_t key, std::int64_t s) {
    const std::int64_t total = deal(fixed);
    const double unit = fixed.unit(), whole = static_cast<double>(total) * unit;
    const auto collect = [&](detail::Candidates& candidates) {
      sums_.visit(units_, [&](std::uint64_t column, std::int64_t sum) {
        // The place carries the sum, which is all that is asked about a winner.
        candidates.consider(column, static_cast<double>(sum) * unit, sum);
      });
    };
    const double tau = detail::choose_by(collect, whole, entries_, key, s, found_);
    chosen_.clear(found_.size());
    for (const detail::Candidate& winner : found_) {
      const double p = static_cast<double>(winner.place) * unit;
      chosen_.add(static_cast<Id>(winner.tie), divide_by(p, tau, whole));
    }
  }

  void choose_fastgcn(std::uint64_t key, std::int64_t s) {
    const double tau = rule_.arrivals->choose(key, s, found_, arrived_);
    chosen_.clear(found_.size());
    for (const detail::Candidate& winner : found_) {
      chosen_.add(static_cast<Id>(winner.place),
                  divide_by(rule_.column_weights[winner.place], tau, rule_.total));
    }
  }

  // What A_iv is divided by for a chosen column of weight p.
  double divide_by(double p, double tau, double whole) const {
    if (rule_.debias == Debias::kExact) return inclusion(p * tau);
    return static_cast<double>(found_.size()) * (p / whole);
  }

  // Edges from chosen columns, row by row.
  void emit(Numbering<Id>& local, LayerwiseEdges& out) {
    const Id* indices = graph_.indices.data();
    passed_.reserve(static_cast<std::size_t>(widest_) + 1);
    std::uint32_t* passed = passed_.data();
    for (std::size_t target = 0; target < begin_.size(); ++target) {
      prefetch_row(target + kRowsAhead);
      const std::int64_t first = begin_[target], degree = degree_[target];
      std::size_t count = 0;
      for (std::int64_t i = 0; i < degree; ++i) {
        passed[count] = static_cast<std::uint32_t>(i);
        count += chosen_.maybe(indices[first + i]);
      }
      if (count > 0) emit_row(target, std::span<const std::uint32_t>(passed, count), local, out);
    }
  }

  void emit_row(std::size_t target, std::span<const std::uint32_t> passed, Numbering<Id>& local,
                LayerwiseEdges& out) {
    const std::int64_t first = begin_[target], degree = degree_[target];
    const std::size_t before = out.edge.size();
    out.row.resize(before + passed.size());
    out.edge.resize(before + passed.size());
    row_weight_.resize(passed.size());
    std::uint32_t* row = out.row.data() + before;
    std::int64_t* edge = out.edge.data() + before;
    std::size_t count = 0;
    double sum = 0;
    for (std::uint32_t i : passed) {
      const std::int64_t e = first + i;
      const Id column = graph_.indices[e];
      const std::uint32_t at = chosen_.find(column);
      if (at == Numbering<Id>::kNone) continue;  // so columns that are no vertices end here
      if (chosen_.local[at] == Numbering<Id>::kNone) chosen_.local[at] = local.number(column);
      row[count] = chosen_.local[at];
      edge[count] = e;
      row_weight_[count] = value(e, degree) / chosen_.divisor[at];
      sum += row_weight_[count++];
    }
    out.row.resize(before + count);
    out.edge.resize(before + count);
    out.col.resize(before + count, static_cast<std::uint32_t>(target));
    if (rule_.debias == Debias::kNone) return;
    const double scale = rule_.debias == Debias::kReference && sum != 0 ? sum : 1;
    out.weight.resize(before + count);
    for (std::size_t i = 0; i < count; ++i) {
      out.weight[before + i] = static_cast<float>(row_weight_[i] / scale);
    }
  }

  static constexpr std::size_t kAhead = 16;     // items between a prefetch and its use
  static constexpr std::size_t kRowsAhead = 6;  // rows

  LayerwiseGraph<Id> graph_;
  LayerwiseRule rule_{};
  std::int64_t sources_ = 0, entries_ = 0, widest_ = 0;
  Numbering<std::int64_t> arrived_;
  std::vector<std::int64_t> begin_, degree_;  ///< rows of the targets
  std::vector<std::int64_t> units_;           ///< of one entry of each, unweighted
  detail::PieceSums<Id> sums_;
  Buffer<std::uint32_t> passed_;
  std::vector<double> row_weight_;
  std::vector<detail::Candidate> found_;
  detail::Chosen<Id> chosen_;
};

}  // namespace foregather
