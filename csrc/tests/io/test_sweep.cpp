#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "io/files/probe_ways.hpp"
#include "io/files/scratch_file.hpp"
#include "io/gathering/disk_gather.hpp"
#include "io/repacking/sweep.hpp"
#include "plan/planner.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

struct Rows {  // pseudo-random bytes after one page, removed at the end
  Rows(std::int64_t rows, std::int64_t row_bytes)
      : geometry{rows, row_bytes, kPage, kPage + (rows * row_bytes + kPage - 1) / kPage * kPage,
                 kPage},
        bytes(static_cast<std::size_t>(geometry.file_bytes)) {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(draw(9, i));
    char pattern[] = "sweep-XXXXXX";
    const int fd = ::mkstemp(pattern);
    CHECK(fd >= 0);
    path = pattern;
    CHECK(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    ::close(fd);
  }
  ~Rows() { ::unlink(path.c_str()); }
  const std::byte* row(std::int64_t id) const { return bytes.data() + geometry.start(id); }
  Geometry geometry;
  std::vector<std::byte> bytes;
  std::string path;
};

using Bulk = std::vector<std::vector<std::uint32_t>>;

Bulk random_bulk(const Geometry& geometry, std::uint64_t seed) {
  Bulk bulk(6);
  for (std::size_t t = 0; t < bulk.size(); ++t) {
    std::vector<bool> seen(static_cast<std::size_t>(geometry.num_rows));
    for (std::uint64_t i = 0; i < 12 * t; ++i) {  // the first batch is empty
      const auto id = static_cast<std::uint32_t>(
          bounded(derive(seed, t), i, static_cast<std::uint32_t>(geometry.num_rows)));
      if (!seen[id]) bulk[t].push_back(id);
      seen[id] = true;
    }
  }
  return bulk;
}

SweepOptions options(Backend backend, int depth) {
  SweepOptions chosen;
  chosen.backend = backend, chosen.depth = depth;
  chosen.staging_bytes = std::int64_t{256} << 10;
  chosen.write_bytes = Sweeper::least_write_bytes(6);
  return chosen;
}

// Bulks are swept, and read from their scratch files by executors that share the slots.
void same_rows(const Rows& file, Backend backend, int depth, std::int64_t slots) {
  Planner planner(file.geometry, slots, {0, 1 << 16, false, false, false});
  Sweeper sweeper(file.path, "rows", file.geometry, options(backend, depth));
  const auto shared = make_slots(slots * file.geometry.row_bytes);
  const auto width = static_cast<std::size_t>(file.geometry.row_bytes);
  std::int64_t read = 0, written = 0;
  for (std::uint64_t number = 0; number < 4; ++number) {
    const Bulk bulk = random_bulk(file.geometry, number);
    const std::vector<std::span<const std::uint32_t>> batches(bulk.begin(), bulk.end());
    const RepackPlan plan = make_repack(planner.plan(batches), 8192, 1 << 16);
    if (plan.move_row.empty()) continue;
    for (std::int64_t length : plan.request_length) read += length;
    written += plan.scratch.geometry.file_bytes;
    const auto scratch = sweeper.sweep(plan, ".");
    DiskOptions reading;
    reading.backend = backend, reading.depth = depth, reading.staging_bytes = 256 << 10;
    reading.slots = shared;
    DiskGather gather(scratch->path(), "scratch", plan.scratch.geometry, slots, reading);
    gather.append(std::make_shared<const Plan>(plan.scratch));
    for (const auto& batch : bulk) {
      std::vector<std::byte> out(batch.size() * width);
      gather.step(out);
      for (std::size_t k = 0; k < batch.size(); ++k) {
        CHECK(std::memcmp(out.data() + k * width, file.row(batch[k]), width) == 0);
      }
    }
  }
  CHECK(sweeper.counters().reads.bytes == read);
  CHECK(sweeper.counters().written == written);
}

template <typename Call>
int code_of(Call&& call) {
  try {
    call();
  } catch (const StorageError& error) {
    return error.code;
  }
  return 0;
}

void faults(const Rows& file) {
  Planner planner(file.geometry, 0, {0, 1 << 16, false, false, false});
  const Bulk bulk = random_bulk(file.geometry, 1);
  const std::vector<std::span<const std::uint32_t>> batches(bulk.begin(), bulk.end());
  const RepackPlan plan = make_repack(planner.plan(batches), 0, 1 << 16);
  SweepOptions chosen = options(Backend::kBuffered, 2);
  chosen.faults = std::make_shared<Faults>();
  chosen.write_faults = std::make_shared<Faults>();
  Sweeper sweeper(file.path, "rows", file.geometry, chosen);
  chosen.write_faults->fail(4096, 1 << 30, ENOSPC, 1);
  CHECK(code_of([&] { sweeper.sweep(plan, "."); }) == ENOSPC);
  chosen.faults->fail(4096, 1 << 30, EIO, 1);
  CHECK(code_of([&] { sweeper.sweep(plan, "."); }) == EIO);
  CHECK(code_of([&] { sweeper.sweep(plan, "./no-such-folder"); }) == ENOENT);
  chosen.write_faults->shorten(0, 1 << 30, 4096, 5);
  CHECK(code_of([&] { sweeper.sweep(plan, "."); }) == 0);
  chosen.faults->delay(0, 1 << 30, 20, 1 << 30);
  std::thread other([&] { sweeper.cancel(); });
  CHECK(code_of([&] { sweeper.sweep(plan, "."); }) == ECANCELED);
  other.join();
}

}  // namespace

int main() {
  for (std::int64_t row_bytes : {4, 400, 4096, 10'000}) {
    const Rows file(300, row_bytes);
    for (const BackendStatus& status : probe(".").backends) {
      if (!status.works) continue;
      same_rows(file, status.backend, 1, 0);
      same_rows(file, status.backend, 8, 40);
    }
  }
  faults(Rows(300, 400));
}
