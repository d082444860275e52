// Each layer: the loop over the layers of one minibatch, for samplers that draw at every vertex.
#pragma once

#include <cstdint>
#include <span>

#include "sampling/links/excluded.hpp"
#include "sampling/nodewise/expand.hpp"

namespace foregather {

/// Starts a minibatch and expands it layer by layer.
///
/// @param rule has `fanouts` (one per layer) and `once` (a vertex is expanded where first met)
/// @param draw called with the layer and its first row; makes the draws of the rows from there on
template <typename Id, typename Rule, typename Draw>
void each_layer(Expansion<Id>& expansion, const Topology<Id>& graph, const Rule& rule,
                std::span<const std::int64_t> seeds, SampleArrays<Id>& out, Draw draw) {
  expansion.start(graph, seeds, gives_weights(rule), out);
  std::int64_t first = 0;
  for (std::size_t layer = 0; layer < rule.fanouts.size(); ++layer) {
    const std::int64_t last = expansion.known();
    draw(layer, first);
    if (rule.once) first = last;
  }
}

/// Whether rows of the layer that begins with local id `first` leave anything out.
template <typename Id>
bool leaves_out(ExcludedRows& excluded, const Expansion<Id>& expansion, std::int64_t first) {
  if (excluded.empty()) return false;
  return excluded.place(first, expansion.known(),
                        [&](std::int64_t, std::int64_t v) { return expansion.find(v); });
}

}  // namespace foregather
