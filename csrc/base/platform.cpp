#include "base/platform.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

#if FOREGATHER_LINUX
#include <sched.h>
#include <sys/syscall.h>
#endif

namespace foregather::platform {
namespace {

int truncate_to(int fd, std::int64_t bytes) {
  int code;
  do {
    code = ::ftruncate(fd, bytes) == 0 ? 0 : errno;
  } while (code == EINTR);
  return code;
}

// A file that loses its name as soon as it is open.
int unlinked_file(const std::string& folder) {
  std::string pattern = folder + "/.foregather-XXXXXX";
  const int fd = ::mkstemp(pattern.data());
  if (fd < 0) return fd;
  ::unlink(pattern.c_str());
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return fd;
}

}  // namespace

void expect_scattered_reads(int fd) {
#if defined(__APPLE__)
  ::fcntl(fd, F_RDAHEAD, 0);
#else
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
#endif
}

bool same_time(const struct stat& one, const struct stat& other) {
#if defined(__APPLE__)
  const auto &a = one.st_mtimespec, &b = other.st_mtimespec;
#else
  const auto &a = one.st_mtim, &b = other.st_mtim;
#endif
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

#if FOREGATHER_LINUX

int allowed_processors() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

int leave_page_cache(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags < 0 || ::fcntl(fd, F_SETFL, flags | O_DIRECT) != 0 ? errno : 0;
}

void use_page_cache(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_DIRECT); }

// Not said before Linux 6.1, or by a file system that does not answer. The fields are read at their
// fixed places, because the C library's struct may be older than the kernel.
std::int64_t direct_alignment(int fd) {
#ifdef SYS_statx
  constexpr unsigned kDirectAlign = 0x2000;  // STATX_DIOALIGN
  constexpr std::size_t kMaskAt = 0, kMemoryAt = 0x98, kOffsetAt = 0x9C;
  unsigned char answer[256] = {};
  if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, kDirectAlign, answer) != 0) return -1;
  std::uint32_t mask, memory, offset;
  std::memcpy(&mask, answer + kMaskAt, sizeof mask);
  std::memcpy(&memory, answer + kMemoryAt, sizeof memory);
  std::memcpy(&offset, answer + kOffsetAt, sizeof offset);
  if (!(mask & kDirectAlign)) return -1;
  return std::max(memory, offset);
#else
  (void)fd;
  return -1;
#endif
}

int nameless_file(const std::string& folder) {
  int fd;
  do {
    fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  } while (fd < 0 && errno == EINTR);
  // Some file systems (overlay, network) have no nameless files; EISDIR is what a kernel without
  // O_TMPFILE makes of it.
  return fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR) ? fd : unlinked_file(folder);
}

std::string path_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

int reserve_room(int fd, std::int64_t bytes) {
  int code;
  do {
    code = ::fallocate(fd, 0, 0, bytes) == 0 ? 0 : errno;
  } while (code == EINTR);
  return code == EOPNOTSUPP ? truncate_to(fd, bytes) : code;
}

#else

int allowed_processors() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

int leave_page_cache(int fd) {
#if defined(__APPLE__)
  return ::fcntl(fd, F_NOCACHE, 1) != 0 ? errno : 0;
#else
  return ::posix_fadvise(fd, 0, 0, POSIX_FADV_NOREUSE);
#endif
}

void use_page_cache(int fd) {
#if defined(__APPLE__)
  ::fcntl(fd, F_NOCACHE, 0);
#else
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL);
#endif
}

std::int64_t direct_alignment(int) { return 1; }

int nameless_file(const std::string& folder) { return unlinked_file(folder); }

std::string path_of(int fd) { return "/dev/fd/" + std::to_string(fd); }

int reserve_room(int fd, std::int64_t bytes) {
#if defined(__APPLE__)
  fstore_t room{F_ALLOCATEALL, F_PEOFPOSMODE, 0, bytes, 0};
  if (::fcntl(fd, F_PREALLOCATE, &room) != 0 && errno != ENOTSUP) return errno;
#endif
  return truncate_to(fd, bytes);
}

#endif

}  // namespace foregather::platform
