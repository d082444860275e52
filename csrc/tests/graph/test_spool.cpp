#include <algorithm>
#include <cstring>
#include <vector>

#include "base/random.hpp"
#include "base/types.hpp"
#include "graph/spool.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

struct Record {
  std::uint32_t key;
  std::uint32_t order;
};

void partitions_stably() {
  const std::size_t count = 50000;
  std::vector<Record> records(count), out(count), expected;
  for (std::size_t i = 0; i < count; ++i) {
    records[i] = {100 + bounded(7, i, 1000), static_cast<std::uint32_t>(i)};
  }
  expected = records;
  const int shift = 4;
  std::stable_sort(expected.begin(), expected.end(), [&](const Record& a, const Record& b) {
    return ((a.key - 100) >> shift) < ((b.key - 100) >> shift);
  });
  for (int threads : {1, 2, 5}) {
    std::vector<std::int64_t> offsets(64);
    partition_records(std::as_bytes(std::span(records)), {8, 0, 4}, 100, shift, offsets,
                      std::as_writable_bytes(std::span(out)), threads);
    CHECK(std::memcmp(out.data(), expected.data(), count * sizeof(Record)) == 0);
    CHECK(offsets.front() == 0 && offsets.back() == static_cast<std::int64_t>(count));
    for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
      for (std::int64_t i = offsets[b]; i < offsets[b + 1]; ++i) {
        CHECK(((out[static_cast<std::size_t>(i)].key - 100) >> shift) == b);
      }
    }
  }
  std::vector<std::int64_t> few(3);
  CHECK_THROWS(partition_records(std::as_bytes(std::span(records)), {8, 0, 4}, 100, shift, few,
                                 std::as_writable_bytes(std::span(out)), 2),
               InputError);
}

void gathers() {
  const std::vector<std::byte> data = {std::byte{1}, std::byte{2}, std::byte{3}};
  const std::vector<std::int64_t> starts = {2, 0, 3, 0}, lengths = {1, 2, 0, 3};
  std::vector<std::byte> out(6);
  gather_slices(data, starts, lengths, out);
  CHECK(out[0] == std::byte{3} && out[2] == std::byte{2} && out[5] == std::byte{3});
  std::vector<std::byte> small(5), large(7);
  CHECK_THROWS(gather_slices(data, starts, lengths, small), InputError);
  CHECK_THROWS(gather_slices(data, starts, lengths, large), InputError);
  const std::vector<std::int64_t> beyond = {3}, one = {1};
  std::vector<std::byte> single(1);
  CHECK_THROWS(gather_slices(data, beyond, one, single), InputError);
}

}  // namespace

int main() {
  gathers();
  partitions_stably();
  return 0;
}
