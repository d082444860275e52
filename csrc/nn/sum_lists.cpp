#include "nn/sum_lists.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "nn/processor.hpp"
#include "nn/row_split.hpp"

namespace foregather::nn {
namespace {

// What a pass needs beside its lists; `factor` are the reciprocals of Weights::sizes.
template <typename T, typename Index>
struct Job {
  Lists<Index> lists;
  Heads<const T> x;
  const Sum<T>* weight;
  const Sum<T>* factor;
  bool mean;
  T* out;
};

template <typename Unit, bool kWeighted, typename T, typename Index>
struct Pass {
  const Job<T, Index>& job;
  std::int64_t last;  // entries that this thread will come to

  [[gnu::always_inline]] void ask(std::int64_t k) const {
    if (k >= last) return;
    const std::int64_t row = job.lists.index[k];
    if (row >= job.lists.limit) return;
    prefetch_row(job.x.data + row * job.x.stride(), job.x.stride());
  }

  [[gnu::always_inline]] Sum<T> weight(std::int64_t k, std::int64_t head) const {
    Sum<T> w = 1;
    if (job.weight != nullptr) {
      const std::int64_t edge = job.lists.edge != nullptr ? job.lists.edge[k] : k;
      w = job.weight[edge * job.x.heads + head];
    }
    if (job.factor != nullptr) w *= job.factor[job.lists.index[k]];
    return w;
  }

  // Columns [column, column + 8 V) of a row; the first pass over a list asks for rows to come.
  template <std::size_t... V>
  [[gnu::always_inline]] void columns(std::index_sequence<V...>, std::int64_t row,
                                      std::int64_t begin, std::int64_t end, std::int64_t head,
                                      std::int64_t column, bool asking) const {
    Lanes<T> sums[sizeof...(V)] = {};
    const std::int64_t stride = job.x.stride();
    const T* const x = job.x.data + job.x.start(head) + column;
    for (std::int64_t k = begin; k < end; ++k) {
      if (asking) ask(k + kAhead);
      const T* const from = x + static_cast<std::int64_t>(job.lists.index[k]) * stride;
      Lanes<T> value[sizeof...(V)];
      (load_by<Unit, T>(from + V * kLanes, value[V]), ...);
      if constexpr (kWeighted) {
        const Sum<T> w = weight(k, head);
        ((value[V] *= w), ...);
      }
      ((sums[V] += value[V]), ...);
    }
    if (job.mean && end - begin > 1) {
      const auto size = static_cast<Sum<T>>(end - begin);
      ((sums[V] /= size), ...);
    }
    T* const to = job.out + (row * job.x.heads + head) * job.x.width + column;
    (store_by<Unit, T>(sums[V], to + V * kLanes), ...);
  }

  // Fewer columns than lanes.
  [[gnu::always_inline]] void few(std::int64_t row, std::int64_t begin, std::int64_t end,
                                  std::int64_t head, bool asking) const {
    const std::int64_t width = job.x.width;
    Sum<T> sums[kLanes] = {};
    for (std::int64_t k = begin; k < end; ++k) {
      if (asking) ask(k + kAhead);
      const T* const from = job.x.data + job.lists.index[k] * job.x.stride() + job.x.start(head);
      const Sum<T> w = kWeighted ? weight(k, head) : Sum<T>{1};
      for (std::int64_t j = 0; j < width; ++j) {
        sums[j] += kWeighted ? widen(from[j]) * w : widen(from[j]);
      }
    }
    T* const to = job.out + (row * job.x.heads + head) * width;
    const auto size = static_cast<Sum<T>>(job.mean && end > begin ? end - begin : 1);
    for (std::int64_t j = 0; j < width; ++j) narrow(sums[j] / size, to[j]);
  }

  [[gnu::always_inline]] void operator()(std::int64_t row) const {
    const std::int64_t begin = job.lists.ptr[row];
    std::int64_t end = job.lists.ptr[row + 1];
    while (end > begin && job.lists.index[end - 1] >= job.lists.limit) --end;
    each_columns<T>(job.x.heads, job.x.width,
                    [&](auto lanes, std::int64_t head, std::int64_t column) {
                      const bool asking = head == 0 && column == 0;
                      if constexpr (decltype(lanes)::size() == 0) {
                        few(row, begin, end, head, asking);
                      } else {
                        columns(lanes, row, begin, end, head, column, asking);
                      }
                    });
  }
};

template <bool kWeighted, typename T, typename Index>
struct Rows {
  template <typename Unit>
  [[gnu::always_inline]] static void run(const Job<T, Index>& job, std::int64_t first,
                                         std::int64_t last) {
    const Pass<Unit, kWeighted, T, Index> pass{job, job.lists.ptr[last]};
    for (std::int64_t k = job.lists.ptr[first]; k < job.lists.ptr[first] + kAhead; ++k) pass.ask(k);
    for (std::int64_t row = first; row < last; ++row) pass(row);
  }
};

}  // namespace

template <typename T, typename Index>
void sum_lists(const Lists<Index>& lists, const Heads<const T>& x, const Weights<T>& weights,
               bool mean, T* out, int threads) {
  const std::int64_t values = x.heads * x.width;
  if (lists.rows == 0 || values == 0) return;
  std::vector<Sum<T>> factor;
  if (weights.sizes != nullptr) {
    factor.resize(static_cast<std::size_t>(lists.limit));
    for (std::size_t i = 0; i < factor.size(); ++i) {
      const std::int64_t size = weights.sizes[i + 1] - weights.sizes[i];
      factor[i] = Sum<T>{1} / static_cast<Sum<T>>(std::max<std::int64_t>(size, 1));
    }
  }
  const Job<T, Index> job{lists, x,  weights.weight, factor.empty() ? nullptr : factor.data(),
                          mean,  out};
  expect_writes(out, lists.rows * values * static_cast<std::int64_t>(sizeof(T)));
  const bool weighted = job.weight != nullptr || job.factor != nullptr;
  each_block(lists.ptr, lists.rows, values, threads, [&](std::int64_t first, std::int64_t last) {
    if (weighted) {
      on_this_processor<Rows<true, T, Index>>(job, first, last);
    } else {
      on_this_processor<Rows<false, T, Index>>(job, first, last);
    }
  });
}

#define FOREGATHER_SUMS(T, INDEX)                                                                  \
  template void sum_lists(const Lists<INDEX>&, const Heads<const T>&, const Weights<T>&, bool, T*, \
                          int);
FOREGATHER_EACH_NUMBER(FOREGATHER_SUMS)

}  // namespace foregather::nn
