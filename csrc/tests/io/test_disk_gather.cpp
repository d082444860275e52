#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "io/files/probe_ways.hpp"
#include "io/gathering/disk_gather.hpp"
#include "plan/baselines/call_planner.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

constexpr std::int64_t kBlock = 4096;

struct Scratch {  // rows of pseudo-random bytes after one page, removed at the end
  Scratch(std::int64_t rows, std::int64_t row_bytes)
      : geometry{rows, row_bytes, kBlock,
                 kBlock + (rows * row_bytes + kBlock - 1) / kBlock * kBlock, kBlock},
        bytes(static_cast<std::size_t>(geometry.file_bytes)) {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(draw(7, i));
    char pattern[] = "gather-XXXXXX";
    const int fd = ::mkstemp(pattern);
    CHECK(fd >= 0);
    path = pattern;
    CHECK(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    ::close(fd);
  }
  ~Scratch() { ::unlink(path.c_str()); }
  const std::byte* row(std::int64_t id) const {
    return bytes.data() + geometry.payload + id * geometry.row_bytes;
  }
  Geometry geometry;
  std::vector<std::byte> bytes;
  std::string path;
};

std::vector<std::uint32_t> distinct(const Geometry& geometry, int count, std::uint64_t seed) {
  std::vector<std::uint32_t> ids;
  std::vector<bool> seen(static_cast<std::size_t>(geometry.num_rows));
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
    const auto id =
        static_cast<std::uint32_t>(bounded(seed, i, static_cast<std::uint32_t>(geometry.num_rows)));
    if (!seen[id]) ids.push_back(id);
    seen[id] = true;
  }
  return ids;
}

DiskOptions options(Backend backend, int depth, std::int64_t staging) {
  DiskOptions chosen;
  chosen.backend = backend, chosen.depth = depth, chosen.staging_bytes = staging;
  return chosen;
}

void same_rows(const Scratch& file, Backend backend, int depth, std::int64_t slots) {
  const std::int64_t staging = (file.geometry.row_bytes / kBlock + 2) * 4 * kBlock;
  DiskGather gather(file.path, "rows", file.geometry, slots, options(backend, depth, staging));
  CallPlanner planner(file.geometry, slots, kBlock, staging);
  std::vector<std::vector<std::uint32_t>> batches;
  std::int64_t bytes = 0;
  for (std::uint64_t t = 0; t < 12; ++t) {  // all queued before the first step
    batches.push_back(distinct(file.geometry, 60, t));
    const CallPlan made = planner.plan(std::span<const std::uint32_t>(batches.back()));
    CHECK(made.inverse.empty());
    for (std::int64_t length : made.plan->request_length) bytes += length;
    gather.append(made.plan);
  }
  const auto width = static_cast<std::size_t>(file.geometry.row_bytes);
  for (const auto& batch : batches) {
    std::vector<std::byte> out(batch.size() * width);
    gather.step(out);
    for (std::size_t k = 0; k < batch.size(); ++k) {
      CHECK(std::memcmp(out.data() + k * width, file.row(batch[k]), width) == 0);
    }
  }
  CHECK(gather.counters().reads.bytes == bytes);
  CHECK_THROWS(gather.step({}), InputError);
}

// Ends with reads in flight: by destruction, by close in another thread, by an error.
void ends(const Scratch& file, Backend backend) {
  const auto ids = distinct(file.geometry, 400, 3);
  const auto width = static_cast<std::size_t>(file.geometry.row_bytes);
  for (int round = 0; round < 12; ++round) {
    DiskOptions chosen = options(backend, 32, 64 * kBlock);
    if (round % 4 == 1) {
      chosen.faults = std::make_shared<Faults>();
      chosen.faults->fail(0, INT64_MAX, 5, 1 + round);
    }
    if (round % 4 == 2) {
      chosen.faults = std::make_shared<Faults>();
      chosen.faults->delay(0, INT64_MAX, 1, 50);
    }
    DiskGather gather(file.path, "rows", file.geometry, 8, chosen);
    CallPlanner planner(file.geometry, 8, 0, 16 * kBlock);
    for (int i = 0; i < 3; ++i)
      gather.append(planner.plan(std::span<const std::uint32_t>(ids)).plan);
    std::vector<std::byte> out(ids.size() * width);
    if (round % 4 == 1) {
      CHECK_THROWS(for (int i = 0; i < 3; ++i) gather.step(out), StorageError);
      CHECK_THROWS(gather.step(out), StorageError);
    } else if (round % 4 == 2) {
      std::jthread closer([&] { gather.close(); });
      try {
        gather.step(out);
      } catch (const StorageError&) {
      }
    } else if (round % 4 == 3) {
      gather.step(out);
    }
  }
}

}  // namespace

int main() {
  for (const BackendStatus& status : probe(".").backends) {
    if (!status.works) {
      std::printf("%s skipped: %s\n", backend_name(status.backend), status.reason.c_str());
      continue;
    }
    for (std::int64_t row_bytes : {4, 100, 512, 4096, 10000}) {
      const Scratch file(300, row_bytes);
      for (int depth : {1, 3, 64}) {
        for (std::int64_t slots : {0, 1, 40, 1000}) same_rows(file, status.backend, depth, slots);
      }
    }
    ends(Scratch(1000, 512), status.backend);
  }
  const Scratch file(10, 8);
  CHECK_THROWS(DiskGather(file.path, "", file.geometry, -1, {}), InputError);
  CHECK_THROWS(DiskGather("no-such-file", "", file.geometry, 1, {}), StorageError);
  CHECK_THROWS(DiskGather(file.path, "", file.geometry, 1, options(Backend::kBuffered, 4, 100)),
               InputError);
  return 0;
}
