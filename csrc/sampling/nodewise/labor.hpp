// Labor: LABOR-0 (Balin and Çatalyürek, NeurIPS 2023): a source has one random number for all
// targets of a layer, so that targets choose the same sources as often as they can.
//
// In a row of `degree` edges and for a fan-out k, edge u -> v is taken if the number of u is below
// k / degree: k edges on average, each included with the same probability as by any other draw of
// k, and all if degree <= k. The draws of a row are independent (Poisson sampling), so the number
// of edges varies, and may be 0.
//
// The number of a vertex has 32 bits: two rounds of multiply and shift (the constants are from the
// search of lowbias32 by Wellons, 2018), keyed by the layer's 64 bits between the rounds. It needs
// 32-bit lanes only, so a row is tested at about one edge per cycle if the processor has AVX2, and
// gives the same bits if it does not. Thresholds are whole numbers of 2^-32 and a weight divides by
// exactly that probability: the estimate is exactly unbiased.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/keys.hpp"
#include "sampling/links/excluded.hpp"
#include "sampling/nodewise/expand.hpp"

namespace foregather {

/// The numbers of all vertices under one layer key.
class SharedDraw {
 public:
  explicit SharedDraw(std::uint64_t layer) : layer_(layer) { turn(0); }

  /// The number of a vertex below 2^32.
  std::uint32_t low(std::uint32_t v) const { return mix(v, first_, second_); }
  /// The number of any vertex; ids of 2^32 and more have other keys.
  std::uint32_t operator()(std::uint64_t v) {
    if ((v >> 32) != high_) turn(v >> 32);
    return mix(static_cast<std::uint32_t>(v), first_, second_);
  }

  static constexpr std::uint32_t mix(std::uint32_t x, std::uint32_t first, std::uint32_t second) {
    x += first;
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = ((x ^ (x >> 15)) + second) * 0x846ca68bu;
    return x ^ (x >> 16);
  }

 private:
  void turn(std::uint64_t high) {
    const std::uint64_t bits = derive(layer_, high);
    high_ = high;
    first_ = static_cast<std::uint32_t>(bits);
    second_ = static_cast<std::uint32_t>(bits >> 32);
  }

  std::uint64_t layer_, high_ = 0;
  std::uint32_t first_ = 0, second_ = 0;
};

/// Numbers of the columns of stacked entries (sampling_verbs.hpp): out[e] for entry e of batch b
/// under keys[b].
template <typename Id>
void column_draws(std::span<const std::int64_t> entry_ptr, std::span<const Id> columns,
                  std::span<const std::uint64_t> keys, std::span<std::uint32_t> out, int threads);

/// Edges are taken whose number is below this, in 2^-32; 2^32 takes all.
constexpr std::uint64_t labor_limit(std::int64_t fanout, std::int64_t degree) {
  if (fanout < 0 || degree <= fanout) return std::uint64_t{1} << 32;
  return (static_cast<std::uint64_t>(fanout) << 32) / static_cast<std::uint64_t>(degree);
}

/// How edges are weighted: see Debias in Python.
enum class LaborWeight { kNone, kExact, kReference };

struct LaborRule {
  std::vector<std::int64_t> fanouts;        ///< one per layer; -1 takes whole rows
  bool once = true;                         ///< expand once, or per layer
  bool same = false;                        ///< the numbers of layer 0 serve all layers
  LaborWeight weight = LaborWeight::kNone;  ///< of the edges
  std::span<const float> values = {};       ///< [E] of the matrix; empty for 1 / degree
  std::uint64_t every = 1;                  ///< minibatches in a row that share their numbers
};

/// Whether minibatches of the rule have edge weights.
constexpr bool gives_weights(const LaborRule& rule) { return rule.weight != LaborWeight::kNone; }

/// The state of one thread.
template <typename Id>
class LaborWorker {
 public:
  /// Samples minibatch `batch` from `seeds` into `out`. Throws InputError for a seed that is not a
  /// vertex. A minibatch is the work of one thread: how many edges a row gives is not known before.
  void sample(const Topology<Id>& graph, const LaborRule& rule, std::span<const std::int64_t> seeds,
              std::uint64_t seed, std::uint64_t epoch, std::uint64_t batch, SampleArrays<Id>& out,
              std::span<LaborWorker> team = {});
  /// What the next minibatch leaves out.
  ExcludedRows& excluded() { return excluded_; }
  /// Bytes held between calls.
  std::size_t bytes() const {
    return expansion_.bytes() + scratch_.capacity() * sizeof(double) + excluded_.bytes();
  }

 private:
  Expansion<Id> expansion_;
  std::vector<double> scratch_;
  ExcludedRows excluded_;
};

}  // namespace foregather
