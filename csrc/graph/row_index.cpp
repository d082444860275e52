#include "graph/row_index.hpp"

#include <algorithm>
#include <string>

#include "base/types.hpp"

namespace foregather {

RowIndex::RowIndex(std::int64_t num_nodes, std::int64_t num_edges)
    : num_nodes_(num_nodes), num_edges_(num_edges) {
  if (num_nodes < 0 || num_edges < 0) throw InputError("a topology of negative size");
  const auto groups = static_cast<std::size_t>((num_nodes + kGroup - 1) / kGroup);
  degree_.reserve_exactly(groups * kGroup);
  start_.reserve_exactly(groups);
}

void RowIndex::append(std::span<const std::int64_t> ends) {
  for (const std::int64_t end : ends) {
    const std::int64_t degree = end - last_;
    if (filled_ >= num_nodes_ || degree < 0 || end > num_edges_) {
      throw FormatError("indptr has " + std::to_string(end) + " at position " +
                        std::to_string(filled_ + 1) + " after " + std::to_string(last_) +
                        ", expected numbers that ascend to " + std::to_string(num_edges_) +
                        "; the folder is damaged");
    }
    if (degree > std::int64_t{0xFFFFFFFF}) {
      throw FormatError("node " + std::to_string(filled_) + " has " + std::to_string(degree) +
                        " in-neighbours, more than 2^32 - 1");
    }
    if (filled_ % kGroup == 0) start_[static_cast<std::size_t>(filled_ / kGroup)] = last_;
    const bool large = degree >= kLarge;
    if (large) large_.push_back({filled_, static_cast<std::uint32_t>(degree)});
    degree_[static_cast<std::size_t>(filled_)] =
        static_cast<std::uint16_t>(large ? kLarge : degree);
    last_ = end;
    ++filled_;
  }
  if (filled_ < num_nodes_) return;
  const std::int64_t padded = (num_nodes_ + kGroup - 1) / kGroup * kGroup;
  for (std::int64_t v = num_nodes_; v < padded; ++v) degree_[static_cast<std::size_t>(v)] = 0;
}

void RowIndex::finish() const {
  if (filled_ != num_nodes_ || last_ != num_edges_) {
    throw FormatError("indptr describes " + std::to_string(filled_) + " rows of " +
                      std::to_string(last_) + " edges, expected " + std::to_string(num_nodes_) +
                      " rows of " + std::to_string(num_edges_) + "; the folder is damaged");
  }
}

// A row in whose group some degree up to its own does not fit 16 bits; `start` has kLarge for them.
RowSpan RowIndex::large_row(std::int64_t v, std::int64_t start) const {
  const std::int64_t first = v / kGroup * kGroup;
  auto at = std::lower_bound(large_.begin(), large_.end(), first,
                             [](const Large& row, std::int64_t node) { return row.node < node; });
  for (; at != large_.end() && at->node < v; ++at) start += at->degree - kLarge;
  const std::uint32_t degree = degree_[static_cast<std::size_t>(v)];
  return {start, degree == kLarge ? at->degree : degree};
}

std::size_t RowIndex::bytes(std::int64_t num_nodes, std::int64_t num_edges) {
  const auto groups = static_cast<std::size_t>((num_nodes + kGroup - 1) / kGroup);
  const std::size_t rows =
      Buffer<std::uint16_t>::bytes_for(groups * kGroup) + Buffer<std::int64_t>::bytes_for(groups);
  // a vector holds at most twice what it needs
  return rows + 2 * sizeof(Large) * static_cast<std::size_t>(num_edges / kLarge);
}

}  // namespace foregather
