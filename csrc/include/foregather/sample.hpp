// Sample: k minibatches of neighbours at once, the fused form of the matrix program.
//
// For each minibatch and layer, P = Q·A has one row for each vertex of the frontier; sampling
// keeps `fanout` entries of each row, extraction renumbers what was kept. The product is never
// formed: rows are read where they lie, and the picks of a row are a pure function of its key
// (keys.hpp, pick.hpp). So the result is that of the generic program, bit for bit.
//
// expand once:      layer l expands the vertices that layer l - 1 met for the first time.
// expand per layer: layer l expands all vertices met so far, with draws of its own.
//
// One minibatch is the work of one thread. Its loop is a pipeline over small blocks of rows: draw
// positions and prefetch the ids they point to; read the ids of the block before and prefetch
// their entries in the relabelling table; renumber the block before that. So every access that
// misses the caches was asked for some hundred instructions earlier.
//
// Memory: 4 bytes a vertex of the graph for each thread (the relabelling table), 12 bytes a
// frontier row, and the results. Everything is kept and used again for the next bulk.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "foregather/buffer.hpp"
#include "foregather/pick.hpp"
#include "foregather/types.hpp"

namespace foregather {

/// Topology as in types.hpp; a view, the caller keeps the arrays.
template <typename Id>
struct Topology {
  std::span<const std::int64_t> indptr;
  std::span<const Id> indices;
  std::int64_t num_nodes() const { return static_cast<std::int64_t>(indptr.size()) - 1; }
};

/// One sampled minibatch; see Sample in Python for what the arrays mean.
template <typename Id>
struct SampleArrays {
  Buffer<Id> node;
  Buffer<std::uint32_t> row, col;
  Buffer<std::int64_t> edge;
  std::vector<std::int64_t> num_nodes;      ///< L + 1, cumulative
  std::vector<std::int64_t> num_edges;      ///< L
  std::vector<std::int64_t> seed_position;  ///< empty when no seed was repeated
};

/// What to sample.
struct NeighborRule {
  std::vector<std::int64_t> fanouts;  ///< one a layer; -1 takes whole rows
  bool replace = false;               ///< with replacement (a row of -1 is still taken whole)
  bool once = true;                   ///< expand once, or per layer
};

/// The state of one thread: relabelling table and scratch.
template <typename Id>
class NeighborWorker {
 public:
  /// Samples minibatch `batch` from `seeds` into `out`. Throws InputError for a seed that is not a
  /// vertex.
  void sample(const Topology<Id>& graph, const NeighborRule& rule,
              std::span<const std::int64_t> seeds, std::uint64_t seed, std::uint64_t epoch,
              std::uint64_t batch, SampleArrays<Id>& out);
  /// Bytes held between calls.
  std::size_t bytes() const;

 private:
  void start(const Topology<Id>& graph, std::span<const std::int64_t> seeds, SampleArrays<Id>& out);
  void expand(const Topology<Id>& graph, const NeighborRule& rule, std::int64_t fanout,
              std::uint64_t key, std::int64_t first, SampleArrays<Id>& out);
  std::int64_t count_rows(const Topology<Id>& graph, const NeighborRule& rule, std::int64_t fanout,
                          std::int64_t first, std::int64_t last, const SampleArrays<Id>& out);
  void next_tick(std::int64_t num_nodes);
  void widen(std::int64_t most, const SampleArrays<Id>& out);

  Buffer<std::uint32_t> table_;  ///< [vertex]: tick in the high bits, local id in the low ones
  std::size_t table_size_ = 0;
  int id_bits_ = 22;
  std::uint32_t tick_ = 0;
  std::int64_t known_ = 0;  ///< vertices met so far
  std::int64_t drawn_ = 0;  ///< edges so far
  Buffer<std::int64_t> start_;
  Buffer<std::uint32_t> degree_;
  Buffer<std::uint32_t> picks_;
  Buffer<Id> wide_;  ///< 64-bit ids on their way to renumbering; 32-bit ones wait in `row`
  PickScratch scratch_;
};

/// Samples minibatches first_batch, first_batch + 1, ... on `threads` threads. Minibatch i has the
/// seeds seeds[ptr[i] .. ptr[i + 1]) and goes to *out[i]. `workers` holds at least `threads`
/// states.
template <typename Id>
void sample_neighbors(const Topology<Id>& graph, const NeighborRule& rule,
                      std::span<const std::int64_t> seeds, std::span<const std::int64_t> ptr,
                      std::uint64_t seed, std::uint64_t epoch, std::uint64_t first_batch,
                      int threads, std::span<NeighborWorker<Id>> workers,
                      std::span<SampleArrays<Id>* const> out);

}  // namespace foregather
