// RowSearch: finds edges, given by their ends, in rows that lie on disk. Private to the disk
// sampler.
//
// Sources ascend in a row, so the edges from one source are [lower bound, upper bound). Both are
// bisected over the blocks of the row, of all entries of all minibatches at once: a round asks for
// one position of each search, and the whole block around it is used when it arrives. A row within
// one block takes one round, one of 2^k blocks k + 1.
//
// Memory: 56 bytes an entry, and 8 an entry and round, freed before anything is sampled.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/types.hpp"
#include "graph/row_index.hpp"
#include "parallel/buffer.hpp"
#include "sampling/links/excluded.hpp"
#include "sampling/on_disk/row_gaps.hpp"

namespace foregather {

template <typename Id>
class RowSearch {
 public:
  /// Throws InputError for a target that does not exist, and for entries that are not ends.
  RowSearch(const ExcludedEdges& given, const RowIndex& index, std::int64_t block_bytes)
      : given_(given), block_bytes_(block_bytes) {
    if (given.source.size() != given.target.size() || !given.edge.empty() || !given.tree.empty() ||
        !given.ascending) {
      throw InputError("a topology on disk leaves out edges that are given by their ends");
    }
    searches_.reserve(2 * given.target.size());
    for (std::size_t i = 0; i < given.target.size(); ++i) {
      const std::int64_t target = given.target[i];
      if (target < 0 || target >= index.num_nodes()) {
        throw InputError("what is left out names target " + std::to_string(target) +
                         ", but there are " + std::to_string(index.num_nodes()));
      }
      const RowSpan row = index.row(target);
      searches_.insert(searches_.end(), 2, {row.start, row.start + row.degree});
    }
    for (std::size_t s = 0; s < searches_.size(); ++s) {
      active_.push_back(static_cast<std::uint32_t>(s));
    }
  }

  /// Writes the positions to look at next; returns how many there are.
  std::int64_t next(Buffer<std::int64_t>& probe) {
    std::erase_if(active_, [&](std::uint32_t s) { return searches_[s].low == searches_[s].high; });
    probe.reserve(active_.size());
    for (std::size_t i = 0; i < active_.size(); ++i) probe[i] = middle(searches_[active_[i]]);
    return static_cast<std::int64_t>(active_.size());
  }

  /// Uses what is at probe i; `at` is inside a block of the file that begins a multiple of its
  /// bytes from the file's begin, and edge 0 is at byte `payload`. Different probes may be used at
  /// once.
  void narrow(std::int64_t i, std::int64_t payload, const std::byte* at) {
    const std::uint32_t number = active_[static_cast<std::size_t>(i)];
    Search& search = searches_[number];
    const std::int64_t probe = middle(search);
    const auto bytes = static_cast<std::int64_t>(sizeof(Id));
    const std::int64_t begin = probe - (payload + probe * bytes) % block_bytes_ / bytes;
    const std::int64_t first = std::max(search.low, begin);
    const std::int64_t last = std::min(search.high, begin + block_bytes_ / bytes);
    const Id* here = reinterpret_cast<const Id*>(at);  // blocks and ids are aligned
    const Id* from = here + (first - probe);
    const Id* to = here + (last - probe);
    const auto source = static_cast<Id>(given_.source[number / 2]);
    const Id* found =
        number % 2 == 0 ? std::lower_bound(from, to, source) : std::upper_bound(from, to, source);
    const std::int64_t place = first + (found - from);
    if (place == first && first > search.low) {
      search.high = first;  // it is there, or further left
    } else if (place == last && last < search.high) {
      search.low = last;
    } else {
      search.low = search.high = place;
    }
  }

  /// What was found for minibatch `index`.
  RowGaps gaps(std::size_t index) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> entries;
    for (auto i = static_cast<std::size_t>(given_.ptr[index]);
         i < static_cast<std::size_t>(given_.ptr[index + 1]); ++i) {
      for (std::int64_t edge = searches_[2 * i].low; edge < searches_[2 * i + 1].low; ++edge) {
        entries.emplace_back(given_.target[i], edge);
      }
    }
    return RowGaps(std::move(entries));
  }

 private:
  struct Search {
    std::int64_t low, high;  ///< the bound is one of low .. high
  };
  static std::int64_t middle(const Search& search) {
    return search.low + (search.high - search.low) / 2;
  }

  ExcludedEdges given_;
  std::int64_t block_bytes_;
  std::vector<Search> searches_;       ///< of each entry: lower bound, upper bound
  std::vector<std::uint32_t> active_;  ///< searches that are not done, by probe
};

}  // namespace foregather
