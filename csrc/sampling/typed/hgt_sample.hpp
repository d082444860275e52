// Hgt sample: minibatches of the Heterogeneous Graph Transformer's sampler, k at once.
//
// A vertex that was not taken yet has a budget: the sum of 1 / degree over its edges into vertices
// that were taken, in units of 2^-40, so that the order of the sum does not matter. In each layer
// every type gives a number of vertices, drawn in proportion to the squares of their budgets
// (choose.hpp); they get the next local ids of their type in ascending order. The edges are all
// those between the vertices taken.
//
// A minibatch is the work of one thread. Memory for each thread: 8 bytes per vertex of the graph,
// and 16 per vertex with a budget.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/numbering/relabel.hpp"
#include "sampling/picking/choose.hpp"
#include "sampling/typed/typed_graph.hpp"

namespace foregather {

/// What to sample: numbers[type][layer] vertices, -1 for all with a budget.
struct HgtRule {
  std::size_t layers = 0;
  std::vector<std::vector<std::int64_t>> numbers;
};

/// The state of one thread.
template <typename Id>
class HgtWorker {
 public:
  /// Samples minibatch `index` of the seeds under the key of its batch. Throws InputError for a
  /// seed that is not a vertex, or if more rows are read than budgets are exact for.
  void sample(const TypedGraph<Id>& graph, const HgtRule& rule, std::span<const TypedSeeds> seeds,
              std::size_t index, std::uint64_t key, TypedArrays<Id>& out);
  /// Bytes held between calls.
  std::size_t bytes() const;

 private:
  struct Budget {
    std::int64_t node;
    std::int64_t units;  ///< 0: taken
  };

  void start(const TypedGraph<Id>& graph, std::span<const TypedSeeds> seeds, std::size_t index,
             TypedArrays<Id>& out);
  void spread(const TypedGraph<Id>& graph, std::span<const std::int64_t> first,
              const TypedArrays<Id>& out);
  void take(std::size_t type, std::int64_t number, std::uint64_t key, TypeArrays<Id>& out);
  void induce(const TypedGraph<Id>& graph, TypedArrays<Id>& out);

  std::vector<Relabel> local_;                ///< vertices taken, one a type
  std::vector<Relabel> open_;                 ///< vertices that ever had a budget, one a type
  std::vector<std::vector<Budget>> budgets_;  ///< by the numbers of open_
  std::vector<detail::Candidate> found_;
  std::int64_t rows_ = 0;  ///< read for budgets
};

/// Samples minibatches first_batch, first_batch + 1, ... on `threads` threads into *out[i]; see
/// sample_typed.
template <typename Id>
void sample_hgt(const TypedGraph<Id>& graph, const HgtRule& rule, std::span<const TypedSeeds> seeds,
                std::uint64_t seed, std::uint64_t epoch, std::uint64_t first_batch, int threads,
                std::span<HgtWorker<Id>> workers, std::span<TypedArrays<Id>* const> out);

}  // namespace foregather
