#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "io/files/probe_ways.hpp"
#include "io/reading/reader.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

constexpr std::int64_t kBlock = 4096;
constexpr std::int64_t kBlocks = 300;

struct Scratch {  // a file of pseudo-random bytes in the working folder, removed at the end
  Scratch() : bytes(kBlock * kBlocks) {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(draw(7, i));
    char pattern[] = "reader-XXXXXX";
    fd = ::mkstemp(pattern);
    CHECK(fd >= 0);
    path = pattern;
    CHECK(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  ~Scratch() {
    ::close(fd);
    ::unlink(path.c_str());
  }
  std::vector<std::byte> bytes;
  std::string path;
  int fd;
};

struct Pages {  // page-aligned memory
  explicit Pages(std::int64_t count)
      : size(static_cast<std::size_t>(count * kBlock)),
        data(static_cast<std::byte*>(
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    CHECK(data != MAP_FAILED);
  }
  ~Pages() { munmap(data, size); }
  std::span<std::byte> span() const { return {data, size}; }
  std::size_t size;
  std::byte* data;
};

struct List {  // requests that own their arrays
  std::vector<std::int64_t> offset, length, destination;
  void add(std::int64_t from, std::int64_t bytes, std::int64_t to) {
    offset.push_back(from), length.push_back(bytes), destination.push_back(to);
  }
  Requests view() const { return {offset, length, destination}; }
};

List scattered(int count, std::int64_t seed) {
  List list;
  std::int64_t to = 0;
  for (int i = 0; i < count; ++i) {
    const std::int64_t blocks = 1 + bounded(static_cast<std::uint64_t>(seed), 2u * i, 4);
    const std::int64_t from = bounded(static_cast<std::uint64_t>(seed), 2u * i + 1, kBlocks - 4);
    list.add(from * kBlock, blocks * kBlock, to);
    to += blocks * kBlock;
  }
  return list;
}

bool equal(const List& list, const Scratch& file, const Pages& memory) {
  for (std::size_t i = 0; i < list.offset.size(); ++i) {
    if (std::memcmp(memory.data + list.destination[i], file.bytes.data() + list.offset[i],
                    static_cast<std::size_t>(list.length[i])) != 0) {
      return false;
    }
  }
  return true;
}

void same_bytes(const Scratch& file, Backend backend) {
  for (int depth : {1, 2, 3, 16, 64}) {
    for (int count : {0, 1, 5, 200}) {
      for (bool pin : {false, true}) {
        Pages memory(4 * count + 1);
        BlockReader reader(file.path, backend, depth);
        if (pin) reader.attach(memory.span());
        const List list = scattered(count, depth * 1000 + count);
        std::int64_t bytes = 0;
        for (std::int64_t length : list.length) bytes += length;
        for (int pass = 1; pass <= 2; ++pass) {
          std::memset(memory.data, 0, memory.size);
          reader.read(list.view(), memory.span());
          CHECK(equal(list, file, memory));
          const ReadCounters counted = reader.counters();
          CHECK(counted.requests == pass * count);
          CHECK(counted.bytes == pass * bytes);
          CHECK(count == 0 || counted.submissions > 0);
          CHECK(backend != Backend::kUring || counted.submissions <= pass * count);
        }
      }
    }
  }
}

// After each failure the same reader must work again and the kernel must have let go of the memory.
void failures(const Scratch& file, Backend backend) {
  Pages memory(800);
  BlockReader reader(file.path, backend, 32);
  const List good = scattered(150, 3);
  List past = good;  // the end of the file in the middle of a long list
  past.offset[70] = (kBlocks - 1) * kBlock;
  past.length[70] = 2 * kBlock;
  CHECK_THROWS(reader.read(past.view(), memory.span()), StorageError);
  reader.read(good.view(), memory.span());
  CHECK(equal(good, file, memory));

  {
    // A destination the kernel may not write: its reads fail one by one while others are in flight.
    Pages closed(800);
    CHECK(mprotect(closed.data + closed.size / 4, closed.size / 4, PROT_NONE) == 0);
    CHECK_THROWS(reader.read(good.view(), closed.span()), StorageError);
  }
  reader.read(good.view(), memory.span());
  CHECK(equal(good, file, memory));

  List hostile;
  for (auto [from, bytes, to] : {std::tuple{-kBlock, kBlock, kBlock},
                                 {kBlock, -kBlock, kBlock},
                                 {kBlock, 0 * kBlock, kBlock},
                                 {kBlock, kBlock, -kBlock},
                                 {kBlock, kBlock, 800 * kBlock},
                                 {kBlock, INT64_MAX - kBlock + 1, kBlock},
                                 {INT64_MAX - kBlock + 1, 2 * kBlock, kBlock}}) {
    hostile = List{};
    hostile.add(from, bytes, to);
    CHECK_THROWS(reader.read(hostile.view(), memory.span()), InputError);
  }
  hostile.offset.push_back(0);
  CHECK_THROWS(reader.read(hostile.view(), memory.span()), InputError);
  if (backend != Backend::kBuffered) {
    List crooked;
    crooked.add(1, kBlock, 0);
    CHECK_THROWS(reader.read(crooked.view(), memory.span()), InputError);
    CHECK_THROWS(reader.read(good.view(), memory.span().subspan(1)), InputError);
  }
}

// A reader made in one thread is used in others, at the same time.
void threads(const Scratch& file, Backend backend) {
  BlockReader reader(file.path, backend, 8);
  auto work = [&](int seed) {
    Pages memory(120);
    const List list = scattered(30, seed);
    for (int pass = 0; pass < 5; ++pass) {
      reader.read(list.view(), memory.span());
      CHECK(equal(list, file, memory));
    }
  };
  {
    std::vector<std::jthread> group;
    for (int i = 0; i < 3; ++i) group.emplace_back(work, i);
  }
  work(9);
  CHECK(reader.counters().requests == 4 * 5 * 30);
}

}  // namespace

int main() {
  const Scratch file;
  CHECK_THROWS(BlockReader("no-such-file", Backend::kBuffered, 4), StorageError);
  CHECK_THROWS(BlockReader(".", Backend::kBuffered, 4), StorageError);
  CHECK_THROWS(BlockReader("/dev/null", Backend::kBuffered, 4), StorageError);
  CHECK_THROWS(BlockReader(file.path, Backend::kBuffered, 0), InputError);
  CHECK_THROWS(BlockReader(file.path, Backend::kBuffered, kMaxDepth + 1), InputError);
  CHECK_THROWS(parse_backend("libaio"), InputError);
  CHECK_THROWS(probe("no-such-folder"), StorageError);

  for (const BackendStatus& status : probe(".").backends) {
    CHECK(status.works == status.reason.empty());
    CHECK(parse_backend(backend_name(status.backend)) == status.backend);
    if (!status.works) {
      std::printf("%s skipped: %s\n", backend_name(status.backend), status.reason.c_str());
      continue;
    }
    same_bytes(file, status.backend);
    failures(file, status.backend);
    threads(file, status.backend);
  }
  return 0;
}
