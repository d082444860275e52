// Max lists: column by column the largest of the rows of a list, and its way back.
//
//     out[r, c] = largest over k in the list of r of w(k) * x[index[k], c]
//     winner[r, c] = the place in the list, from 0, of the first entry that has it
//
// An empty list gives 0 and winner -1. A NaN is larger than all numbers, so that none is lost. The
// gradient of a value goes to its winner alone. Storage, weights and bits are as for sum_lists.
#pragma once

#include <cstdint>

#include "nn/sum_lists.hpp"

namespace foregather::nn {

/// Forward, with lists by target; heads are 1. `out` and `winner` have lists.rows rows. No list is
/// longer than 2^31 - 1.
template <typename T, typename Index>
void max_lists(const Lists<Index>& lists, const Heads<const T>& x, const Sum<T>* weight, T* out,
               std::int32_t* winner, int threads);

/// The gradient of x, with lists by source (index: targets; edge: numbers of edges). `grad` and
/// `winner` have a row for each target, whose list by target begins at edge first[target].
template <typename T, typename Index>
void max_lists_gradient(const Lists<Index>& lists, const Heads<const T>& grad,
                        const std::int32_t* winner, const std::int64_t* first, const Sum<T>* weight,
                        T* out, int threads);

}  // namespace foregather::nn
