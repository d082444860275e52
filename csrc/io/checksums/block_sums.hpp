// Block sums: a CRC32C for each 4096 bytes of an array's payload, and reads checked against them.
//
// Blocks are counted from the start of the payload; the last one may be shorter. The payload of an
// array file starts at byte 4096, so a block is a page of the file, and what direct reads bring is
// whole blocks. Whoever reads checks before a byte is used; the error names file, block and rows.
//
// Contract:
// - check() is const and may run in many threads; it takes whole blocks and throws FormatError for
//   the first one that differs. Bytes before the payload (the header) and after it (the padding)
//   may be in the range and are not looked at.
// - A range that cuts a block, or reaches a block that is not covered, is an InputError: nothing is
//   passed over. A reader of a part of the file may hold the sums of that part only.
// - Summer gives the sums of a payload that comes in any pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace foregather {

inline constexpr std::int64_t kSumBlock = 4096;

class BlockSums {
 public:
  /// @param name what errors call the file
  /// @param payload bytes that the sums cover
  /// @param row_bytes bytes of a row, so that errors can name rows
  /// @param offset where the payload starts in the file
  /// @param first first block that is covered, `last` one past the last; -1: all to the end
  BlockSums(std::string name, std::int64_t payload, std::int64_t row_bytes, std::int64_t offset,
            std::int64_t first = 0, std::int64_t last = -1);

  /// Throws unless every block of the range is what its sum says.
  /// @param at where in the file the bytes were read
  void check(std::int64_t at, std::span<const std::byte> bytes) const;

  /// Takes the sums of whole blocks that are about to be written at byte `at` of the file.
  void take(std::int64_t at, std::span<const std::byte> bytes);

  std::span<std::uint32_t> sums() { return sums_; }
  const std::string& name() const { return name_; }
  std::int64_t payload() const { return payload_; }
  std::int64_t offset() const { return offset_; }
  std::int64_t first() const { return first_; }

 private:
  template <typename Use>
  void for_blocks(std::int64_t at, std::span<const std::byte> bytes, const Use& use) const;
  [[noreturn]] void fail(std::int64_t block) const;

  std::string name_;
  std::int64_t payload_, row_bytes_, offset_, first_;
  std::vector<std::uint32_t> sums_;  ///< of block first_ and those after it
};

/// The sums of a payload that comes in pieces.
class Summer {
 public:
  /// Appends the sums of the blocks that these bytes complete.
  void update(std::span<const std::byte> bytes, std::vector<std::uint32_t>& out);
  /// Appends the sum of the last block where it is shorter; nothing may follow.
  void finish(std::vector<std::uint32_t>& out);

 private:
  std::uint32_t sum_ = 0;   ///< of the block that is not complete
  std::size_t filled_ = 0;  ///< its bytes so far, < kSumBlock
};

}  // namespace foregather
