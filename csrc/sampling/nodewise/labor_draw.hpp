// LaborDraw: which edges of a row LABOR takes, and with what weights; a Draw of expand.hpp.
//
// What is taken of a row is a pure function of the key of its layer, its sources and its degree, so
// plain and typed sampling, which share this, take the same. The namespace without a name is on
// purpose, as in draws.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/cpu_features.hpp"
#include "sampling/nodewise/labor.hpp"

namespace foregather {
namespace {

// Tests `count` ids and writes begin + place of those below `limit`. A block without any is told
// by one comparison in lanes; in a long row most are.
template <typename Id>
[[gnu::always_inline]] inline std::uint32_t sweep_body(const Id* ids, std::uint32_t count,
                                                       SharedDraw shared, std::uint32_t limit,
                                                       std::int64_t begin, std::int64_t* edge) {
  constexpr std::uint32_t kLanes = 32;
  std::uint32_t numbers[kLanes];
  std::int64_t* next = edge;
  std::uint32_t p = 0;
  for (; p + kLanes <= count; p += kLanes) {
    const Id* block = ids + p;
    std::uint32_t below = 0;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      numbers[i] = shared.low(static_cast<std::uint32_t>(block[i]));
      below += numbers[i] < limit ? 1u : 0u;
    }
    if (below == 0) continue;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      *next = begin + p + i;
      next += numbers[i] < limit;
    }
  }
  for (; p < count; ++p) {
    *next = begin + p;
    next += shared.low(static_cast<std::uint32_t>(ids[p])) < limit;
  }
  return static_cast<std::uint32_t>(next - edge);
}

template <typename Id>
std::uint32_t sweep_plain(const Id* ids, std::uint32_t count, SharedDraw shared,
                          std::uint32_t limit, std::int64_t begin, std::int64_t* edge) {
  return sweep_body(ids, count, shared, limit, begin, edge);
}

#if defined(__x86_64__) && defined(__GNUC__)
template <typename Id>
[[gnu::target("avx2")]] std::uint32_t sweep_avx2(const Id* ids, std::uint32_t count,
                                                 SharedDraw shared, std::uint32_t limit,
                                                 std::int64_t begin, std::int64_t* edge) {
  return sweep_body(ids, count, shared, limit, begin, edge);
}
bool has_avx2() { return cpu_features().avx2; }
#else
template <typename Id>
constexpr auto sweep_avx2 = &sweep_plain<Id>;
bool has_avx2() { return false; }
#endif

// Vertices of 2^32 and more: keys may differ inside a row.
std::uint32_t sweep_wide(const std::int64_t* ids, std::uint32_t count, SharedDraw shared,
                         std::uint32_t limit, std::int64_t begin, std::int64_t* edge) {
  std::int64_t* next = edge;
  for (std::uint32_t p = 0; p < count; ++p) {
    *next = begin + p;
    next += shared(static_cast<std::uint64_t>(ids[p])) < limit;
  }
  return static_cast<std::uint32_t>(next - edge);
}

template <typename Id>
using Sweep = std::uint32_t (*)(const Id*, std::uint32_t, SharedDraw, std::uint32_t, std::int64_t,
                                std::int64_t*);

template <typename Id>
Sweep<Id> best_sweep(std::int64_t num_nodes) {
  if constexpr (sizeof(Id) > 4) {
    if (num_nodes > std::int64_t{1} << 32) return &sweep_wide;
  }
  static const bool lanes = has_avx2();
  return lanes ? static_cast<Sweep<Id>>(sweep_avx2<Id>) : &sweep_plain<Id>;
}

/// Edges whose source has a number below the limit of the row.
template <typename Id>
struct LaborDraw {
  static constexpr bool kAsks = true, kReads = true, kExact = false;
  LaborWeight kind;
  std::span<const float> values;  ///< [E] of the matrix; empty for 1 / degree
  std::int64_t fanout;
  SharedDraw shared;
  const Id* indices;
  Sweep<Id> sweep;
  std::vector<double>& scratch;

  std::int64_t likely(const FrontierRow<Id>& row) const {
    return fanout < 0 ? row.degree : std::min<std::int64_t>(row.degree, fanout);
  }
  /// The rows that follow are of another tree, whose key this is.
  void use(std::uint64_t key) { shared = SharedDraw(key); }
  // One more: the sweep writes before it knows whether it keeps.
  std::int64_t most(const FrontierRow<Id>& row) const { return std::int64_t{row.degree} + 1; }
  bool whole(const FrontierRow<Id>& row) const { return fanout < 0 || row.degree <= fanout; }

  // The beginning of a row; the processor's own prefetcher sees where it goes on.
  [[gnu::always_inline]] void ask(const FrontierRow<Id>& row) {
    constexpr std::uint32_t kMost = 256 / sizeof(Id);
    prefetch_range(indices + row.begin, std::min(row.degree, kMost));
  }

  std::uint32_t operator()(const FrontierRow<Id>& row, std::int64_t* edge) {
    const auto limit = static_cast<std::uint32_t>(labor_limit(fanout, row.degree));
    return sweep(indices + row.begin, row.degree, shared, limit, row.begin, edge);
  }

  // As of a row that has no more than what is left, which its limit and its weights follow.
  std::int64_t left(const FrontierRow<Id>& row, std::span<const std::int64_t> gaps) const {
    return likely({row.node, row.begin, row.degree - static_cast<std::uint32_t>(gaps.size())});
  }
  std::uint32_t take(const FrontierRow<Id>& row, std::span<const std::int64_t> gaps,
                     std::int64_t* edge) {
    const std::uint32_t rest = row.degree - static_cast<std::uint32_t>(gaps.size());
    const std::uint64_t limit = labor_limit(fanout, rest);
    std::uint32_t count = rest;
    if (limit >> 32 != 0) {
      for (std::uint32_t p = 0; p < count; ++p) edge[p] = row.begin + p;
      step_over(gaps, edge, count);
      return count;
    }
    count = sweep(indices + row.begin, row.degree, shared, static_cast<std::uint32_t>(limit),
                  row.begin, edge);
    const auto* end = std::remove_if(edge, edge + count, [&](std::int64_t e) {
      return std::binary_search(gaps.begin(), gaps.end(), e);
    });
    return static_cast<std::uint32_t>(end - edge);
  }

  void weigh(const FrontierRow<Id>& row, const std::int64_t* edge, std::uint32_t count,
             float* weight) {
    const double chance = static_cast<double>(labor_limit(fanout, row.degree)) * 0x1.0p-32;
    if (values.empty()) {  // all alike
      const double own = 1.0 / static_cast<double>(row.degree) / chance;
      double sum = 0;
      for (std::uint32_t i = 0; i < count && kind == LaborWeight::kReference; ++i) sum += own;
      const auto made = static_cast<float>(kind == LaborWeight::kReference ? own / sum : own);
      std::fill(weight, weight + count, made);
      return;
    }
    scratch.resize(count);
    double sum = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      scratch[i] = static_cast<double>(values[static_cast<std::size_t>(edge[i])]) / chance;
      sum += scratch[i];
    }
    const double divisor = kind == LaborWeight::kReference && sum != 0 ? sum : 1;
    for (std::uint32_t i = 0; i < count; ++i) weight[i] = static_cast<float>(scratch[i] / divisor);
  }
};

}  // namespace
}  // namespace foregather
