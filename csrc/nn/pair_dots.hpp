// Pair dots: the product of every row of one matrix with every column of another.
//
//     out[i, j] = sum over c of a[i, c] * b[c, j]
//
// Products are added in the order of c for every pair, without fused multiply-adds, so the bits of
// a score depend neither on threads, on the processor, nor on which other pairs are computed with
// it. A library's matrix product promises none of these.
#pragma once

#include <cstdint>

namespace foregather::nn {

/// `a` is [rows, width], `b` is [width, columns], `out` is [rows, columns], all without gaps.
template <typename T>
void pair_dots(const T* a, const T* b, std::int64_t rows, std::int64_t width, std::int64_t columns,
               T* out, int threads);

}  // namespace foregather::nn
