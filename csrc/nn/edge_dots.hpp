// Edge dots: for every edge and head, the product of its source's row and its target's row.
//
//     out[k, h] = sum over c of x[source[k], h, c] * grad[t, h, c]   for k in the list of t
//
// (x[source[k], c] where all heads read one row),
// which is the gradient of a weighted sum by its weights; divided by the length of the list where
// the sum was a mean, and over those columns only whose largest value came from edge k where it was
// a maximum. Products are added in eight lanes and the lanes in a fixed order, so the bits depend
// neither on threads nor on the processor.
#pragma once

#include <cstdint>

#include "nn/sum_lists.hpp"

namespace foregather::nn {

/// `grad` has a row for each list; `winner` is null or, as max_lists writes it, a number for each
/// of its values. `out` is [entries of all lists, heads].
template <typename T, typename Index>
void edge_dots(const Lists<Index>& lists, const Heads<const T>& x, const T* grad, bool mean,
               const std::int32_t* winner, Sum<T>* out, int threads);

}  // namespace foregather::nn
