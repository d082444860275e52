#include "nn/dense.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "parallel/pool.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define FOREGATHER_LANES 1
#define FOREGATHER_WIDE [[gnu::target("avx512f,fma")]]
#else
#define FOREGATHER_LANES 0
#endif

namespace foregather::nn {
namespace {

constexpr std::int64_t kLane = 16;          // floats of a register
constexpr std::int64_t kPanel = 4 * kLane;  // columns that are formed together, at most
constexpr std::int64_t kInner = 512;        // terms between two visits of the output, short rows
constexpr std::int64_t kStream = 256;       // the same where many rows are summed up
constexpr std::int64_t kRows = 192;         // rows of a task
constexpr std::int64_t kGrain = 1 << 18;    // multiplications that are worth a thread

// The sums one by one, in the same order and with the same roundings.
void one_by_one(const DenseView& a, const DenseView& b, const DenseShape& shape,
                const DenseOut& out) {
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    for (std::int64_t j = 0; j < shape.columns; ++j) {
      float* const to = out.data + i * out.row + j;
      float sum = out.add ? *to : out.bias != nullptr ? out.bias[j] : 0.0f;
      for (std::int64_t k = 0; k < shape.inner; ++k) {
        sum = std::fma(a.data[i * a.row + k * a.column], b.data[k * b.row + j * b.column], sum);
      }
      *to = sum;
    }
  }
}

#if FOREGATHER_LANES

// What a tile of registers reads and writes.
struct Tile {
  const float* a;
  std::int64_t a_row, a_step;  // strides of a in i and in k
  const float* b;
  std::int64_t b_step;  // stride of b in k
  std::int64_t inner;
  float* out;
  std::int64_t out_row;
  const float* bias;  // of the first column, or null
  bool add;
};

// kHeight x (kWide * 16) entries in registers; `last` masks the last lanes of each row.
template <int kHeight, int kWide>
FOREGATHER_WIDE void tile(const Tile& t, __mmask16 last) {
  __m512 sum[kHeight][kWide];
#pragma GCC unroll 16
  for (int i = 0; i < kHeight; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kWide; ++v) {
      const __mmask16 mask = v + 1 == kWide ? last : static_cast<__mmask16>(0xffff);
      if (t.add) {
        sum[i][v] = _mm512_maskz_loadu_ps(mask, t.out + i * t.out_row + v * kLane);
      } else if (t.bias != nullptr) {
        sum[i][v] = _mm512_maskz_loadu_ps(mask, t.bias + v * kLane);
      } else {
        sum[i][v] = _mm512_setzero_ps();
      }
    }
  }
  const float *a = t.a, *b = t.b;
  for (std::int64_t k = 0; k < t.inner; ++k, a += t.a_step, b += t.b_step) {
    __m512 row[kWide];
#pragma GCC unroll 4
    for (int v = 0; v < kWide; ++v) {
      row[v] = v + 1 == kWide ? _mm512_maskz_loadu_ps(last, b + v * kLane)
                              : _mm512_loadu_ps(b + v * kLane);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kHeight; ++i) {
      const __m512 value = _mm512_set1_ps(a[i * t.a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < kWide; ++v) sum[i][v] = _mm512_fmadd_ps(value, row[v], sum[i][v]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kHeight; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kWide; ++v) {
      const __mmask16 mask = v + 1 == kWide ? last : static_cast<__mmask16>(0xffff);
      _mm512_mask_storeu_ps(t.out + i * t.out_row + v * kLane, mask, sum[i][v]);
    }
  }
}

// All rows of a panel of kWide registers, as many at a time as registers hold.
template <int kWide>
void strips(Tile t, std::int64_t rows, __mmask16 last) {
  constexpr int kMost = kWide == 1 ? 14 : kWide == 2 ? 12 : kWide == 3 ? 8 : 6;
  const auto advance = [&](std::int64_t by) {
    t.a += by * t.a_row, t.out += by * t.out_row, rows -= by;
  };
  for (; rows >= kMost; advance(kMost)) tile<kMost, kWide>(t, last);
  for (; rows >= 4; advance(4)) tile<4, kWide>(t, last);
  for (; rows >= 2; advance(2)) tile<2, kWide>(t, last);
  if (rows == 1) tile<1, kWide>(t, last);
}

void panel(const Tile& t, std::int64_t rows, std::int64_t columns) {
  const std::int64_t wide = (columns + kLane - 1) / kLane, left = columns - (wide - 1) * kLane;
  const auto last = static_cast<__mmask16>((1u << left) - 1u);
  if (wide == 4) return strips<4>(t, rows, last);
  if (wide == 3) return strips<3>(t, rows, last);
  if (wide == 2) return strips<2>(t, rows, last);
  strips<1>(t, rows, last);
}

// b by panels of kPanel columns, each its rows one after another; entries past the end are 0.
struct Packed {
  Packed(const DenseView& b, std::int64_t inner, std::int64_t columns)
      : panels((columns + kPanel - 1) / kPanel),
        values(new float[static_cast<std::size_t>(inner * panels * kPanel)]) {
    for (std::int64_t p = 0; p < panels; ++p) {
      const std::int64_t first = p * kPanel, count = std::min(kPanel, columns - first);
      float* const to = values.get() + p * inner * kPanel;
      for (std::int64_t begin = 0; begin < inner; begin += kLane) {
        const std::int64_t end = std::min(inner, begin + kLane);
        for (std::int64_t j = 0; j < kPanel; ++j) {
          for (std::int64_t k = begin; k < end; ++k) {
            to[k * kPanel + j] = j < count ? b.data[k * b.row + (first + j) * b.column] : 0.0f;
          }
        }
      }
    }
  }

  std::int64_t panels;
  std::unique_ptr<float[]> values;
};

// Many rows, few terms: tasks are blocks of rows, and b, which is small, is packed once.
void by_rows(const DenseView& a, const DenseView& b, const DenseShape& shape, const DenseOut& out,
             int threads) {
  const Packed packed(b, shape.inner, shape.columns);
  const auto block = [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t k = 0; k < shape.inner || k == 0; k += kInner) {
      const std::int64_t terms = std::min(kInner, shape.inner - k);
      for (std::int64_t p = 0; p < packed.panels; ++p) {
        const std::int64_t first = p * kPanel;
        const Tile t{a.data + begin * a.row + k * a.column,
                     a.row,
                     a.column,
                     packed.values.get() + (p * shape.inner + k) * kPanel,
                     kPanel,
                     terms,
                     out.data + begin * out.row + first,
                     out.row,
                     out.bias == nullptr ? nullptr : out.bias + first,
                     out.add || k > 0};
        panel(t, end - begin, std::min(kPanel, shape.columns - first));
      }
    }
  };
  if (shape.rows * shape.inner * shape.columns < 2 * kGrain) return block(0, shape.rows, 0);
  parallel_blocks(shape.rows, threads, kRows, block);
}

// Few rows, many terms: each thread forms its rows of the output, and b is read as it lies.
void by_terms(const DenseView& a, const DenseView& b, const DenseShape& shape, const DenseOut& out,
              int threads) {
  const auto part = [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t k = 0; k < shape.inner || k == 0; k += kStream) {
      const std::int64_t terms = std::min(kStream, shape.inner - k);
      for (std::int64_t first = 0; first < shape.columns; first += kPanel) {
        const Tile t{a.data + begin * a.row + k * a.column,
                     a.row,
                     a.column,
                     b.data + k * b.row + first,
                     b.row,
                     terms,
                     out.data + begin * out.row + first,
                     out.row,
                     out.bias == nullptr ? nullptr : out.bias + first,
                     out.add || k > 0};
        panel(t, end - begin, std::min(kPanel, shape.columns - first));
      }
    }
  };
  const std::int64_t work = std::max<std::int64_t>(1, shape.inner * shape.columns);
  parallel_for(shape.rows, threads, std::max<std::int64_t>(6, kGrain / work), part);
}

bool has_lanes() {
  static const bool has = __builtin_cpu_supports("avx512f") != 0;
  return has;
}

#endif

}  // namespace

bool dense_pays() {
#if FOREGATHER_LANES
  return has_lanes() && __builtin_cpu_is("intel") == 0;
#else
  return false;
#endif
}

void dense(const DenseView& a, const DenseView& b, const DenseShape& shape, const DenseOut& out,
           int threads) {
  if (shape.rows <= 0 || shape.columns <= 0) return;
#if FOREGATHER_LANES
  if (has_lanes()) {
    if (b.column == 1 && shape.inner > 4 * shape.rows) return by_terms(a, b, shape, out, threads);
    return by_rows(a, b, shape, out, threads);
  }
#endif
  one_by_one(a, b, shape, out);
}

}  // namespace foregather::nn
