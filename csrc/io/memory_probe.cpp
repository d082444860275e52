#include "io/memory_probe.hpp"

#include <atomic>

#include "base/types.hpp"
#include "parallel/pool.hpp"

namespace foregather {

std::uint64_t read_lines(std::span<const std::uint64_t> words, std::span<const std::uint32_t> index,
                         int distance, int threads) {
  constexpr std::size_t kWords = 8;  // of a line
  const std::size_t lines = words.size() / kWords;
  for (std::uint32_t line : index) {
    if (line >= lines) throw InputError("an index is beyond the last line");
  }
  std::atomic<std::uint64_t> total{0};
  const auto count = static_cast<std::int64_t>(index.size());
  parallel_for(count, threads, 1 << 16, [&](std::int64_t begin, std::int64_t end, int) {
    std::uint64_t sum = 0;
    const std::int64_t ahead = end - distance;
    std::int64_t i = begin;
    for (; i < ahead; ++i) {
      __builtin_prefetch(&words[index[static_cast<std::size_t>(i + distance)] * kWords]);
      sum += words[index[static_cast<std::size_t>(i)] * kWords];
    }
    for (; i < end; ++i) sum += words[index[static_cast<std::size_t>(i)] * kWords];
    total += sum;
  });
  return total;
}

}  // namespace foregather
