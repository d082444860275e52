// FileMap: a file mapped read-only, which is named if a page cannot be read and the process ends.
//
// The kernel answers a read of a mapped page with SIGBUS if the disk fails or the file was cut.
// Continuing with other bytes would be silently wrong, and kernels that walk a topology rely on
// what they read before; so the process ends as it would have, but only after a sentence on
// standard error has named the file. Code that computes reads files with calls that return errors;
// maps are for inspection.
//
// The handler is installed while any map exists. Faults at other addresses go to the handler that
// was there before (a Python program's faulthandler, a user's own).
#pragma once

#include <cstddef>
#include <string>

namespace foregather {

/// Owns a mapping of the first `size` bytes of a file.
class FileMap {
 public:
  /// Maps an open file; the descriptor may be closed afterwards.
  /// Throws StorageError if the system refuses, InputError for a size of 0.
  FileMap(int descriptor, std::size_t size, const std::string& name);
  ~FileMap();
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  struct Watched;
  friend struct MapHandler;

  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  Watched* watched_ = nullptr;
};

}  // namespace foregather
