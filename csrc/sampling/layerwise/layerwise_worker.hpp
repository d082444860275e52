// Layerwise worker: one minibatch at a time on its way through the layers of layerwise.hpp.
#pragma once

#include <string>

#include "sampling/layerwise/layerwise.hpp"
#include "sampling/layerwise/layerwise_step.hpp"
#include "sampling/numbering/numbering.hpp"

namespace foregather {

/// State of one thread.
template <typename Id>
class LayerwiseWorker {
 public:
  LayerwiseSample<Id> run(const LayerwiseGraph<Id>& graph, const LayerwiseRule& rule,
                          std::span<const Id> seeds, std::uint64_t batch) {
    nodes_ = static_cast<std::int64_t>(graph.indptr.size()) - 1;
    made_ = {};
    edges_.clear();
    start(seeds);
    for (std::size_t layer = 0; layer < rule.layer_sizes.size(); ++layer) {
      const auto before = static_cast<std::int64_t>(edges_.edge.size());
      step_.run(graph, nodes_, rule, rule.layer_sizes[layer], layer_key(batch, layer), local_.ids(),
                local_, edges_);
      made_.num_nodes.push_back(static_cast<std::int64_t>(local_.size()));
      made_.num_edges.push_back(static_cast<std::int64_t>(edges_.edge.size()) - before);
    }
    made_.node.assign(local_.ids().begin(), local_.ids().end());
    made_.row = edges_.row;  // copies of the right size; what grew is kept for the next minibatch
    made_.col = edges_.col;
    made_.edge = edges_.edge;
    made_.weight = edges_.weight;
    return std::move(made_);
  }

  std::size_t bytes() const { return step_.bytes(); }

 private:
  void start(std::span<const Id> seeds) {
    local_.clear(local_.size());
    for (Id v : seeds) {
      const auto id = static_cast<std::int64_t>(v);
      if (id < 0 || id >= nodes_) {
        throw InputError("seeds hold node " + std::to_string(id) + ", but the graph has " +
                         std::to_string(nodes_) + " nodes (ids are 0 to N-1)");
      }
      local_.number(v);
    }
    if (local_.size() != seeds.size()) {
      throw InputError("seeds of a minibatch hold a node twice");
    }
    made_.num_nodes.push_back(static_cast<std::int64_t>(local_.size()));
  }

  std::int64_t nodes_ = 0;
  LayerwiseSample<Id> made_;
  LayerwiseEdges edges_;
  Numbering<Id> local_;
  LayerwiseStep<Id> step_;
};

}  // namespace foregather
