// Sum lists: row r of the result is the sum of the rows x[index[k]] over the list of r.
//
// It is the forward pass of sum, mean and weighted sums, with lists by target; and, as the
// derivative of a sum is a sum over the transposed lists, also the pass that gives the gradient of
// x, with lists by source. Nothing is added to memory that another thread writes, so there are no
// atomics.
//
//     out[r, h, c] = sum over k in [ptr[r], ptr[r + 1]) with index[k] < limit of
//                    w(k, h) * x[index[k], h, c],   divided by the length of the list for a mean
//     w(k, h) = weight[edge[k], h] / size[index[k]]
//
// where x has the row of a source once for each head, or once for all of them (x[index[k], c]);
// without a weight, edge or sizes: 1 for the first and the last, k for edge[k]. Products and sums
// are formed in Sum<T>, in the order of the list, and rounded to T once. A list that is empty sums
// to 0. The bits depend neither on threads nor on the processor.
//
// How: a block of 64 columns is kept in registers while its list is walked; the rows to come are
// asked for some entries ahead, across lists; AVX2 where the processor has it.
#pragma once

#include <cstdint>

#include "nn/number.hpp"

namespace foregather::nn {

/// Lists of indices, with what is needed to find the edge of an entry; views.
template <typename Index>
struct Lists {
  const std::int64_t* ptr;  ///< rows + 1 entries
  std::int64_t rows;
  const Index* index;  ///< rows of x; they ascend in each list if there is a limit
  const Index* edge;   ///< numbers of edges, or null where entries are in the order of edges
  std::int64_t limit;  ///< entries whose index is not below it are left out
};

/// A matrix of rows of `heads` times `width` values, or of `width` values that every head reads; a
/// view.
template <typename T>
struct Heads {
  T* data;
  std::int64_t heads;
  std::int64_t width;
  bool shared = false;

  std::int64_t stride() const { return shared ? width : heads * width; }
  std::int64_t start(std::int64_t head) const { return shared ? 0 : head * width; }
};

/// Weights of edges; views.
template <typename T>
struct Weights {
  const Sum<T>* weight;       ///< [edges, heads], or null for 1
  const std::int64_t* sizes;  ///< where x's row i stands for a list sizes[i] .. sizes[i + 1] whose
                              ///< mean it received: divide by its length; or null
};

/// Sums as stated above; `out` has lists.rows rows. Instantiated for the four storage types and
/// both widths of Index.
template <typename T, typename Index>
void sum_lists(const Lists<Index>& lists, const Heads<const T>& x, const Weights<T>& weights,
               bool mean, T* out, int threads);

}  // namespace foregather::nn
