// Sum rows: adds up rows of a feature matrix by target, without copying them.
//
//     out[t] = sum over k in [starts[t], starts[t + 1]) of weight[k] * row(place[k])
//
// where row(p) is row p of the matrix, or row node[p] if there are nodes. Products and sums are
// formed in Sum<T>, in the order of k, and not rounded further: out has that type. So they are the
// bits of gathering rows first and adding them up with sum_lists, for float32 and float64, and
// for float16 what sum_lists rounds to float16 when it stores. int8 rows stand for row * scale, one
// rounding, as gather_scaled makes them. A list that is empty sums to 0. The bits depend neither on
// threads nor on the processor.
//
// Places and nodes are checked before the first byte is written. The matrix may be memory-mapped;
// the output does not overlap it.
#pragma once

#include <cstdint>
#include <span>

#include "nn/number.hpp"

namespace foregather::nn {

/// Lists of places by target; views.
struct PlaceLists {
  std::span<const std::int64_t> starts;  ///< targets + 1 entries, ascending from 0 to places
  std::span<const std::uint32_t> place;
  const float* weight;  ///< one a place, or null for 1
};

/// A row-major matrix; a view. T is float, double, Float16, or std::int8_t with a scale.
template <typename T>
struct FeatureRows {
  const T* data;
  std::int64_t rows;
  std::int64_t width;
  const float* scale;  ///< one a column, for std::int8_t alone
};

/// What sums of rows stored as T are.
template <typename T>
using RowSum = Sum<T>;

/// Sums as stated above; `node` may be empty, and Id is std::uint32_t or std::int64_t. Throws
/// InputError where a place, a node or a start is out of range; then nothing was written.
template <typename T, typename Id>
void sum_rows(const FeatureRows<T>& rows, std::span<const Id> node, const PlaceLists& lists,
              RowSum<T>* out, int threads);

}  // namespace foregather::nn
