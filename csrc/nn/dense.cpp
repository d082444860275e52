#include "nn/dense.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/cpu_features.hpp"
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
void one_by_one(const DenseProduct& product, std::int64_t rows, std::int64_t columns,
                const DenseOut& out) {
  const DenseView &a = product.a, &b = product.b;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      float* const to = out.data + i * out.row + j;
      float sum = out.add ? *to : out.bias != nullptr ? out.bias[j] : 0.0f;
      for (std::int64_t k = 0; k < product.inner; ++k) {
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

// Where a tile begins: rows from `row` on, terms from `k` on and columns from `first` on.
Tile tile_at(const DenseView& a, const float* b, std::int64_t b_step, const DenseOut& out,
             std::int64_t row, std::int64_t k, std::int64_t first) {
  return {a.data + row * a.row + k * a.column,
          a.row,
          a.column,
          b,
          b_step,
          0,
          out.data + row * out.row + first,
          out.row,
          out.bias == nullptr ? nullptr : out.bias + first,
          out.add || k > 0};
}

// Many rows, few terms: tasks are blocks of rows, which stay in the cache from one product to the
// next, and each b, which is small, is packed once.
void by_rows(std::span<const DenseProduct> products, std::int64_t rows, std::int64_t columns,
             const DenseOut& out, int threads) {
  std::vector<Packed> packed;
  std::int64_t terms = 0;
  for (const DenseProduct& one : products) {
    packed.emplace_back(one.b, one.inner, columns);
    terms += one.inner;
  }
  const auto block = [&](std::int64_t begin, std::int64_t end, int) {
    DenseOut to = out;
    for (std::size_t q = 0; q < products.size(); ++q, to.add = true) {
      const std::int64_t inner = products[q].inner;
      for (std::int64_t k = 0; k < inner || k == 0; k += kInner) {
        for (std::int64_t p = 0; p < packed[q].panels; ++p) {
          const float* const b = packed[q].values.get() + (p * inner + k) * kPanel;
          Tile t = tile_at(products[q].a, b, kPanel, to, begin, k, p * kPanel);
          t.inner = std::min(kInner, inner - k);
          panel(t, end - begin, std::min(kPanel, columns - p * kPanel));
        }
      }
    }
  };
  if (rows * terms * columns < 2 * kGrain) return block(0, rows, 0);
  parallel_blocks(rows, threads, kRows, block);
}

// Few rows, many terms: each thread forms its rows of the output, and b is read as it lies.
void by_terms(const DenseProduct& product, std::int64_t rows, std::int64_t columns,
              const DenseOut& out, int threads) {
  const std::int64_t inner = product.inner;
  const auto part = [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t k = 0; k < inner; k += kStream) {
      for (std::int64_t first = 0; first < columns; first += kPanel) {
        const float* const b = product.b.data + k * product.b.row + first;
        Tile t = tile_at(product.a, b, product.b.row, out, begin, k, first);
        t.inner = std::min(kStream, inner - k);
        panel(t, end - begin, std::min(kPanel, columns - first));
      }
    }
  };
  const std::int64_t work = std::max<std::int64_t>(1, inner * columns);
  parallel_for(rows, threads, std::max<std::int64_t>(6, kGrain / work), part);
}

bool has_lanes() { return cpu_features().avx512f && cpu_features().fma; }

#endif

}  // namespace

bool dense_pays() {
#if FOREGATHER_LANES
  return has_lanes() && !cpu_features().intel;
#else
  return false;
#endif
}

void dense(std::span<const DenseProduct> products, std::int64_t rows, std::int64_t columns,
           const DenseOut& out, int threads) {
  if (rows <= 0 || columns <= 0) return;
#if FOREGATHER_LANES
  if (has_lanes()) {
    const DenseProduct& first = products.front();
    const bool many_terms = first.b.column == 1 && first.inner > 4 * rows;
    if (products.size() == 1 && many_terms) return by_terms(first, rows, columns, out, threads);
    return by_rows(products, rows, columns, out, threads);
  }
#endif
  DenseOut to = out;
  for (const DenseProduct& one : products) {
    one_by_one(one, rows, columns, to);
    to.add = true;
  }
}

}  // namespace foregather::nn
