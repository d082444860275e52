#include "nn/edge_softmax.hpp"

#include <vector>

#include "nn/processor.hpp"
#include "nn/row_split.hpp"

namespace foregather::nn {
namespace {

template <typename A>
struct Exp;
template <>
struct Exp<float> {
  using Bits = detail::Ints;
  static constexpr int kTerms = 7, kShift = 23, kBias = 127;
  static constexpr float kLeast = -104, kRounder = 0x1.8p23f, kPerLog2 = 0x1.715476p0f;
  static constexpr float kLog2High = 0x1.62ep-1f, kLog2Low = 0x1.0bfbe8p-15f;
};
template <>
struct Exp<double> {
  using Bits = detail::Longs;
  static constexpr int kTerms = 13, kShift = 52, kBias = 1023;
  static constexpr double kLeast = -746, kRounder = 0x1.8p52, kPerLog2 = 0x1.71547652b82fep0;
  static constexpr double kLog2High = 0x1.62e42feep-1, kLog2Low = 0x1.a39ef35793c76p-33;
};

// exp(x) for x <= 0 or NaN, in place: x = k log 2 + r with |r| < 0.35, a Taylor sum for exp(r), and
// 2^k as a product of two powers, so that results below the normal range are rounded and not lost.
template <typename A, typename L>
[[gnu::always_inline]] inline void exponentials(L& x) {
  using E = Exp<A>;
  using Bits = typename E::Bits;
  x = x < E::kLeast ? L{} + E::kLeast : x;  // a NaN is not less
  const L shifted = x * E::kPerLog2 + E::kRounder;
  const L whole = shifted - E::kRounder;
  const L rest = (x - whole * E::kLog2High) - whole * E::kLog2Low;
  L sum = L{} + A{1};
  for (int term = E::kTerms; term >= 1; --term) sum = A{1} + rest * (A{1} / term) * sum;
  // The low bits of `shifted` are k; of a NaN they are anything, and the result is NaN.
  const Bits k = ((Bits)shifted << (E::kShift == 23 ? 10 : 13)) >> (E::kShift == 23 ? 10 : 13);
  const Bits half = k >> 1;
  const L low = (L)((half + E::kBias) << E::kShift);
  const L high = (L)((k - half + E::kBias) << E::kShift);
  x = sum * low * high;
}

// Logits as they were given.
template <typename T>
struct Stored {
  const T* z;
  std::int64_t heads;

  [[gnu::always_inline]] Sum<T> operator()(std::int64_t k, std::int64_t, std::int64_t h) const {
    return widen(z[k * heads + h]);
  }
};

// Sums of what the ends of edge k, which leads to t, have.
template <typename T, typename Index>
struct Ends {
  const Index* source;
  EndValues<T> ends;
  std::int64_t heads;

  [[gnu::always_inline]] Sum<T> sum(std::int64_t k, std::int64_t t, std::int64_t h) const {
    const auto from = static_cast<std::int64_t>(source[k]);
    return widen(ends.given[from * heads + h]) + widen(ends.taken[t * heads + h]);
  }
  [[gnu::always_inline]] Sum<T> slope(Sum<T> sum) const {
    return sum > 0 ? Sum<T>{1} : static_cast<Sum<T>>(ends.slope);
  }
  [[gnu::always_inline]] Sum<T> operator()(std::int64_t k, std::int64_t t, std::int64_t h) const {
    const Sum<T> value = sum(k, t, h);
    return value > 0 ? value : value * static_cast<Sum<T>>(ends.slope);
  }
};

template <typename T, typename Logit>
struct Job {
  const std::int64_t* ptr;
  std::int64_t heads;
  Logit logit;
  const T* y;     // on the way back
  const T* grad;  // on the way back
  T* out;
  T* to_taken;  // on the way back, from ends
};

// kHeads is the number of heads where that is known, so that their loops need not be; or 0.
template <int kHeads, typename T, typename Logit>
struct Forward {
  [[gnu::always_inline]] static void list(const Job<T, Logit>& job, std::int64_t row, Sum<T>* most,
                                          Sum<T>* sums, std::vector<Sum<T>>& values) {
    const std::int64_t begin = job.ptr[row], heads = kHeads > 0 ? kHeads : job.heads;
    const std::int64_t count = (job.ptr[row + 1] - begin) * heads;
    T* const out = job.out + begin * heads;
    values.resize(static_cast<std::size_t>(count + kLanes));  // lanes may reach beyond the last
    for (std::int64_t k = 0, at = begin; k < count; k += heads, ++at) {
      for (std::int64_t h = 0; h < heads; ++h) values[k + h] = job.logit(at, row, h);
    }
    for (std::int64_t h = 0; h < heads; ++h) most[h] = values[h], sums[h] = 0;
    for (std::int64_t k = 0; k < count; k += heads) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const Sum<T> value = values[k + h];
        most[h] = value > most[h] || value != value ? value : most[h];
      }
    }
    for (std::int64_t k = 0; k < count; k += heads) {
      for (std::int64_t h = 0; h < heads; ++h) values[k + h] -= most[h];
    }
    for (std::int64_t k = count; k < count + kLanes; ++k) values[k] = 0;
    for (std::int64_t k = 0; k < count; k += kLanes) {
      Lanes<T> some;
      std::memcpy(&some, values.data() + k, sizeof some);
      exponentials<Sum<T>>(some);
      std::memcpy(values.data() + k, &some, sizeof some);
    }
    for (std::int64_t k = 0; k < count; k += heads) {
      for (std::int64_t h = 0; h < heads; ++h) sums[h] += values[k + h];
    }
    for (std::int64_t k = 0; k < count; k += heads) {
      for (std::int64_t h = 0; h < heads; ++h) narrow(values[k + h] / sums[h], out[k + h]);
    }
  }

  template <typename Unit>
  [[gnu::always_inline]] static void run(const Job<T, Logit>& job, std::int64_t first,
                                         std::int64_t last) {
    std::vector<Sum<T>> scratch(static_cast<std::size_t>(2 * job.heads)), values;
    for (std::int64_t row = first; row < last; ++row) {
      if (job.ptr[row] == job.ptr[row + 1]) continue;
      list(job, row, scratch.data(), scratch.data() + job.heads, values);
    }
  }
};

template <int kHeads, bool kEnds, typename T, typename Logit>
struct Backward {
  template <typename Unit>
  [[gnu::always_inline]] static void run(const Job<T, Logit>& job, std::int64_t first,
                                         std::int64_t last) {
    const std::int64_t heads = kHeads > 0 ? kHeads : job.heads;
    std::vector<Sum<T>> sums(static_cast<std::size_t>(heads)), totals(sums);
    for (std::int64_t row = first; row < last; ++row) {
      std::fill(sums.begin(), sums.end(), Sum<T>{0});
      std::fill(totals.begin(), totals.end(), Sum<T>{0});
      const std::int64_t begin = job.ptr[row], end = job.ptr[row + 1];
      for (std::int64_t k = begin * heads; k < end * heads; k += heads) {
        for (std::int64_t h = 0; h < heads; ++h) {
          sums[h] += widen(job.y[k + h]) * widen(job.grad[k + h]);
        }
      }
      for (std::int64_t at = begin; at < end; ++at) {
        for (std::int64_t h = 0; h < heads; ++h) {
          const std::int64_t k = at * heads + h;
          Sum<T> value = widen(job.y[k]) * (widen(job.grad[k]) - sums[h]);
          if constexpr (kEnds) {
            value *= job.logit.slope(job.logit.sum(at, row, h));
            totals[h] += value;
          }
          narrow(value, job.out[k]);
        }
      }
      if constexpr (kEnds) {
        for (std::int64_t h = 0; h < heads; ++h) narrow(totals[h], job.to_taken[row * heads + h]);
      }
    }
  }
};

}  // namespace

template <typename T>
void edge_softmax(const std::int64_t* ptr, std::int64_t rows, std::int64_t heads, const T* z, T* y,
                  int threads) {
  if (heads == 0) return;
  const Job<T, Stored<T>> job{ptr, heads, {z, heads}, nullptr, nullptr, y, nullptr};
  each_block(ptr, rows, heads * 8, threads, [&](std::int64_t first, std::int64_t last) {
    on_this_processor<Forward<0, T, Stored<T>>>(job, first, last);
  });
}

template <typename T>
void edge_softmax_gradient(const std::int64_t* ptr, std::int64_t rows, std::int64_t heads,
                           const T* y, const T* grad, T* out, int threads) {
  if (heads == 0) return;
  const Job<T, Stored<T>> job{ptr, heads, {nullptr, heads}, y, grad, out, nullptr};
  each_block(ptr, rows, heads * 2, threads, [&](std::int64_t first, std::int64_t last) {
    on_this_processor<Backward<0, false, T, Stored<T>>>(job, first, last);
  });
}

template <typename T, typename Index>
void edge_attention(const Lists<Index>& lists, const EndValues<T>& ends, std::int64_t heads, T* y,
                    int threads) {
  if (heads == 0) return;
  using Logit = Ends<T, Index>;
  const Job<T, Logit> job{lists.ptr, heads,  {lists.index, ends, heads}, nullptr, nullptr,
                          y,         nullptr};
  each_block(lists.ptr, lists.rows, heads * 8, threads, [&](std::int64_t first, std::int64_t last) {
    if (heads == 4) return on_this_processor<Forward<4, T, Logit>>(job, first, last);
    if (heads == 8) return on_this_processor<Forward<8, T, Logit>>(job, first, last);
    on_this_processor<Forward<0, T, Logit>>(job, first, last);
  });
}

template <typename T, typename Index>
void edge_attention_gradient(const Lists<Index>& lists, const EndValues<T>& ends,
                             std::int64_t heads, const T* y, const T* grad, T* to_sum, T* to_taken,
                             int threads) {
  if (heads == 0) return;
  using Logit = Ends<T, Index>;
  const Job<T, Logit> job{lists.ptr, heads, {lists.index, ends, heads}, y, grad, to_sum, to_taken};
  each_block(lists.ptr, lists.rows, heads * 4, threads, [&](std::int64_t first, std::int64_t last) {
    if (heads == 4) return on_this_processor<Backward<4, true, T, Logit>>(job, first, last);
    if (heads == 8) return on_this_processor<Backward<8, true, T, Logit>>(job, first, last);
    on_this_processor<Backward<0, true, T, Logit>>(job, first, last);
  });
}

#define FOREGATHER_SOFTMAX(T)                                                                     \
  template void edge_softmax(const std::int64_t*, std::int64_t, std::int64_t, const T*, T*, int); \
  template void edge_softmax_gradient(const std::int64_t*, std::int64_t, std::int64_t, const T*,  \
                                      const T*, T*, int);
FOREGATHER_SOFTMAX(float)
FOREGATHER_SOFTMAX(double)
FOREGATHER_SOFTMAX(Bfloat16)
FOREGATHER_SOFTMAX(Float16)

#define FOREGATHER_ATTENTION(T, INDEX)                                                           \
  template void edge_attention(const Lists<INDEX>&, const EndValues<T>&, std::int64_t, T*, int); \
  template void edge_attention_gradient(const Lists<INDEX>&, const EndValues<T>&, std::int64_t,  \
                                        const T*, const T*, T*, T*, int);
FOREGATHER_EACH_NUMBER(FOREGATHER_ATTENTION)

}  // namespace foregather::nn
