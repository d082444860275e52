// Edge softmax: weights of edges that add up to 1 over the list of each target, and the way back.
//
//     y[k, h] = exp(z[k, h] - m) / sum over the list of exp(z[j, h] - m),  m = the largest z[., h]
//     gradient of z[k, h] = y[k, h] * (g[k, h] - sum over the list of y[j, h] * g[j, h])
//
// A list of one entry gets 1, whatever its number; an infinite or NaN largest number gives NaN, as
// in torch. Formed in Sum<T> in the order of the list; the exponential is this file's own (error
// below 2 units in the last place), so the bits depend neither on threads nor on the processor.
#pragma once

#include <cstdint>

#include "nn/number.hpp"

namespace foregather::nn {

/// Lists are given by `ptr`, rows + 1 entries; z and y are [ptr[rows], heads].
template <typename T>
void edge_softmax(const std::int64_t* ptr, std::int64_t rows, std::int64_t heads, const T* z, T* y,
                  int threads);

template <typename T>
void edge_softmax_gradient(const std::int64_t* ptr, std::int64_t rows, std::int64_t heads,
                           const T* y, const T* grad, T* out, int threads);

}  // namespace foregather::nn
