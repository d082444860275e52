// Shares: how the budget of a disk sampler is divided.
#include <algorithm>
#include <bit>
#include <string>

#include "base/types.hpp"
#include "sampling/on_disk/disk_sample.hpp"

namespace foregather {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kMostBlock = std::int64_t{1} << 20;
constexpr std::int64_t kMostRequest = std::int64_t{256} << 10;  // a disk gains nothing beyond
constexpr std::int64_t kLeastWindow = std::int64_t{256} << 10;
constexpr std::int64_t kMostWindow = std::int64_t{16} << 20;
constexpr std::int64_t kMostWindows = 1024;  // of a pass: their counts are kept for each piece
constexpr std::size_t kLeastOrder = std::size_t{256} << 10;
constexpr std::size_t kMostOrder = std::size_t{1} << 30;
constexpr std::size_t kLeastIds = std::size_t{1} << 20;

void check(const DiskShape& shape) {
  const std::int64_t block = shape.block_bytes;
  if (block < kPage || block > kMostBlock ||
      !std::has_single_bit(static_cast<std::size_t>(block))) {
    throw InputError("block is " + std::to_string(block) +
                     " bytes, expected a power of two from 4096 to 1048576");
  }
  if (shape.gap_bytes < 0) {
    throw InputError("gap is " + std::to_string(shape.gap_bytes) + " bytes, expected 0 or more");
  }
  if (shape.num_nodes < 0 || shape.num_edges < 0 || shape.payload % kPage != 0 ||
      shape.file_bytes % kPage != 0 ||
      shape.num_edges > (shape.file_bytes - shape.payload) / shape.id_bytes) {
    throw InputError("the file of sources is smaller than its edges, or not padded to 4096 bytes");
  }
}

std::size_t staging_bytes(const DiskShape& shape, std::int64_t window) {
  // both buffers, room to align them, and the requests of two windows in vectors that may double
  return Buffer<std::byte>::bytes_for(static_cast<std::size_t>(2 * window + kPage)) +
         static_cast<std::size_t>(window / shape.block_bytes * 96);
}

std::int64_t least_window(const DiskShape& shape) {
  const auto part = static_cast<std::size_t>(shape.file_bytes / kMostWindows + 1);
  const auto file = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::size_t>(std::max(shape.file_bytes, kPage))));
  const std::int64_t window =
      std::max(std::min(kLeastWindow, file), static_cast<std::int64_t>(std::bit_ceil(part)));
  return std::max(window, shape.block_bytes);
}

// As many slots as `room` bytes hold, with their owners; fills in shares.cache.
std::int64_t count_slots(const DiskShape& shape, std::size_t room, DiskShares& shares) {
  const auto block = static_cast<std::size_t>(shape.block_bytes);
  auto taken = [&](std::size_t slots) {
    return slots == 0 ? 0
                      : Buffer<std::byte>::bytes_for(slots * block + kPage) +
                            Buffer<std::uint32_t>::bytes_for(slots + 1);
  };
  std::size_t slots = room / (block + sizeof(std::uint32_t));
  slots = std::min(slots, static_cast<std::size_t>(shares.pass.num_blocks()));
  while (slots > 0 && taken(slots) > room) {  // memory comes in huge pages
    slots -= std::min(slots, 1 + (taken(slots) - room) / block);
  }
  shares.cache = taken(slots);
  return static_cast<std::int64_t>(slots);
}

}  // namespace

DiskShares divide(const DiskShape& shape, std::size_t memory) {
  check(shape);
  DiskShares shares;
  shares.pass.block_shift = std::countr_zero(static_cast<std::size_t>(shape.block_bytes));
  shares.pass.file_bytes = shape.file_bytes;
  shares.pass.gap_blocks = shape.gap_bytes / shape.block_bytes;
  shares.pass.num_slots = 0;
  shares.index = RowIndex::bytes(shape.num_nodes, shape.num_edges);
  shares.tables = BlockPass::bytes(shares.pass);
  shares.sums = static_cast<std::size_t>(shape.sums_bytes);
  std::int64_t window = least_window(shape);
  shares.least = shares.index + shares.tables + shares.sums + staging_bytes(shape, window) +
                 kLeastOrder + kLeastIds;
  if (memory < shares.least) return shares;
  std::size_t rest = memory - shares.least;
  shares.order = std::min(kLeastOrder + rest / kOrderPart, kMostOrder);
  shares.ids = kLeastIds + rest / kIdsPart;
  const std::size_t least_staging = staging_bytes(shape, window);
  while (window < kMostWindow && window < shape.file_bytes &&
         staging_bytes(shape, 2 * window) <= least_staging + rest / kStagingPart) {
    window *= 2;
  }
  shares.staging = staging_bytes(shape, window);
  shares.pass.window_shift =
      std::countr_zero(static_cast<std::size_t>(window)) - shares.pass.block_shift;
  shares.pass.request_bytes = std::max(std::min(kMostRequest, window), shape.block_bytes);
  rest = memory - shares.index - shares.tables - shares.sums - shares.staging - shares.order -
         shares.ids;
  const std::size_t hot = rest / 100 * static_cast<std::size_t>(shape.hot_percent);
  // less than 4 bytes a node has no room to choose rows in, or to hold enough of them; and where
  // all blocks fit there is nothing to choose
  const bool all = rest > static_cast<std::size_t>(shape.file_bytes + shape.file_bytes / 64);
  if (!all && hot >= 4 * static_cast<std::size_t>(shape.num_nodes)) shares.hot = hot;
  shares.pass.num_slots = count_slots(shape, rest - shares.hot, shares);
  return shares;
}

std::size_t least_for_ids(const DiskShares& shares, std::size_t need) {
  return shares.least + (need > kLeastIds ? (need - kLeastIds) * kIdsPart : 0);
}

}  // namespace foregather
