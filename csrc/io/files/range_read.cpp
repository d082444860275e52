#include "io/files/range_read.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "io/files/file.hpp"
#include "parallel/pool.hpp"

namespace foregather {
namespace {

constexpr std::int64_t kPiece = 256 << 10;  // half of the smallest second-level cache around
constexpr std::int64_t kShare = 2 << 20;    // worth waking a thread for
constexpr int kMostThreads = 4;

static_assert(kPiece % kSumBlock == 0);

// Bytes `from` to `to` of a file with sums. What is cut off a block is read with the whole of it.
void read_checked(const File& file, std::int64_t from, std::int64_t to, std::byte* out) {
  const std::int64_t start = file.sums->offset(), end = start + file.sums->payload();
  const std::int64_t whole = to == end ? to : to - (to - start) % kSumBlock;
  while (from < to) {
    const std::int64_t begin = from - (from - start) % kSumBlock;
    std::int64_t next = whole;
    if (begin == from && whole > from) {
      pread_whole(file, from, whole - from, out);
    } else {
      std::array<std::byte, kSumBlock> block;
      const std::int64_t size = std::min(kSumBlock, end - begin);
      pread_whole(file, begin, size, block.data());
      next = std::min(to, begin + size);
      std::memcpy(out, block.data() + (from - begin), static_cast<std::size_t>(next - from));
    }
    out += next - from;
    from = next;
  }
}

}  // namespace

void read_range(int descriptor, const std::string& name, std::int64_t position,
                std::span<std::byte> into, const BlockSums* sums, int threads, Faults* faults) {
  const auto size = static_cast<std::int64_t>(into.size());
  const std::int64_t start = sums == nullptr ? 0 : sums->offset();
  if (position < start || position > INT64_MAX - size ||
      (sums != nullptr && position + size > start + sums->payload())) {
    throw InputError(std::to_string(size) + " bytes from byte " + std::to_string(position) +
                     " of " + name + " on are not all inside its payload; ask for fewer");
  }
  if (size == 0) return;
  const File file{descriptor, name, 1, faults, sums};
  const std::int64_t first = (position - start) / kPiece;
  const std::int64_t pieces = (position + size - 1 - start) / kPiece - first + 1;
  auto read = [&](std::int64_t piece, int) {
    const std::int64_t from = std::max(position, start + (first + piece) * kPiece);
    const std::int64_t to = std::min(position + size, start + (first + piece + 1) * kPiece);
    std::byte* const out = into.data() + (from - position);
    if (sums == nullptr) {
      pread_whole(file, from, to - from, out);
    } else {
      read_checked(file, from, to, out);
    }
  };
  if (threads <= 0) threads = std::min(kMostThreads, default_threads());
  parallel_tasks(pieces, static_cast<int>(std::min<std::int64_t>(threads, 1 + size / kShare)),
                 read);
}

}  // namespace foregather
