// HotRows: neighbour lists of chosen rows, held in memory beside the block cache.
//
// A block of the file mixes the lists of dozens of rows, so hardly any block is hot although rows
// are: a place is worth more with a whole list that is often picked from. Which rows those are the
// caller says; they are found by a bit per node, and the place of a list by counting bits. Lists
// are held as they are in the file, so picks from them are the same.
//
// Memory: everything is within `memory` bytes: 1/8 + 1/128 byte per node, 8 bytes per held row, and
// the lists.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "graph/row_index.hpp"
#include "io/reading/reader.hpp"
#include "parallel/buffer.hpp"
#include "plan/block_pass.hpp"

namespace foregather {

/// The file of sources, as lists are read from it.
struct HotFile {
  std::int64_t payload;  ///< byte of edge 0
  std::int64_t bytes;    ///< padded size
  std::int64_t gap;      ///< unneeded bytes that are read through
};

/// What filling has read, and what is held then.
struct HotReads {
  std::int64_t requests = 0, bytes = 0, rows = 0, held = 0;
};

template <typename Id>
class HotRows {
 public:
  /// Bytes of the tables for any set of rows; `memory` below twice that holds nothing.
  static std::size_t table_bytes(std::int64_t num_nodes) {
    const std::size_t words = static_cast<std::size_t>(num_nodes) / 64 + 1;
    return words * 8 + (words / 8 + 1) * 4;
  }

  HotRows(std::int64_t num_nodes, std::size_t memory);

  /// Replaces what is held by the first of these rows that fit, best first; rows must be distinct
  /// nodes. Lists are read in the order of the file through `staging`; those longer than half of it
  /// are left out. After an exception nothing is held.
  HotReads fill(std::span<const std::int64_t> rows, const RowIndex& index, const HotFile& file,
                BlockReader& reader, std::span<std::byte> staging);

  bool empty() const { return starts_.empty(); }
  /// The list of a row, or null.
  const Id* list(std::int64_t row) const {
    const auto word = static_cast<std::size_t>(row) / 64;
    const std::uint64_t bit = std::uint64_t{1} << (row & 63);
    if ((bits_[word] & bit) == 0) return nullptr;
    std::size_t rank = ranks_[word / 8];
    for (std::size_t w = word / 8 * 8; w < word; ++w) {
      rank += static_cast<std::size_t>(std::popcount(bits_[w]));
    }
    rank += static_cast<std::size_t>(std::popcount(bits_[word] & (bit - 1)));
    return ids_.data() + starts_[rank];
  }

 private:
  void choose(std::span<const std::int64_t> rows, const RowIndex& index, std::size_t longest);
  void place(const RowIndex& index);
  std::size_t ask(std::size_t at, const RowIndex& index, const HotFile& file, std::int64_t most,
                  WindowRequests& out, std::vector<std::int64_t>& places) const;
  void clear();

  std::size_t room_;  ///< bytes for lists and their starts
  std::vector<std::uint64_t> bits_;
  std::vector<std::uint32_t> ranks_;  ///< by 512 nodes: held rows before them
  std::vector<std::int64_t> rows_;    ///< held, ascending; only while filling
  std::vector<std::int64_t> starts_;  ///< by held row, ascending: its first id
  Buffer<Id> ids_;
};

}  // namespace foregather
