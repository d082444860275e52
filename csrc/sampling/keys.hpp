// Keys: where the randomness of a sample comes from.
//
// Everything drawn for a minibatch is a pure function of
//     (seed, epoch, batch, layer, vertex, slot):
// batch is the number of the minibatch in its epoch (of a disjoint tree, which is a minibatch of
// its own, the input row: trees.hpp), layer 0 is the one next to the seeds, vertex is the vertex
// being expanded (or, for samplers that draw vertices, the vertex drawn) and slot the number of the
// draw. So threads, ranks, bulk size and storage cannot change a sample. In a graph with types the
// relation stands between layer and vertex (relation_key).
//
// Keys are nested: batch_key -> layer_key -> vertex_key -> draw(key, slot) of random.hpp.
#pragma once

#include <cstdint>

#include "base/random.hpp"

namespace foregather {

/// Purposes keep streams apart that share seed and epoch.
enum class Purpose : std::uint64_t {
  kSample = 1,
  kShuffle = 2,
  kPresample = 3,  ///< subgraphs from which a sampler estimates its weights
  kRoots = 4,      ///< the seeds of those subgraphs
  kNegatives = 5,  ///< links that are not there (links/negatives.hpp)
};

/// Key of all draws of one purpose in one epoch.
constexpr std::uint64_t epoch_key(std::uint64_t seed, Purpose purpose, std::uint64_t epoch) {
  return derive(derive(mix64(seed), static_cast<std::uint64_t>(purpose)), epoch);
}

/// Key of minibatch number `batch` of an epoch.
constexpr std::uint64_t batch_key(std::uint64_t seed, std::uint64_t epoch, std::uint64_t batch) {
  return derive(epoch_key(seed, Purpose::kSample, epoch), batch);
}

/// Key of one layer of a minibatch.
constexpr std::uint64_t layer_key(std::uint64_t batch, std::uint64_t layer) {
  return derive(batch, layer);
}

/// Key of one relation in a layer. Relation 0 has the layer's own key, so that a graph with one
/// relation is sampled as a plain one; the words of the others are none that a vertex has.
constexpr std::uint64_t relation_key(std::uint64_t layer, std::uint64_t relation) {
  return relation == 0 ? layer : derive(layer, ~relation);
}

/// Key of one vertex in a layer.
constexpr std::uint64_t vertex_key(std::uint64_t layer, std::uint64_t vertex) {
  return derive(layer, vertex);
}

}  // namespace foregather
