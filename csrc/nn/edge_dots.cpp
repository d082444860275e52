#include "nn/edge_dots.hpp"

#include <type_traits>

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

// The products of kHeads heads of two rows, side by side so that no addition waits for the one
// before; x goes on by `step` from head to head. With kChosen over the columns that `place` won.
template <typename Unit, int kHeads, bool kChosen, typename T>
[[gnu::always_inline]] inline void dots(const T* x, std::int64_t step, const T* grad,
                                        std::int64_t width, const std::int32_t* winner,
                                        std::int32_t place, Sum<T>* out) {
  Lanes<T> sums[kHeads] = {};
  std::int64_t j = 0;
  for (; j + kLanes <= width; j += kLanes) {
    for (int h = 0; h < kHeads; ++h) {
      Lanes<T> a, b;
      load_by<Unit, T>(x + h * step + j, a);
      load_by<Unit, T>(grad + h * width + j, b);
      a *= b;
      if constexpr (kChosen) {
        detail::Ints won;
        std::memcpy(&won, winner + h * width + j, sizeof won);
        a = __builtin_convertvector(won == place, Mask<T>) ? a : Lanes<T>{};
      }
      sums[h] += a;
    }
  }
  for (int h = 0; h < kHeads; ++h) out[h] = sum_lanes(sums[h]);
  for (; j < width; ++j) {
    for (int h = 0; h < kHeads; ++h) {
      if (kChosen && winner[h * width + j] != place) continue;
      out[h] += widen(x[h * step + j]) * widen(grad[h * width + j]);
    }
  }
}

template <bool kChosen, typename T, typename Index>
struct Rows {
  template <typename Unit>
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
      const auto size = static_cast<Sum<T>>(end - begin);
      const std::int64_t step = job.x.start(1);
      for (std::int64_t k = begin; k < end; ++k) {
        if (k + kAhead < over) prefetch_row(row(k + kAhead), stride);
        const auto place = static_cast<std::int32_t>(k - begin);
        Sum<T>* const out = job.out + k * heads;
        const auto some = [&](auto count, std::int64_t head) {
          const std::int64_t at = head * width;
          dots<Unit, decltype(count)::value, kChosen>(row(k) + job.x.start(head), step, grad + at,
                                                      width, kChosen ? winner + at : nullptr, place,
                                                      out + head);
        };
        std::int64_t head = 0;
        for (; head + 4 <= heads; head += 4) some(std::integral_constant<int, 4>{}, head);
        for (; head < heads; ++head) some(std::integral_constant<int, 1>{}, head);
        for (head = 0; head < heads && job.mean; ++head) out[head] /= size;
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
