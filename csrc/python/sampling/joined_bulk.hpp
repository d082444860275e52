// Joined bulk: small minibatches one after another, in three arrays that Python owns.
//
// For minibatches of a few kilobytes an array object costs more than what is in it. So all nodes of
// a bulk are one array, all edges another; Python cuts them. Ids are int64, as tensors want them.
#pragma once

#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "python/arrays.hpp"
#include "sampling/batch_arrays.hpp"

namespace foregather::python {

/// (node, ends, edge, fresh, drawn, positions) of a JoinedBulk.
using JoinedArrays = nb::typed<nb::tuple, nb::any, nb::ellipsis>;

struct JoinedBulk {
  using Ids = std::unique_ptr<std::int64_t[]>;
  Ids node, ends, edge;  ///< `ends` has row and then col of the first, of the second, ...
  std::size_t nodes = 0, edges = 0;
  std::vector<std::vector<std::int64_t>> fresh, drawn;  ///< new nodes and edges of each layer
  std::vector<std::vector<std::int64_t>> positions;     ///< empty if no seed was repeated
};

template <typename Id>
JoinedBulk join(const std::vector<std::unique_ptr<SampleArrays<Id>>>& samples) {
  JoinedBulk made;
  bool repeats = false;
  std::vector<std::size_t> count;
  for (const auto& sample : samples) {
    std::int64_t before = 0, edges = 0;
    std::vector<std::int64_t> fresh;
    for (const std::int64_t known : sample->num_nodes) {
      fresh.push_back(known - before);
      before = known;
    }
    for (const std::int64_t drawn : sample->num_edges) edges += drawn;
    made.fresh.push_back(std::move(fresh));
    made.drawn.push_back(sample->num_edges);
    made.nodes += static_cast<std::size_t>(before);
    made.edges += static_cast<std::size_t>(edges);
    count.push_back(static_cast<std::size_t>(edges));
    repeats = repeats || !sample->seed_position.empty();
  }
  made.node = JoinedBulk::Ids(new std::int64_t[made.nodes]);
  made.ends = JoinedBulk::Ids(new std::int64_t[2 * made.edges]);
  made.edge = JoinedBulk::Ids(new std::int64_t[made.edges]);
  std::size_t node = 0, edge = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const SampleArrays<Id>& sample = *samples[i];
    const auto n = static_cast<std::size_t>(sample.num_nodes.back());
    const std::size_t m = count[i];
    const BatchIds out{{made.node.get() + node, n},
                       {made.ends.get() + 2 * edge, 2 * m},
                       {made.edge.get() + edge, m}};
    widen_ids<Id>({sample.node.data(), n}, {sample.row.data(), m}, {sample.col.data(), m},
                  {sample.edge.data(), m}, out, 1);
    node += n;
    edge += m;
    if (repeats) made.positions.push_back(sample.seed_position);
  }
  return made;
}

inline Made<std::int64_t> owned(JoinedBulk::Ids ids, std::size_t count) {
  std::int64_t* data = ids.release();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<std::int64_t*>(p); });
  return Made<std::int64_t>(data, {count}, owner);
}

inline JoinedArrays to_tuple(JoinedBulk bulk) {
  return nb::borrow<JoinedArrays>(nb::make_tuple(
      owned(std::move(bulk.node), bulk.nodes), owned(std::move(bulk.ends), 2 * bulk.edges),
      owned(std::move(bulk.edge), bulk.edges), bulk.fresh, bulk.drawn, bulk.positions));
}

}  // namespace foregather::python
