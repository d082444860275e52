// Layerwise: LADIES and FastGCN for a bulk of minibatches, without building P.
//
// Both choose s columns for a whole layer, so its targets share their sources. Column v has the
// weight p_v: for LADIES the sum of A_iv^2 over the targets i of the layer, for FastGCN over all
// vertices (then given, as it is the same for every minibatch). A_iv is the edge weight, or 1 /
// degree(i). The s columns with the smallest keys of sample_columns (sampling_verbs.hpp) win; edges
// of the layer are all edges from a chosen column to a target.
//
// The vertices of a minibatch are numbered in the order in which they are met: seeds, then the new
// sources of layer 0 in the order of its edges, and so on: the targets of a layer are a prefix of
// its sources. Layer l + 1 has all vertices met so far as targets. A chosen column without an edge
// to a target (FastGCN) is not a vertex of the minibatch.
//
// Weights, with tau the smallest key that did not win and q the number of chosen columns:
//   kExact      A_iv / (1 - exp(-p_v tau)): the sum over chosen columns is exactly unbiased
//   kReference  A_iv / (q p_v / sum p), then each row divided by its sum
//   kNone       no weights
// Results equal those of the matrix operations bit for bit, for any number of threads.
//
// How: one minibatch per thread. LADIES sums its columns piece by piece (piece_sums.hpp) and looks
// at every distinct column once. FastGCN draws its columns from Arrivals, linear in their number.
// The last pass looks at every entry of the targets' rows again: a bit array that stays in the
// first cache lets few but the chosen through. Memory of a thread, besides the result: for LADIES
// about 10 bytes (20 with edge weights) for each entry of the targets' rows and a table of 256 KiB;
// for both 24 bytes per target and 40 per chosen column. It is kept in a LayerwiseTables.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "sampling/layerwise/fastgcn_draw.hpp"

namespace foregather {

/// How edges are weighted so that few columns stand for all.
enum class Debias { kNone, kExact, kReference };

/// The graph as the kernel reads it; edge_weight may be empty.
template <typename Id>
struct LayerwiseGraph {
  std::span<const std::int64_t> indptr;
  std::span<const Id> indices;
  std::span<const float> edge_weight;
};

/// What is sampled; column_weights is empty for LADIES, p of all vertices for FastGCN.
struct LayerwiseRule {
  std::span<const std::int64_t> layer_sizes;  ///< columns of each layer; negative is all
  Debias debias;
  std::span<const double> column_weights;
  double total;                        ///< sum of column_weights
  const Arrivals* arrivals = nullptr;  ///< of column_weights, where there are any
};

/// Which minibatches; seeds are distinct inside a minibatch and stacked.
template <typename Id>
struct Minibatches {
  std::span<const Id> seeds;
  std::span<const std::int64_t> seed_ptr;
  std::uint64_t seed, epoch, first_batch;
};

/// One minibatch: the fields of Sample in bulk.py.
template <typename Id>
struct LayerwiseSample {
  std::vector<Id> node;
  std::vector<std::int64_t> num_nodes, num_edges, edge;
  std::vector<std::uint32_t> row, col;
  std::vector<float> weight;
};

template <typename Id>
class LayerwiseWorker;

/// The threads' tables, kept from call to call; for one graph, and for any number of calls at once.
template <typename Id>
class LayerwiseTables {
 public:
  LayerwiseTables();
  ~LayerwiseTables();
  std::unique_ptr<LayerwiseWorker<Id>> take();
  void give(std::unique_ptr<LayerwiseWorker<Id>> worker);
  std::size_t bytes() const;  ///< of what is not in use

 private:
  mutable std::mutex lock_;
  std::vector<std::unique_ptr<LayerwiseWorker<Id>>> free_;
};

/// Samples all minibatches. Throws InputError for a seed or source that is not a vertex, for seeds
/// given twice, and for a weight that is not finite.
template <typename Id>
std::vector<LayerwiseSample<Id>> sample_layerwise(const LayerwiseGraph<Id>& graph,
                                                  const LayerwiseRule& rule,
                                                  const Minibatches<Id>& batches,
                                                  LayerwiseTables<Id>& pool, int threads);

}  // namespace foregather
