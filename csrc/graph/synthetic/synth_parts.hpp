// Shared by the sources of Synth: the keys of its draws, and one value for each id of a range.
#pragma once

#include "base/random.hpp"
#include "graph/synthetic/synth.hpp"
#include "parallel/pool.hpp"

namespace foregather {

/// What a draw is for; one key each, so that no two kinds of draw share bits.
enum class Purpose : std::uint64_t { id, community, row, label, feature, centroid, split };

constexpr std::uint64_t synth_key(std::uint64_t seed, Purpose purpose) {
  return derive(derive(seed, 0x53594E5448u /* "SYNTH" */), static_cast<std::uint64_t>(purpose));
}

/// out[k] = of(vertex of id begin + k), in parallel.
template <typename Value, typename Of>
void Synth::each(std::int64_t begin, std::span<Value> out, int threads, const Of& of) const {
  constexpr std::int64_t kGrain = 4096;  // under that, starting a thread costs more than it saves
  check_range(begin, out.size());
  parallel_for(static_cast<std::int64_t>(out.size()), threads, kGrain,
               [&](std::int64_t from, std::int64_t to, int) {
                 for (std::int64_t k = from; k < to; ++k) {
                   out[static_cast<std::size_t>(k)] = static_cast<Value>(of(own_vertex(begin + k)));
                 }
               });
}

}  // namespace foregather
