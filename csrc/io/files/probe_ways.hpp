// Probe: which ways of reading work in a folder, found out by trying them.
//
// Containers, old kernels and file systems refuse io_uring or O_DIRECT for reasons that no version
// number shows, so a probe makes a small nameless file in the folder and reads it back with every
// backend. It leaves nothing behind and never throws for a refusal: the refusal is the answer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/reading/reader.hpp"

namespace foregather {

struct BackendStatus {
  Backend backend;
  bool works;
  std::string reason;  ///< why not, in words; empty where it works
};

struct Probe {
  std::vector<BackendStatus> backends;  ///< in the order of kLadder
  std::int64_t alignment = 0;           ///< of direct reads; 0 where they are refused
  bool deferred = false;                ///< the ring defers completions (Linux 6.1 and later)
};

/// Tries every backend in a folder, or on a file of at least 8 KiB.
/// Throws StorageError only where nothing can be tried: no such folder, or not writable.
Probe probe(const std::string& path);

/// Switches an open file to direct I/O and returns the alignment it needs, at least 512 except
/// where the file system says that less is enough. Throws StorageError where direct I/O is refused.
std::int64_t make_direct(int fd, const std::string& name);

}  // namespace foregather
