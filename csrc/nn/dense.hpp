// Dense: products of float32 matrices in lanes of 512 bits.
//
//     out[i, j] = start + sum over k of a(i, k) * b(k, j)
//
// where start is 0, bias[j] or what out held, and perhaps further products of other matrices. The
// sum is formed in the order of k, each step one fused multiplication and addition: the bits depend
// neither on threads nor on how the matrices are cut. `a` and `b` may be transposed by their
// strides.
//
// The library behind torch's own products (MKL) leaves these lanes unused on processors that are
// not Intel's, where it does half of what they can; `dense_pays` says whether this is such a
// processor. Elsewhere the same sums are formed one by one, for tests.
#pragma once

#include <cstdint>
#include <span>

namespace foregather::nn {

/// A matrix; a view. Entry (i, j) is data[i * row + j * column], and one of the strides is 1.
struct DenseView {
  const float* data;
  std::int64_t row;
  std::int64_t column;
};

/// One product: a is rows x inner, b is inner x columns.
struct DenseProduct {
  DenseView a;
  DenseView b;
  std::int64_t inner;
};

/// Where a product goes: row i begins at data + i * row. `add`: to what is there, else to bias
/// (one a column) or, where that is null, to 0.
struct DenseOut {
  float* data;
  std::int64_t row;
  bool add;
  const float* bias;
};

/// Whether this processor has such lanes and torch's library leaves them unused.
bool dense_pays();

/// The sum of products, one added after the other, of rows x columns each. `out` overlaps no a and
/// no b. threads <= 0: all that the process may use.
void dense(std::span<const DenseProduct> products, std::int64_t rows, std::int64_t columns,
           const DenseOut& out, int threads);

}  // namespace foregather::nn
