// Row picker: what the owner of a row and its requester must do alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "sampling/keys.hpp"
#include "sampling/owners/row_sample.hpp"
#include "sampling/picking/pick.hpp"

namespace foregather::detail {

inline void require(bool holds, const char* what) {
  if (!holds) throw InputError(what);
}

inline bool takes_all(const RowRule& rule, std::uint32_t degree) {
  return rule.fanout < 0 || degree == 0 ||
         (!rule.replace && static_cast<std::int64_t>(degree) <= rule.fanout);
}

// Draws picks of rows and unites those of several batches.
class Picker {
 public:
  explicit Picker(const RowRule& rule)
      : rule_(rule), picks_(static_cast<std::size_t>(std::max<std::int64_t>(rule.fanout, 0))) {}

  std::span<const std::uint32_t> draw(std::uint64_t key, std::uint64_t vertex,
                                      std::uint32_t degree) {
    const auto count = static_cast<std::uint32_t>(picks_.size());
    const std::uint64_t own = vertex_key(key, vertex);
    if (rule_.replace) {
      pick_any(own, degree, count, picks_.data());
    } else {
      pick_distinct(own, degree, count, picks_.data(), scratch_);
    }
    return picks_;
  }

  void begin() { united_.clear(); }
  void add(std::span<const std::uint32_t> picks) {
    united_.insert(united_.end(), picks.begin(), picks.end());
  }
  /// The distinct positions added since begin(), ascending.
  std::span<const std::uint32_t> united() {
    std::sort(united_.begin(), united_.end());
    united_.erase(std::unique(united_.begin(), united_.end()), united_.end());
    return united_;
  }

 private:
  RowRule rule_;
  std::vector<std::uint32_t> picks_, united_;
  PickScratch scratch_;
};

template <typename Id>
void check_block(const BlockRows<Id>& block) {
  require(!block.indptr.empty() && block.indptr.back() - block.indptr.front() ==
                                       static_cast<std::int64_t>(block.indices.size()),
          "indptr does not describe the indices of the block");
  require(block.edge_weight.empty() || block.edge_weight.size() == block.indices.size(),
          "edge_weight does not have one entry for each edge of the block");
}

}  // namespace foregather::detail
