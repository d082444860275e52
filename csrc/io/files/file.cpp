#include "io/files/file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/platform.hpp"
#include "base/types.hpp"
#include "io/reading/ring.hpp"

namespace foregather {

bool passing(int code) { return code == EINTR || code == EAGAIN || code == EBUSY; }

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

Descriptor::~Descriptor() {
  if (value >= 0) ::close(value);
}

std::string last_part(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

int open_again(const std::string& path, int flags, unsigned mode) {
  int fd;
  do {
    fd = ::open(path.c_str(), flags, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

int open_regular(const std::string& path, const std::string& name) {
  const int fd = open_again(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // never waits on a pipe
  if (fd < 0) throw StorageError("cannot open " + name + ": " + errno_text(errno), errno);
  struct stat info;
  if (::fstat(fd, &info) != 0) {
    const int code = errno;
    ::close(fd);
    throw StorageError("cannot inspect " + name + ": " + errno_text(code), code);
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(fd);
    const bool folder = S_ISDIR(info.st_mode);
    throw StorageError(name + " is " + (folder ? "a folder" : "not a regular file") +
                           ", expected a file; name the file to read",
                       folder ? EISDIR : EINVAL);
  }
  // Not left on: io_uring would give EAGAIN where it should wait.
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return fd;
}

void File::fail(int code, std::int64_t offset) const {
  throw StorageError(
      "reading " + name + " at byte " + std::to_string(offset) + " failed: " + errno_text(code),
      code);
}

std::int64_t File::advance(std::int64_t offset, std::int64_t length, std::int64_t done,
                           std::int64_t got) const {
  const std::int64_t sum = done + got;
  if (sum < length && (got == 0 || sum % alignment != 0)) {
    throw StorageError(name + " ends at byte " + std::to_string(offset + sum) +
                           ", but a request wants its bytes " + std::to_string(offset) + " to " +
                           std::to_string(offset + length) + "; the file is truncated",
                       ENODATA);
  }
  return sum;
}

std::int64_t pread_whole(const File& file, std::int64_t offset, std::int64_t length,
                         std::byte* to) {
  std::int64_t done = 0;
  std::int64_t calls = 0;
  for (int tries = 0; done < length; ++calls) {
    const std::int64_t asked = std::min(length - done, kMostPerRead);
    const ssize_t moved =
        ::pread(file.fd, to + done, static_cast<std::size_t>(asked), offset + done);
    const std::int64_t got = file.judge(offset + done, asked, moved < 0 ? -errno : moved);
    const int code = got < 0 ? static_cast<int>(-got) : 0;
    if (code == 0) {
      done = file.advance(offset, length, done, got);
      tries = 0;
    } else if (!passing(code) || ++tries > kMostTries) {
      file.fail(code, offset + done);
    } else if (code != EINTR) {
      pause();
    }
  }
  file.check(offset, length, to);
  return calls - 1;
}

FileWatch::FileWatch(int fd, std::string path, std::string name)
    : fd_(fd), path_(std::move(path)), name_(std::move(name)) {
  if (::fstat(fd_, &then_) != 0) {
    throw StorageError("cannot inspect " + name_ + ": " + errno_text(errno), errno);
  }
}

void FileWatch::check() const {
  struct stat now;
  if (::fstat(fd_, &now) != 0) {
    throw StorageError("cannot inspect " + name_ + ": " + errno_text(errno), errno);
  }
  if (now.st_size != then_.st_size) {
    throw StorageError(name_ + " had " + std::to_string(then_.st_size) +
                           " bytes when it was opened and has " + std::to_string(now.st_size) +
                           " now; restore it and open it again",
                       ESTALE);
  }
  if (!platform::same_time(now, then_)) {
    throw StorageError(name_ + " was written to since it was opened; verify it and open it again",
                       ESTALE);
  }
  struct stat named;
  const bool there = ::stat(path_.c_str(), &named) == 0;
  if (!there || named.st_dev != then_.st_dev || named.st_ino != then_.st_ino) {
    throw StorageError(name_ + " was " + (there ? "replaced by another file" : "moved or removed") +
                           " since it was opened; open it again",
                       ESTALE);
  }
}

}  // namespace foregather
