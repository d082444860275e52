#include "io/files/probe_ways.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/platform.hpp"
#include "io/files/file.hpp"
#include "io/reading/ring.hpp"

namespace foregather {
namespace {

constexpr std::int64_t kPage = 4096;        // the most any common device asks for
constexpr std::int64_t kTrialBytes = 8192;  // two pages: one to skip, one to read

struct Mapping {  // page-aligned memory, freed on leaving
  explicit Mapping(std::size_t size)
      : bytes(size),
        data(static_cast<std::byte*>(
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (data == MAP_FAILED) throw StorageError("cannot allocate memory for a trial read", errno);
  }
  ~Mapping() { munmap(data, bytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::size_t bytes;
  std::byte* data;
};

struct Closer {  // closes on leaving
  ~Closer() {
    if (fd >= 0) ::close(fd);
  }
  int fd;
};

// The smallest power of two from 512 on that a trial read accepts; 4096 where the file is too
// short to try, since every common device accepts that.
std::int64_t tried_alignment(int fd) {
  struct stat info;
  if (::fstat(fd, &info) != 0 || info.st_size < kTrialBytes) return kPage;
  Mapping memory(static_cast<std::size_t>(2 * kPage));
  for (std::int64_t step = 512; step < kPage; step *= 2) {
    // An address and an offset that are multiples of `step` but of nothing larger.
    const ssize_t got =
        ::pread(fd, memory.data + step, static_cast<std::size_t>(step), kPage + step);
    if (got == step) return step;
  }
  return kPage;
}

// A nameless file with known bytes in the folder.
int trial_file(const std::string& folder) {
  const int fd = platform::nameless_file(folder);
  if (fd < 0) {
    throw StorageError("cannot make a trial file: " + errno_text(errno) +
                           "; give a folder that exists and may be written to, or a file",
                       errno);
  }
  std::vector<unsigned char> bytes(kTrialBytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(i * 31 + i / 256);
  }
  if (::pwrite(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    const int code = errno;
    ::close(fd);
    throw StorageError("cannot write a trial file: " + errno_text(code), code);
  }
  return fd;
}

// Reads the second page of the file and compares it with what plain pread gives.
BackendStatus try_backend(const std::string& path, Backend backend, std::int64_t& alignment) {
  try {
    BlockReader reader(path, backend, 4, "the trial file");
    Mapping memory(static_cast<std::size_t>(2 * kPage));
    const std::int64_t offset = kPage, length = kPage, destination = 0;
    reader.read({{&offset, 1}, {&length, 1}, {&destination, 1}}, {memory.data, memory.bytes});
    const Closer plain{open_again(path, O_RDONLY | O_CLOEXEC)};
    if (::pread(plain.fd, memory.data + kPage, kPage, kPage) != kPage ||
        std::memcmp(memory.data, memory.data + kPage, kPage) != 0) {
      return {backend, false, "it gives different bytes than a plain read"};
    }
    if (backend != Backend::kBuffered) alignment = reader.alignment();
    return {backend, true, ""};
  } catch (const StorageError& error) {
    return {backend, false, error.what()};
  }
}

}  // namespace

std::int64_t make_direct(int fd, const std::string& name) {
  const std::string refused = "direct reads (O_DIRECT) of " + name + " are refused";
  const std::int64_t declared = platform::direct_alignment(fd);
  if (declared == 0) throw StorageError(refused + " by its file system", EOPNOTSUPP);
  if (const int code = platform::leave_page_cache(fd); code != 0) {
    throw StorageError(refused + ": " + errno_text(code), code);
  }
  return declared > 0 ? declared : tried_alignment(fd);
}

Probe probe(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    throw StorageError(
        "cannot probe " + path.substr(path.find_last_of('/') + 1) + ": " + errno_text(errno),
        errno);
  }
  const Closer made{S_ISDIR(info.st_mode) ? trial_file(path) : -1};
  // A nameless file can still be opened again through its descriptor.
  const std::string file = made.fd >= 0 ? platform::path_of(made.fd) : path;
  Probe answer;
  for (Backend backend : kLadder) {
    answer.backends.push_back(try_backend(file, backend, answer.alignment));
  }
  if (answer.backends[0].works) {
    const Closer opened{open_again(file, O_RDONLY | O_CLOEXEC)};
    answer.deferred = opened.fd >= 0 && Ring(4, opened.fd).deferred();
  }
  return answer;
}

}  // namespace foregather
