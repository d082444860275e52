// Edge softmax: weights of edges that add up to 1 over the list of each target, and the way back.
//
//     y[k, h] = exp(z[k, h] - m) / sum over the list of exp(z[j, h] - m),  m = the largest z[., h]
//     gradient of z[k, h] = y[k, h] * (g[k, h] - sum over the list of y[j, h] * g[j, h])
//
// Either from logits z, or from values of the nodes at both ends, whose logits are never stored:
//
//     z[k, h] = leaky(given[source[k], h] + taken[t, h]),  leaky(v) = v where v > 0, else slope * v
//
// A list of one entry gets 1, whatever its number; an infinite or NaN largest number gives NaN, as
// in torch. Formed in Sum<T> in the order of the list; the exponential is this file's own (error
// below 2 units in the last place), so the bits depend neither on threads nor on the processor.
#pragma once

#include <cstdint>

#include "nn/sum_lists.hpp"

namespace foregather::nn {

/// Lists are given by `ptr`, rows + 1 entries; z and y are [ptr[rows], heads].
template <typename T>
void edge_softmax(const std::int64_t* ptr, std::int64_t rows, std::int64_t heads, const T* z, T* y,
                  int threads);

template <typename T>
void edge_softmax_gradient(const std::int64_t* ptr, std::int64_t rows, std::int64_t heads,
                           const T* y, const T* grad, T* out, int threads);

/// Values of nodes whose sum, along an edge, is the logit before leaky; views.
template <typename T>
struct EndValues {
  const T* given;  ///< [sources, heads]
  const T* taken;  ///< [lists, heads]
  double slope;
};

/// The softmax y of logits formed from the ends; `lists` are by target, without edge and limit.
template <typename T, typename Index>
void edge_attention(const Lists<Index>& lists, const EndValues<T>& ends, std::int64_t heads, T* y,
                    int threads);

/// From y and its gradient, the gradient of the sum at each edge, as y is laid out, and that of
/// `taken`, which is its sum over each list.
template <typename T, typename Index>
void edge_attention_gradient(const Lists<Index>& lists, const EndValues<T>& ends,
                             std::int64_t heads, const T* y, const T* grad, T* to_sum, T* to_taken,
                             int threads);

}  // namespace foregather::nn
