#include "nn/pair_dots.hpp"

#include <algorithm>

#include "nn/processor.hpp"
#include "parallel/pool.hpp"

namespace foregather::nn {
namespace {

constexpr std::int64_t kRows = 4;     // rows whose sums are in registers
constexpr std::int64_t kVectors = 2;  // vectors of columns beside each other, for each row
constexpr std::int64_t kBlock = 16;   // rows that a thread takes at a time

template <typename T>
struct Job {
  const T* a;
  const T* b;
  std::int64_t width;
  std::int64_t columns;
  T* out;
};

template <std::int64_t kCount, typename T>
[[gnu::always_inline]] inline void block(const Job<T>& job, std::int64_t row, std::int64_t column) {
  Lanes<T> sums[kCount][kVectors] = {};
  for (std::int64_t c = 0; c < job.width; ++c) {
    Lanes<T> values[kVectors];
    for (std::int64_t v = 0; v < kVectors; ++v) {
      load(job.b + c * job.columns + column + v * kLanes, values[v]);
    }
    for (std::int64_t r = 0; r < kCount; ++r) {
      const T factor = job.a[(row + r) * job.width + c];
      for (std::int64_t v = 0; v < kVectors; ++v) sums[r][v] += values[v] * factor;
    }
  }
  for (std::int64_t r = 0; r < kCount; ++r) {
    T* const to = job.out + (row + r) * job.columns + column;
    for (std::int64_t v = 0; v < kVectors; ++v) {
      std::memcpy(to + v * kLanes, &sums[r][v], sizeof sums[r][v]);
    }
  }
}

// Columns that fill no vector, one by one and in the same order.
template <typename T>
[[gnu::always_inline]] inline void rest(const Job<T>& job, std::int64_t row, std::int64_t column) {
  for (; column < job.columns; ++column) {
    T sum = 0;
    for (std::int64_t c = 0; c < job.width; ++c) {
      sum += job.b[c * job.columns + column] * job.a[row * job.width + c];
    }
    job.out[row * job.columns + column] = sum;
  }
}

template <typename T>
struct Rows {
  template <typename Unit>
  [[gnu::always_inline]] static void run(const Job<T>& job, std::int64_t first, std::int64_t last) {
    constexpr std::int64_t kStep = kVectors * kLanes;
    const std::int64_t whole = job.columns - job.columns % kStep;
    for (std::int64_t column = 0; column < whole; column += kStep) {
      std::int64_t row = first;
      for (; row + kRows <= last; row += kRows) block<kRows>(job, row, column);
      for (; row < last; ++row) block<1>(job, row, column);
    }
    for (std::int64_t row = first; row < last; ++row) rest(job, row, whole);
  }
};

}  // namespace

template <typename T>
void pair_dots(const T* a, const T* b, std::int64_t rows, std::int64_t width, std::int64_t columns,
               T* out, int threads) {
  const Job<T> job{a, b, width, columns, out};
  parallel_blocks(rows, threads, kBlock, [&](std::int64_t first, std::int64_t last, int) {
    on_this_processor<Rows<T>>(job, first, last);
  });
}

template void pair_dots(const float*, const float*, std::int64_t, std::int64_t, std::int64_t,
                        float*, int);
template void pair_dots(const double*, const double*, std::int64_t, std::int64_t, std::int64_t,
                        double*, int);

}  // namespace foregather::nn
