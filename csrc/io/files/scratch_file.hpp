// Scratch file: a file without a name, for rows that are written once and read once.
//
// It never has a name that could be left behind (or, where the file system cannot do that, loses it
// before anything is written), and its space is reserved before the first write: a disk that is too
// full says so at once. Writes are direct where the file system allows it, so that they take no
// memory from a limited process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/checksums/block_sums.hpp"
#include "io/faults.hpp"

namespace foregather {

class Descriptor;

class ScratchFile {
 public:
  /// Reserves `bytes` in `folder`, for rows of `row_bytes`; StorageError (ENOSPC and others) where
  /// that is refused.
  ScratchFile(const std::string& folder, std::int64_t bytes, std::int64_t row_bytes,
              std::shared_ptr<Faults> faults);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  /// Writes whole pages at a page; StorageError where not all could be written.
  void write(std::int64_t offset, std::span<const std::byte> pages);

  /// A path that opens the file in this process, while it lives.
  std::string path() const;
  std::int64_t bytes() const { return bytes_; }
  /// What was written, for those who read it back.
  std::shared_ptr<BlockSums> sums() const { return sums_; }
  bool direct() const { return direct_; }

 private:
  void reserve() const;
  [[noreturn]] void fail(const std::string& what, int code) const;

  const std::string folder_;
  const std::int64_t bytes_;
  std::shared_ptr<Faults> faults_;
  std::shared_ptr<BlockSums> sums_;
  std::unique_ptr<Descriptor> file_;
  bool direct_ = false;
};

}  // namespace foregather
