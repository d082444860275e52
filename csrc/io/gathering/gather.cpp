#include "io/gathering/gather.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "graph/check.hpp"
#include "io/gathering/row_copy.hpp"
#include "parallel/pool.hpp"

namespace foregather {
namespace {

constexpr std::size_t kLine = 64;
// Rows prefetched ahead of use, enough to cover a miss to memory, and how much of each: what
// follows the first lines of a wide row is a stream, which the hardware finds by itself.
constexpr std::int64_t kAhead = 12;
constexpr std::size_t kAheadBytes = 2 * kLine;
// Bytes handed to a thread at a time, and bytes below which another thread costs more than it
// saves, as it has to be woken. Neither has been tuned on an idle machine.
constexpr std::size_t kGrainBytes = std::size_t{128} << 10;
constexpr std::size_t kThreadBytes = std::size_t{1} << 20;

template <typename Id>
void check(const Rows& rows, std::span<const Id> ids, std::size_t out_size, std::size_t row_size,
           int threads) {
  if (out_size != ids.size() * row_size) {
    throw InputError("out has room for " + std::to_string(out_size) + " values, expected " +
                     std::to_string(ids.size()) + " rows of " + std::to_string(row_size));
  }
  const std::int64_t bad = check_ids<Id>(ids, rows.num_rows, threads);
  if (bad >= 0) {
    throw InputError("ids holds " + std::to_string(ids[static_cast<std::size_t>(bad)]) +
                     " at position " + std::to_string(bad) + ", but there are " +
                     std::to_string(rows.num_rows) + " rows (ids are 0 to N-1)");
  }
}

// Calls take(row, k) for every k of a part, with the rows to come prefetched.
template <typename Id, typename Take>
void visit(const Rows& rows, std::span<const Id> ids, int threads, const Take& take) {
  const std::size_t row_bytes = std::max<std::size_t>(rows.row_bytes, 1);
  const std::size_t asked = std::min(row_bytes, kAheadBytes);
  const auto grain = static_cast<std::int64_t>(kGrainBytes / row_bytes + 1);
  const auto count = static_cast<std::int64_t>(ids.size());
  if (threads <= 0) threads = default_threads();
  const std::size_t worth = ids.size() * row_bytes / kThreadBytes;
  threads = static_cast<int>(std::clamp<std::size_t>(worth, 1, static_cast<std::size_t>(threads)));
  parallel_blocks(count, threads, grain, [&](std::int64_t begin, std::int64_t end, int) {
    // Copies: `take` writes bytes, which could be anything that is only referred to.
    const std::byte* const data = rows.data;
    const Id* const id = ids.data();
    const std::size_t stride = rows.row_bytes;
    auto row = [=](std::int64_t k) { return data + static_cast<std::size_t>(id[k]) * stride; };
    auto ask = [=](std::int64_t k) {
      const std::byte* at = row(k);
      for (std::size_t byte = 0; byte < asked; byte += kLine) __builtin_prefetch(at + byte);
    };
    for (std::int64_t k = begin; k < std::min(begin + kAhead, end); ++k) ask(k);
    std::int64_t k = begin;
    for (; k < end - kAhead; ++k) {
      ask(k + kAhead);
      take(row(k), k);
    }
    for (; k < end; ++k) take(row(k), k);
  });
}

}  // namespace

template <typename Id>
void gather_rows(const Rows& rows, std::span<const Id> ids, std::span<std::byte> out, int threads) {
  const std::size_t size = rows.row_bytes;
  check(rows, ids, out.size(), size, threads);
  if (out.empty()) return;
  std::byte* first = out.data();
  visit(rows, ids, threads, [=](const std::byte* row, std::int64_t k) {
    std::memcpy(first + static_cast<std::size_t>(k) * size, row, size);
  });
}

template <typename Id>
void gather_scaled(const Rows& rows, std::span<const float> scale, std::span<const Id> ids,
                   std::span<float> out, int threads) {
  const std::size_t width = rows.row_bytes;
  if (scale.size() != width) {
    throw InputError("scale has " + std::to_string(scale.size()) + " numbers, expected one for " +
                     "each of " + std::to_string(width) + " columns");
  }
  check(rows, ids, out.size(), width, threads);
  if (out.empty()) return;
  auto* first = reinterpret_cast<std::byte*>(out.data());
  const CopyScaled copy{scale.data(), width};
  visit(rows, ids, threads, [=](const std::byte* row, std::int64_t k) {
    copy(row, first + static_cast<std::size_t>(k) * 4 * width);
  });
}

template <typename Id>
void gather_half(const Rows& rows, std::span<const Id> ids, std::span<float> out, int threads) {
  const std::size_t width = rows.row_bytes / 2;
  check(rows, ids, out.size(), width, threads);
  if (out.empty()) return;
  auto* first = reinterpret_cast<std::byte*>(out.data());
  const CopyHalf copy{width};
  visit(rows, ids, threads, [=](const std::byte* row, std::int64_t k) {
    copy(row, first + static_cast<std::size_t>(k) * 4 * width);
  });
}

template void gather_rows(const Rows&, std::span<const std::uint32_t>, std::span<std::byte>, int);
template void gather_rows(const Rows&, std::span<const std::int64_t>, std::span<std::byte>, int);
template void gather_scaled(const Rows&, std::span<const float>, std::span<const std::uint32_t>,
                            std::span<float>, int);
template void gather_scaled(const Rows&, std::span<const float>, std::span<const std::int64_t>,
                            std::span<float>, int);
template void gather_half(const Rows&, std::span<const std::uint32_t>, std::span<float>, int);
template void gather_half(const Rows&, std::span<const std::int64_t>, std::span<float>, int);

}  // namespace foregather
