#include "nn/edge_dots.hpp"

#include "nn/processor.hpp"
#include "nn/row_split.hpp"

namespace foregather::nn {
namespace {

template <typename T, typename Index>
struct Job {
  Lists<Index> lists;
  Heads<const T> x;
  const T* grad;
  bool mean;
  const std::int32_t* winner;
  Sum<T>* out;
};

// The product of one head of two rows; with kChosen over the columns that `place` won.
template <bool kChosen, typename T>
[[gnu::always_inline]] inline Sum<T> dot(const T* x, const T* grad, std::int64_t width,
                                         const std::int32_t* winner, std::int32_t place) {
  Lanes<T> sums = {};
  std::int64_t j = 0;
  for (; j + kLanes <= width; j += kLanes) {
    Lanes<T> a, b;
    load(x + j, a);
    load(grad + j, b);
    a *= b;
    if constexpr (kChosen) {
      detail::Ints won;
      std::memcpy(&won, winner + j, sizeof won);
      a = __builtin_convertvector(won == place, Mask<T>) ? a : Lanes<T>{};
    }
    sums += a;
  }
  Sum<T> sum = sum_lanes(sums);
  for (; j < width; ++j) {
    if (!kChosen || winner[j] == place) sum += widen(x[j]) * widen(grad[j]);
  }
  return sum;
}

template <bool kChosen, typename T, typename Index>
struct Rows {
  [[gnu::always_inline]] static void run(const Job<T, Index>& job, std::int64_t first,
                                         std::int64_t last) {
    const std::int64_t heads = job.x.heads, width = job.x.width, values = heads * width;
    const std::int64_t stride = job.x.stride();
    const std::int64_t* const ptr = job.lists.ptr;
    const Index* const index = job.lists.index;
    const auto row = [=](std::int64_t k) {
      return job.x.data + static_cast<std::int64_t>(index[k]) * stride;
    };
    const std::int64_t over = ptr[last];
    for (std::int64_t k = ptr[first]; k < std::min(ptr[first] + kAhead, over); ++k) {
      prefetch_row(row(k), stride);
    }
    for (std::int64_t t = first; t < last; ++t) {
      const std::int64_t begin = ptr[t], end = ptr[t + 1];
      const T* const grad = job.grad + t * values;
      const std::int32_t* const winner = kChosen ? job.winner + t * values : nullptr;
      const auto size = static_cast<Sum<T>>(job.mean ? end - begin : 1);
      for (std::int64_t k = begin; k < end; ++k) {
        if (k + kAhead < over) prefetch_row(row(k + kAhead), stride);
        for (std::int64_t head = 0; head < heads; ++head) {
          const std::int64_t at = head * width;
          job.out[k * heads + head] =
              dot<kChosen>(row(k) + job.x.start(head), grad + at, width,
                           kChosen ? winner + at : nullptr, static_cast<std::int32_t>(k - begin)) /
              size;
        }
      }
    }
  }
};

}  // namespace

template <typename T, typename Index>
void edge_dots(const Lists<Index>& lists, const Heads<const T>& x, const T* grad, bool mean,
               const std::int32_t* winner, Sum<T>* out, int threads) {
  const Job<T, Index> job{lists, x, grad, mean, winner, out};
  const std::int64_t values = x.heads * x.width;
  each_block(lists.ptr, lists.rows, values, threads, [&](std::int64_t first, std::int64_t last) {
    if (winner != nullptr) {
      on_this_processor<Rows<true, T, Index>>(job, first, last);
    } else {
      on_this_processor<Rows<false, T, Index>>(job, first, last);
    }
  });
}

#define FOREGATHER_DOTS(T, INDEX)                                                     \
  template void edge_dots(const Lists<INDEX>&, const Heads<const T>&, const T*, bool, \
                          const std::int32_t*, Sum<T>*, int);
FOREGATHER_EACH_NUMBER(FOREGATHER_DOTS)

}  // namespace foregather::nn
