// Sample: k minibatches of neighbours at once, the fused form of the matrix program.
//
// For each minibatch and layer, P = Q·A has one row for each vertex of the frontier; sampling
// keeps `fanout` entries of each row, extraction renumbers what was kept. The product is never
// formed: rows are read where they lie, and the picks of a row are a pure function of its key
// (keys.hpp, pick.hpp; alias.hpp for picks by weight). So the result is that of the generic
// program, bit for bit.
//
// expand once:      layer l expands the vertices that layer l - 1 met for the first time.
// expand per layer: layer l expands all vertices met so far, with draws of its own.
//
// The loop over rows and its memory are those of expand.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/links/excluded.hpp"
#include "sampling/nodewise/bulk.hpp"
#include "sampling/nodewise/expand.hpp"
#include "sampling/picking/alias.hpp"
#include "sampling/picking/pick.hpp"

namespace foregather {

/// What to sample.
struct NeighborRule {
  std::vector<std::int64_t> fanouts;  ///< one per layer; -1 takes whole rows
  bool replace = false;               ///< with replacement (a row of -1 is still taken whole)
  bool once = true;                   ///< expand once, or per layer
  EdgeWeights weights = {};  ///< no cells: all edges alike; edges of weight 0 are not there
};

/// Whether minibatches of the rule have edge weights.
constexpr bool gives_weights(const NeighborRule&) { return false; }

/// The state of one thread.
template <typename Id>
class NeighborWorker {
 public:
  /// Samples minibatch `batch` from `seeds` into `out`. Throws InputError for a seed that is not a
  /// vertex. `team`, of which this is the first, may have states for more threads.
  void sample(const Topology<Id>& graph, const NeighborRule& rule,
              std::span<const std::int64_t> seeds, std::uint64_t seed, std::uint64_t epoch,
              std::uint64_t batch, SampleArrays<Id>& out, std::span<NeighborWorker> team = {});
  /// What the next minibatch leaves out.
  ExcludedRows& excluded() { return excluded_; }
  /// Bytes held between calls.
  std::size_t bytes() const;

 private:
  template <typename Draw>
  void sample_layer(const Topology<Id>& graph, std::int64_t first, std::span<Draw> draws,
                    SampleArrays<Id>& out);

  Expansion<Id> expansion_;
  Buffer<std::uint32_t> picks_;
  AliasScratch scratch_;
  ExcludedRows excluded_;
};

}  // namespace foregather
