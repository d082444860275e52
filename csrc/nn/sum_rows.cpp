#include "nn/sum_rows.hpp"

#include <string>
#include <type_traits>
#include <utility>

#include "base/types.hpp"
#include "graph/check.hpp"
#include "nn/processor.hpp"
#include "nn/row_split.hpp"

namespace foregather::nn {
namespace {

// How stored values become those that are added.
template <typename Unit, typename T>
[[gnu::always_inline]] inline void load_lanes(const FeatureRows<T>& rows, std::int64_t at,
                                              std::int64_t column, Lanes<T>& to) {
  if constexpr (std::is_same_v<T, std::int8_t>) {
    using Bytes [[gnu::vector_size(8)]] = std::int8_t;
    Bytes stored;
    std::memcpy(&stored, rows.data + at + column, sizeof stored);
    load(rows.scale + column, to);
    to *= __builtin_convertvector(stored, Lanes<T>);
  } else {
    load_by<Unit, T>(rows.data + at + column, to);
  }
}

template <typename T>
[[gnu::always_inline]] inline Sum<T> load_one(const FeatureRows<T>& rows, std::int64_t at,
                                              std::int64_t column) {
  if constexpr (std::is_same_v<T, std::int8_t>) {
    return static_cast<float>(rows.data[at + column]) * rows.scale[column];
  } else {
    return widen(rows.data[at + column]);
  }
}

template <typename T, typename Id>
struct Job {
  FeatureRows<T> rows;
  const Id* node;  // or null
  PlaceLists lists;
  Sum<T>* out;
};

template <typename Unit, bool kWeighted, typename T, typename Id>
struct Pass {
  const Job<T, Id>& job;
  std::int64_t last;  // entries that this thread will come to

  [[gnu::always_inline]] std::int64_t at(std::int64_t k) const {
    const std::uint32_t place = job.lists.place[static_cast<std::size_t>(k)];
    const auto row = job.node != nullptr ? static_cast<std::int64_t>(job.node[place])
                                         : static_cast<std::int64_t>(place);
    return row * job.rows.width;
  }

  [[gnu::always_inline]] void ask(std::int64_t k) const {
    if (k < last) prefetch_row(job.rows.data + at(k), job.rows.width);
  }

  // Columns [column, column + 8 V) of a target; the first pass over a list asks for rows to come.
  template <std::size_t... V>
  [[gnu::always_inline]] void columns(std::index_sequence<V...>, std::int64_t target,
                                      std::int64_t begin, std::int64_t end,
                                      std::int64_t column) const {
    Lanes<T> sums[sizeof...(V)] = {};
    for (std::int64_t k = begin; k < end; ++k) {
      if (column == 0) ask(k + kAhead);
      const std::int64_t from = at(k);
      Lanes<T> value[sizeof...(V)];
      (load_lanes<Unit>(job.rows, from, column + static_cast<std::int64_t>(V) * kLanes, value[V]),
       ...);
      if constexpr (kWeighted) {
        const auto w = static_cast<Sum<T>>(job.lists.weight[k]);
        ((value[V] *= w), ...);
      }
      ((sums[V] += value[V]), ...);
    }
    Sum<T>* const to = job.out + target * job.rows.width + column;
    (store<Sum<T>>(sums[V], to + V * kLanes), ...);
  }

  // Fewer columns than lanes.
  [[gnu::always_inline]] void few(std::int64_t target, std::int64_t begin, std::int64_t end) const {
    const std::int64_t width = job.rows.width;
    Sum<T> sums[kLanes] = {};
    for (std::int64_t k = begin; k < end; ++k) {
      ask(k + kAhead);
      const std::int64_t from = at(k);
      for (std::int64_t j = 0; j < width; ++j) {
        const Sum<T> value = load_one(job.rows, from, j);
        sums[j] += kWeighted ? value * static_cast<Sum<T>>(job.lists.weight[k]) : value;
      }
    }
    for (std::int64_t j = 0; j < width; ++j) job.out[target * width + j] = sums[j];
  }

  [[gnu::always_inline]] void operator()(std::int64_t target) const {
    const std::int64_t begin = job.lists.starts[static_cast<std::size_t>(target)];
    const std::int64_t end = job.lists.starts[static_cast<std::size_t>(target) + 1];
    each_columns<Sum<T>>(1, job.rows.width, [&](auto lanes, std::int64_t, std::int64_t column) {
      if constexpr (decltype(lanes)::size() == 0) {
        few(target, begin, end);
      } else {
        columns(lanes, target, begin, end, column);
      }
    });
  }
};

template <bool kWeighted, typename T, typename Id>
struct Targets {
  template <typename Unit>
  [[gnu::always_inline]] static void run(const Job<T, Id>& job, std::int64_t first,
                                         std::int64_t last) {
    const std::int64_t* const starts = job.lists.starts.data();
    const Pass<Unit, kWeighted, T, Id> pass{job, starts[last]};
    for (std::int64_t k = starts[first]; k < starts[first] + kAhead; ++k) pass.ask(k);
    for (std::int64_t target = first; target < last; ++target) pass(target);
  }
};

template <typename Id>
void check_below(std::span<const Id> ids, std::int64_t count, const char* what, int threads) {
  const std::int64_t bad = check_ids<Id>(ids, count, threads);
  if (bad < 0) return;
  throw InputError(std::string(what) + " holds " +
                   std::to_string(ids[static_cast<std::size_t>(bad)]) + " at position " +
                   std::to_string(bad) + ", expected 0 to " + std::to_string(count - 1));
}

void check_starts(const PlaceLists& lists) {
  const auto& starts = lists.starts;
  bool fits = !starts.empty() && starts.front() == 0 &&
              starts.back() == static_cast<std::int64_t>(lists.place.size());
  for (std::size_t t = 1; t < starts.size(); ++t) fits = fits && starts[t - 1] <= starts[t];
  if (!fits) throw InputError("starts do not ascend from 0 to the number of places");
}

}  // namespace

template <typename T, typename Id>
void sum_rows(const FeatureRows<T>& rows, std::span<const Id> node, const PlaceLists& lists,
              RowSum<T>* out, int threads) {
  check_starts(lists);
  const auto nodes = static_cast<std::int64_t>(node.size());
  check_below<std::uint32_t>(lists.place, node.data() != nullptr ? nodes : rows.rows, "place",
                             threads);
  check_below<Id>(node, rows.rows, "node", threads);
  const auto targets = static_cast<std::int64_t>(lists.starts.size()) - 1;
  if (targets == 0 || rows.width == 0) return;
  expect_writes(out, targets * rows.width * static_cast<std::int64_t>(sizeof(Sum<T>)));
  const Job<T, Id> job{rows, node.data(), lists, out};
  each_block(lists.starts.data(), targets, rows.width, threads,
             [&](std::int64_t first, std::int64_t last) {
               if (lists.weight != nullptr) {
                 on_this_processor<Targets<true, T, Id>>(job, first, last);
               } else {
                 on_this_processor<Targets<false, T, Id>>(job, first, last);
               }
             });
}

#define FOREGATHER_SUM_ROWS(T)                                                                     \
  template void sum_rows(const FeatureRows<T>&, std::span<const std::uint32_t>, const PlaceLists&, \
                         RowSum<T>*, int);                                                         \
  template void sum_rows(const FeatureRows<T>&, std::span<const std::int64_t>, const PlaceLists&,  \
                         RowSum<T>*, int);
FOREGATHER_SUM_ROWS(float)
FOREGATHER_SUM_ROWS(double)
FOREGATHER_SUM_ROWS(Float16)
FOREGATHER_SUM_ROWS(std::int8_t)
#undef FOREGATHER_SUM_ROWS

}  // namespace foregather::nn
