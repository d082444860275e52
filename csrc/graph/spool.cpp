#include "graph/spool.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "parallel/pool.hpp"

namespace foregather {
namespace {

template <typename Key>
std::uint64_t key_at(const std::byte* record, std::size_t offset) {
  Key key;
  std::memcpy(&key, record + offset, sizeof key);
  return key;
}

// Fixed-size copies compile to one or two moves; the general case is a memcpy call per record.
template <std::size_t Bytes>
void copy_record(std::byte* to, const std::byte* from, std::size_t bytes) {
  if constexpr (Bytes > 0) {
    std::memcpy(to, from, Bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

template <typename Key, std::size_t Bytes>
void partition(std::span<const std::byte> records, RecordLayout layout, std::uint64_t base,
               int shift, std::span<std::int64_t> offsets, std::span<std::byte> out, int threads) {
  const std::size_t step = layout.record_bytes;
  const auto count = static_cast<std::int64_t>(records.size() / step);
  const std::size_t buckets = offsets.size() - 1;
  if (threads <= 0) threads = default_threads();
  // One cursor table per part; parts are consecutive ranges of the input, so the scatter is stable.
  std::vector<std::vector<std::int64_t>> cursors(static_cast<std::size_t>(threads));
  constexpr std::int64_t kGrain = 1 << 14;
  parallel_for(count, threads, kGrain, [&](std::int64_t begin, std::int64_t end, int part) {
    auto& counts = cursors[static_cast<std::size_t>(part)];
    counts.assign(buckets, 0);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint64_t key =
          key_at<Key>(&records[static_cast<std::size_t>(i) * step], layout.key_offset);
      const std::uint64_t bucket = (key - base) >> shift;
      if (key < base || bucket >= buckets) {
        throw InputError("record " + std::to_string(i) + " has key " + std::to_string(key) +
                         ", outside the range of its buckets");
      }
      ++counts[bucket];
    }
  });
  std::int64_t total = 0;
  for (std::size_t b = 0; b < buckets; ++b) {
    offsets[b] = total;
    for (auto& counts : cursors) {
      if (counts.empty()) continue;  // fewer parts than threads were made
      const std::int64_t mine = counts[b];
      counts[b] = total;
      total += mine;
    }
  }
  offsets[buckets] = total;
  parallel_for(count, threads, kGrain, [&](std::int64_t begin, std::int64_t end, int part) {
    std::int64_t* cursor = cursors[static_cast<std::size_t>(part)].data();
    for (std::int64_t i = begin; i < end; ++i) {
      const std::byte* record = &records[static_cast<std::size_t>(i) * step];
      const std::uint64_t bucket = (key_at<Key>(record, layout.key_offset) - base) >> shift;
      copy_record<Bytes>(&out[static_cast<std::size_t>(cursor[bucket]++) * step], record, step);
    }
  });
}

template <typename Key>
void dispatch(std::span<const std::byte> records, RecordLayout layout, std::uint64_t base,
              int shift, std::span<std::int64_t> offsets, std::span<std::byte> out, int threads) {
  switch (layout.record_bytes) {
    case 8:
      return partition<Key, 8>(records, layout, base, shift, offsets, out, threads);
    case 12:
      return partition<Key, 12>(records, layout, base, shift, offsets, out, threads);
    case 16:
      return partition<Key, 16>(records, layout, base, shift, offsets, out, threads);
    default:
      return partition<Key, 0>(records, layout, base, shift, offsets, out, threads);
  }
}

}  // namespace

void partition_records(std::span<const std::byte> records, RecordLayout layout, std::uint64_t base,
                       int shift, std::span<std::int64_t> offsets, std::span<std::byte> out,
                       int threads) {
  const bool wide = layout.key_bytes == 8;
  if ((!wide && layout.key_bytes != 4) || layout.record_bytes == 0 ||
      layout.key_offset + layout.key_bytes > layout.record_bytes || shift < 0 || shift > 63) {
    throw InputError("a record needs a key of 4 or 8 bytes inside it, and a shift of 0 to 63");
  }
  if (records.size() % layout.record_bytes != 0 || out.size() != records.size() ||
      offsets.empty()) {
    throw InputError("records, out and offsets do not fit together");
  }
  if (wide) {
    dispatch<std::uint64_t>(records, layout, base, shift, offsets, out, threads);
  } else {
    dispatch<std::uint32_t>(records, layout, base, shift, offsets, out, threads);
  }
}

void gather_slices(std::span<const std::byte> data, std::span<const std::int64_t> starts,
                   std::span<const std::int64_t> lengths, std::span<std::byte> out) {
  if (starts.size() != lengths.size()) throw InputError("starts and lengths differ in number");
  const auto size = static_cast<std::int64_t>(data.size());
  std::size_t filled = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (starts[i] < 0 || lengths[i] < 0 || starts[i] > size - lengths[i] ||
        static_cast<std::size_t>(lengths[i]) > out.size() - filled) {
      throw InputError("slice " + std::to_string(i) + " leaves its buffer");
    }
    const auto length = static_cast<std::size_t>(lengths[i]);
    if (length > 0) std::memcpy(&out[filled], &data[static_cast<std::size_t>(starts[i])], length);
    filled += length;
  }
  if (filled != out.size()) throw InputError("the slices do not fill their buffer");
}

}  // namespace foregather
