#include <algorithm>
#include <vector>

#include "sampling/nodewise/labor.hpp"
#include "sampling/nodewise/sample.hpp"
#include "sampling/nodewise/trees.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

// Vertex v has v % 9 in-neighbours; vertex 0 has none.
template <typename Id>
struct Graph {
  std::vector<std::int64_t> indptr{0};
  std::vector<Id> indices;
  Graph() {
    for (std::int64_t v = 0; v < 200; ++v) {
      for (std::int64_t j = 0; j < v % 9; ++j) {
        indices.push_back(static_cast<Id>((v * 7 + j * j) % 200));
      }
      indptr.push_back(static_cast<std::int64_t>(indices.size()));
    }
  }
  Topology<Id> view() const { return {indptr, indices}; }
};

// Every tree, taken out of its minibatch again, is the minibatch of its seed alone.
template <typename Id, typename Worker, typename Rule>
void trees_are_minibatches_of_their_own(const Rule& rule) {
  const Graph<Id> graph;
  std::vector<std::int64_t> seeds, rows, ptr{0};
  for (std::int64_t batch = 0; batch < 6; ++batch) {
    for (std::int64_t i = 0; i < batch * 5; ++i) {
      seeds.push_back((batch * 31 + i * i) % 200);
      rows.push_back(1000 - i * 3 - batch);
    }
    ptr.push_back(static_cast<std::int64_t>(seeds.size()));
  }
  std::vector<SampleArrays<Id>> made(6);
  std::vector<SampleArrays<Id>*> out;
  for (auto& arrays : made) out.push_back(&arrays);
  std::vector<Worker> workers(3);
  std::vector<TreeJoin<Id>> joins(3);
  for (int threads : {1, 3}) {  // the second time with memory that is used again
    sample_trees<Id, Worker, Rule>(graph.view(), rule, seeds, rows, ptr, 7, 2, threads, workers,
                                   joins, out);
    for (std::size_t b = 0; b < made.size(); ++b) {
      const SampleArrays<Id>& all = made[b];
      const auto first = static_cast<std::size_t>(ptr[b]);
      const auto count = static_cast<std::size_t>(ptr[b + 1] - ptr[b]);
      CHECK(all.in_trees && all.seed_position.empty());
      CHECK(all.num_nodes[0] == static_cast<std::int64_t>(count));
      for (std::size_t tree = 0; tree < count; ++tree) {
        SampleArrays<Id> alone;
        Worker worker;
        worker.sample(graph.view(), rule, {&seeds[first + tree], 1}, 7, 2,
                      static_cast<std::uint64_t>(rows[first + tree]), alone);
        std::vector<std::uint32_t> local(static_cast<std::size_t>(all.num_nodes.back()));
        std::uint32_t nodes = 0;
        for (std::size_t n = 0; n < local.size(); ++n) {
          if (all.tree[n] != tree) continue;
          CHECK(all.node[n] == alone.node[nodes]);
          local[n] = nodes++;
        }
        CHECK(static_cast<std::int64_t>(nodes) == alone.num_nodes.back());
        std::size_t edges = 0, at = 0;
        for (std::size_t layer = 0; layer < all.num_edges.size(); ++layer) {
          std::int64_t own = 0;
          for (std::int64_t e = 0; e < all.num_edges[layer]; ++e, ++at) {
            if (all.tree[all.col[at]] != tree) continue;
            CHECK(local[all.row[at]] == alone.row[edges] && local[all.col[at]] == alone.col[edges]);
            CHECK(all.tree[all.row[at]] == tree && all.edge[at] == alone.edge[edges]);
            CHECK(!all.weighted || all.weight[at] == alone.weight[edges]);
            ++edges;
            ++own;
          }
          CHECK(own == alone.num_edges[layer]);
        }
      }
    }
  }
  CHECK(joins[0].bytes() > 0);
}

void wrong_input_is_refused() {
  const Graph<std::uint32_t> graph;
  std::vector<NeighborWorker<std::uint32_t>> workers(1);
  std::vector<TreeJoin<std::uint32_t>> joins(1);
  SampleArrays<std::uint32_t> made;
  const std::vector<SampleArrays<std::uint32_t>*> out{&made};
  const std::vector<std::int64_t> ptr{0, 2}, good{1, 2}, bad{1, 200}, few{1};
  auto run = [&](const NeighborRule& rule, const auto& seeds, const auto& rows) {
    sample_trees<std::uint32_t, NeighborWorker<std::uint32_t>, NeighborRule>(
        graph.view(), rule, seeds, rows, ptr, 1, 0, 1, workers, joins, out);
  };
  run({{2}, false, true}, good, good);
  CHECK_THROWS(run({{2}, false, true}, bad, good), InputError);
  CHECK_THROWS(run({{2}, false, true}, good, few), InputError);
  CHECK_THROWS(run({{2}, false, true}, few, few), InputError);
  CHECK_THROWS(run({{2}, false, false}, good, good), InputError);
}

}  // namespace

int main() {
  for (bool replace : {false, true}) {
    const NeighborRule rule{{3, -1, 2}, replace, true};
    trees_are_minibatches_of_their_own<std::uint32_t, NeighborWorker<std::uint32_t>>(rule);
    trees_are_minibatches_of_their_own<std::int64_t, NeighborWorker<std::int64_t>>(rule);
  }
  const LaborRule labor{{3, 2}, true, false, LaborWeight::kExact, {}};
  trees_are_minibatches_of_their_own<std::uint32_t, LaborWorker<std::uint32_t>>(labor);
  wrong_input_is_refused();
  return 0;
}
