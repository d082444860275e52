// Walk: random walks, and minibatches that are induced subgraphs.
//
// A walk goes backwards along edges: from a vertex to one of its in-neighbours, each position of
// the row equally likely (so parallel edges count as often as they occur). A vertex without
// in-neighbours keeps its walker: the walk stays there to its end.
//
// Step s of walker w, which started at vertex v, is
//     bounded(vertex_key(layer_key(batch key, s), v), w, degree)
// where w counts the walkers of the minibatch. So walkers are independent even where they meet or
// start at the same vertex, and nothing depends on threads or on how many minibatches are made at
// once.
//
// The induced subgraph of a set of vertices has all edges of the graph with both ends in the set,
// parallel edges and self-loops included, ordered by local target and then by position. It is one
// layer: num_nodes is {seeds, vertices}, num_edges is {edges}.
//
// Memory: 4 bytes per vertex of the graph for each thread (Relabel), an id for each walker and
// step, a position for each walker, and the results. Work of the induced subgraph: the rows of all
// its vertices are scanned; if a row is much longer than the subgraph is large, the vertices are
// searched for in the row, which ascends.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "parallel/buffer.hpp"
#include "sampling/keys.hpp"
#include "sampling/nodewise/sample.hpp"
#include "sampling/numbering/relabel.hpp"

namespace foregather {

/// Where the vertices of a subgraph come from.
enum class SubgraphKind : int {
  kGiven = 0,  ///< the seeds and nothing else
  kWalk = 1,   ///< the seeds and what their walks meet
  kNode = 2,   ///< vertices drawn by weight; seeds are not looked at
  kEdge = 3,   ///< ends of edges drawn by weight; seeds are not looked at
};

/// What to sample.
struct SubgraphRule {
  SubgraphKind kind = SubgraphKind::kGiven;
  std::int64_t size = 0;    ///< draws of a minibatch (kNode, kEdge)
  std::int64_t length = 0;  ///< steps of a walk (kWalk)
  std::int64_t walks = 1;   ///< walks from each seed (kWalk)
  /// Running sums over the vertices of what draw_nodes or draw_edges need (draw.hpp).
  std::span<const double> cumulative = {};
};

/// Which entry of a row of `degree` entries walker `number`, which started at `start`, takes under
/// the key of its step.
constexpr std::uint32_t walk_draw(std::uint64_t step, std::uint64_t start, std::uint64_t number,
                                  std::uint32_t degree) {
  return bounded(vertex_key(step, start), number, degree);
}

/// Walks from starts[i] with number i, `length` steps each, under a batch key. path is row-major
/// [starts, length + 1]; column 0 holds the starts. Throws InputError for a start that is not a
/// vertex. `scratch` holds a position for each walker.
template <typename Id>
void walk(const Topology<Id>& graph, std::span<const std::int64_t> starts, std::int64_t length,
          std::uint64_t key, std::span<Id> path, Buffer<std::int64_t>& scratch);

/// The state of one thread.
template <typename Id>
class SubgraphWorker {
 public:
  /// The minibatch of `seeds` under the batch key `key`. Throws InputError for a seed that is not a
  /// vertex.
  void sample(const Topology<Id>& graph, const SubgraphRule& rule,
              std::span<const std::int64_t> seeds, std::uint64_t key, SampleArrays<Id>& out);
  /// Bytes held between calls.
  std::size_t bytes() const;

 private:
  void start(const Topology<Id>& graph, std::span<const std::int64_t> seeds, SampleArrays<Id>& out);
  void add(std::span<const Id> vertices, SampleArrays<Id>& out);
  void add_walks(const Topology<Id>& graph, const SubgraphRule& rule,
                 std::span<const std::int64_t> seeds, std::uint64_t key, SampleArrays<Id>& out);
  void induce(const Topology<Id>& graph, SampleArrays<Id>& out);
  // Both append the edges of a row after the first `edges` and return how many there are then.
  std::size_t scan_row(const Topology<Id>& graph, std::size_t begin, std::size_t end,
                       std::size_t edges, SampleArrays<Id>& out) const;
  std::size_t search_row(const Topology<Id>& graph, std::size_t begin, std::size_t end,
                         std::size_t edges, SampleArrays<Id>& out);

  Relabel local_;
  Buffer<Id> met_;  ///< paths of the walks, or what was drawn
  std::vector<std::int64_t> starts_;
  std::vector<Id> members_;  ///< the vertices of the subgraph, ascending; made when needed
  Buffer<std::int64_t> scratch_;
};

/// Minibatches first_batch, first_batch + 1, ... under derive(key, number), on `threads` threads;
/// key is an epoch key. Minibatch i has the seeds seeds[ptr[i] .. ptr[i + 1]) and goes to *out[i].
/// `workers` holds at least `threads` states.
template <typename Id>
void sample_subgraphs(const Topology<Id>& graph, const SubgraphRule& rule,
                      std::span<const std::int64_t> seeds, std::span<const std::int64_t> ptr,
                      std::uint64_t key, std::uint64_t first_batch, int threads,
                      std::span<SubgraphWorker<Id>> workers,
                      std::span<SampleArrays<Id>* const> out);

}  // namespace foregather
