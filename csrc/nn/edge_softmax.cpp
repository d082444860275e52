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

template <typename T>
struct Job {
  const std::int64_t* ptr;
  std::int64_t heads;
  const T* z;     // or y, on the way back
  const T* grad;  // on the way back
  T* out;
};

template <typename T>
struct Forward {
  [[gnu::always_inline]] static void list(const Job<T>& job, std::int64_t begin, std::int64_t end,
                                          Sum<T>* most, Sum<T>* sums, std::vector<Sum<T>>& values) {
    const std::int64_t heads = job.heads, count = (end - begin) * heads;
    const T* const z = job.z + begin * heads;
    T* const out = job.out + begin * heads;
    values.resize(static_cast<std::size_t>(count + kLanes));  // lanes may reach beyond the last
    for (std::int64_t h = 0; h < heads; ++h) most[h] = widen(z[h]), sums[h] = 0;
    for (std::int64_t k = 0; k < count; k += heads) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const Sum<T> value = widen(z[k + h]);
        most[h] = value > most[h] || value != value ? value : most[h];
      }
    }
    for (std::int64_t k = 0; k < count; k += heads) {
      for (std::int64_t h = 0; h < heads; ++h) values[k + h] = widen(z[k + h]) - most[h];
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

  [[gnu::always_inline]] static void run(const Job<T>& job, std::int64_t first, std::int64_t last) {
    std::vector<Sum<T>> scratch(static_cast<std::size_t>(2 * job.heads)), values;
    for (std::int64_t row = first; row < last; ++row) {
      if (job.ptr[row] == job.ptr[row + 1]) continue;
      list(job, job.ptr[row], job.ptr[row + 1], scratch.data(), scratch.data() + job.heads, values);
    }
  }
};

template <typename T>
struct Backward {
  [[gnu::always_inline]] static void run(const Job<T>& job, std::int64_t first, std::int64_t last) {
    const std::int64_t heads = job.heads;
    std::vector<Sum<T>> sums(static_cast<std::size_t>(heads));
    for (std::int64_t row = first; row < last; ++row) {
      std::fill(sums.begin(), sums.end(), Sum<T>{0});
      const std::int64_t begin = job.ptr[row] * heads, end = job.ptr[row + 1] * heads;
      for (std::int64_t k = begin; k < end; k += heads) {
        for (std::int64_t h = 0; h < heads; ++h) {
          sums[h] += widen(job.z[k + h]) * widen(job.grad[k + h]);
        }
      }
      for (std::int64_t k = begin; k < end; k += heads) {
        for (std::int64_t h = 0; h < heads; ++h) {
          narrow(widen(job.z[k + h]) * (widen(job.grad[k + h]) - sums[h]), job.out[k + h]);
        }
      }
    }
  }
};

}  // namespace

template <typename T>
void edge_softmax(const std::int64_t* ptr, std::int64_t rows, std::int64_t heads, const T* z, T* y,
                  int threads) {
  if (heads == 0) return;
  const Job<T> job{ptr, heads, z, nullptr, y};
  each_block(ptr, rows, heads * 8, threads, [&](std::int64_t first, std::int64_t last) {
    on_this_processor<Forward<T>>(job, first, last);
  });
}

template <typename T>
void edge_softmax_gradient(const std::int64_t* ptr, std::int64_t rows, std::int64_t heads,
                           const T* y, const T* grad, T* out, int threads) {
  if (heads == 0) return;
  const Job<T> job{ptr, heads, y, grad, out};
  each_block(ptr, rows, heads * 2, threads, [&](std::int64_t first, std::int64_t last) {
    on_this_processor<Backward<T>>(job, first, last);
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

}  // namespace foregather::nn
