// File: an open regular file, how reads of it are judged, and whether it is still what it was.
// Private to the readers.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "io/checksums/block_sums.hpp"
#include "io/faults.hpp"

namespace foregather {

inline constexpr std::int64_t kMostPerRead = std::int64_t{1}
                                             << 30;  // below the kernel's 2 GiB - 4 KiB
inline constexpr int kMostTries =
    1000;  // without progress, 1 ms apart where the kernel has no resources

/// Temporary refusals: the same read may be submitted again.
bool passing(int code);
void pause();

class Descriptor {  ///< a file descriptor that is closed once
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : value(fd) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int value = -1;
};

/// The last part of a path, which errors name where nothing else was given.
std::string last_part(const std::string& path);

/// open(2), called again if a signal interrupted it; errno says why if the result is below 0.
int open_again(const std::string& path, int flags, unsigned mode = 0);

/// Opens a regular file for reading; StorageError for anything else. Never waits on a pipe.
int open_regular(const std::string& path, const std::string& name);

/// What the backends need to know about a file to judge a read.
struct File {
  int fd;
  const std::string& name;
  std::int64_t alignment;
  Faults* faults = nullptr;         ///< tests only
  const BlockSums* sums = nullptr;  ///< what the bytes must be; null: not known

  [[noreturn]] void fail(int code, std::int64_t offset) const;

  /// `got` more bytes arrived after `done` of a request: returns the new sum, or throws at the end
  /// of the file. A direct read that stops between blocks can only have met the end.
  std::int64_t advance(std::int64_t offset, std::int64_t length, std::int64_t done,
                       std::int64_t got) const;

  /// Called for every request when its last byte is there, before anything looks at it.
  void check(std::int64_t offset, std::int64_t length, const std::byte* data) const {
    if (sums != nullptr) sums->check(offset, {data, static_cast<std::size_t>(length)});
  }

  /// The result of a read, or what a test makes of it.
  std::int64_t judge(std::int64_t offset, std::int64_t asked, std::int64_t result) const {
    return faults == nullptr ? result : faults->apply(offset, asked, result);
  }
};

/// One request by pread, whole and checked, or an error; returns calls made beyond the first.
std::int64_t pread_whole(const File& file, std::int64_t offset, std::int64_t length, std::byte* to);

/// Remembers a file as it was opened and tells when it was changed, truncated or replaced since.
///
/// Seen: another size or time of change of the open file, another file (or none) under its path.
/// Not seen: what the file system does not record, such as a bit that flips on the medium; that is
/// what block checksums are for.
class FileWatch {
 public:
  FileWatch(int fd, std::string path, std::string name);
  /// StorageError in one sentence where the file is not what it was.
  void check() const;
  std::int64_t size() const { return then_.st_size; }

 private:
  int fd_;
  std::string path_, name_;
  struct stat then_;
};

}  // namespace foregather
