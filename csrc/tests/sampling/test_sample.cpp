#include <algorithm>
#include <set>
#include <vector>

#include "sampling/keys.hpp"
#include "sampling/nodewise/sample.hpp"
#include "tests/check.hpp"
#include "tests/sampled_graph.hpp"

using namespace foregather;

namespace {

template <typename Id>
void check_sample(const SampledGraph<Id>& graph, const NeighborRule& rule,
                  const SampleArrays<Id>& s) {
  const std::int64_t nodes = s.num_nodes.back();
  std::set<Id> distinct(s.node.data(), s.node.data() + nodes);
  CHECK(static_cast<std::int64_t>(distinct.size()) == nodes);
  std::size_t at = 0;
  for (std::size_t layer = 0; layer < rule.fanouts.size(); ++layer) {
    const std::int64_t first = rule.once && layer > 0 ? s.num_nodes[layer - 1] : 0;
    for (std::int64_t e = 0; e < s.num_edges[layer]; ++e, ++at) {
      CHECK(s.col[at] >= first && s.col[at] < s.num_nodes[layer]);
      CHECK(s.row[at] < s.num_nodes[layer + 1]);
      if (e > 0) CHECK(s.col[at] >= s.col[at - 1]);
      const auto target = static_cast<std::size_t>(s.node[s.col[at]]);
      CHECK(s.edge[at] >= graph.indptr[target] && s.edge[at] < graph.indptr[target + 1]);
      CHECK(graph.indices[static_cast<std::size_t>(s.edge[at])] == s.node[s.row[at]]);
    }
  }
}

template <typename Id>
void samples_are_consistent() {
  const auto graph = make_graph<Id>(700, 90);
  std::vector<std::int64_t> seeds, ptr{0};
  for (std::int64_t batch = 0; batch < 12; ++batch) {
    for (std::int64_t i = 0; i < batch * 3; ++i) seeds.push_back((batch * 131 + i * i) % 700);
    ptr.push_back(static_cast<std::int64_t>(seeds.size()));
  }
  seeds.back() = 699;  // the vertex with all neighbours
  for (bool once : {true, false}) {
    for (bool replace : {true, false}) {
      const NeighborRule rule{{40, -1, 3}, replace, once};
      std::vector<std::vector<SampleArrays<Id>>> results(2);
      for (int round = 0; round < 2; ++round) {
        std::vector<NeighborWorker<Id>> workers(4);
        results[static_cast<std::size_t>(round)].resize(12);
        std::vector<SampleArrays<Id>*> out;
        for (auto& arrays : results[static_cast<std::size_t>(round)]) out.push_back(&arrays);
        sample_bulk<Id, NeighborWorker<Id>>(graph.view(), rule, seeds, ptr, 7, 1, 5,
                                            round == 0 ? 1 : 4, workers, out);
      }
      for (std::size_t i = 0; i < 12; ++i) {
        const auto &a = results[0][i], &b = results[1][i];
        check_sample(graph, rule, a);
        CHECK(a.num_nodes == b.num_nodes && a.num_edges == b.num_edges);
        CHECK(std::equal(a.node.data(), a.node.data() + a.num_nodes.back(), b.node.data()));
        CHECK(a.seed_position == b.seed_position);
      }
    }
  }
}

void ticks_wrap_and_seeds_are_checked() {
  const auto graph = make_graph<std::uint32_t>(50, 7);
  NeighborWorker<std::uint32_t> worker;
  SampleArrays<std::uint32_t> out;
  const NeighborRule rule{{3, 2}, false, true};
  const std::vector<std::int64_t> seeds{1, 49, 1};
  for (std::uint64_t batch = 0; batch < 3000; ++batch) {
    worker.sample(graph.view(), rule, seeds, 1, 0, batch, out);
    CHECK(out.num_nodes[0] == 2 && out.seed_position[2] == 0);
  }
  const std::vector<std::int64_t> bad{50}, worse{-1};
  CHECK_THROWS(worker.sample(graph.view(), rule, bad, 1, 0, 0, out), InputError);
  CHECK_THROWS(worker.sample(graph.view(), rule, worse, 1, 0, 0, out), InputError);
}

}  // namespace

int main() {
  samples_are_consistent<std::uint32_t>();
  samples_are_consistent<std::int64_t>();
  ticks_wrap_and_seeds_are_checked();
  return 0;
}
