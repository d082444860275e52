#include "io/checksums/block_sums.hpp"

#include <algorithm>
#include <utility>

#include "io/checksums/crc32c.hpp"

namespace foregather {

BlockSums::BlockSums(std::string name, std::int64_t payload, std::int64_t row_bytes,
                     std::int64_t offset, std::int64_t first, std::int64_t last)
    : name_(std::move(name)),
      payload_(payload),
      row_bytes_(row_bytes),
      offset_(offset),
      first_(first) {
  if (payload < 0 || offset < 0 || (payload > 0 && row_bytes <= 0)) {
    throw InputError(name_ + " was given " + std::to_string(payload) + " bytes in rows of " +
                     std::to_string(row_bytes) + ", which is not a payload");
  }
  const std::int64_t blocks = (payload + kSumBlock - 1) / kSumBlock;
  if (last < 0) last = blocks;
  if (first < 0 || first > last || last > blocks) {
    throw InputError("blocks " + std::to_string(first) + " to " + std::to_string(last) + " of " +
                     name_ + " were asked for, but it has " + std::to_string(blocks));
  }
  sums_.resize(static_cast<std::size_t>(last - first));
}

template <typename Use>
void BlockSums::for_blocks(std::int64_t at, std::span<const std::byte> bytes,
                           const Use& use) const {
  const auto size = static_cast<std::int64_t>(bytes.size());
  const std::int64_t lo = std::max<std::int64_t>(0, at - offset_);
  const std::int64_t hi = std::min(payload_, at + size - offset_);
  if (lo >= hi) return;
  if (at < 0 || lo % kSumBlock != 0 || (hi % kSumBlock != 0 && hi != payload_)) {
    throw InputError("bytes " + std::to_string(lo) + " to " + std::to_string(hi) + " of " + name_ +
                     " cut a block of " + std::to_string(kSumBlock) +
                     ", so they cannot be checked; read whole blocks");
  }
  const auto held = static_cast<std::int64_t>(sums_.size());
  if (lo / kSumBlock < first_ || (hi + kSumBlock - 1) / kSumBlock > first_ + held) {
    throw InputError("bytes " + std::to_string(lo) + " to " + std::to_string(hi) + " of " + name_ +
                     " are not covered by the block checksums at hand; open those of more rows");
  }
  const std::byte* p = bytes.data() + (lo + offset_ - at);
  for (std::int64_t begin = lo; begin < hi; begin += kSumBlock) {
    const std::int64_t end = std::min(hi, begin + kSumBlock);
    use(begin / kSumBlock, std::span(p + (begin - lo), static_cast<std::size_t>(end - begin)));
  }
}

void BlockSums::check(std::int64_t at, std::span<const std::byte> bytes) const {
  for_blocks(at, bytes, [&](std::int64_t block, std::span<const std::byte> part) {
    if (crc32c(part) != sums_[static_cast<std::size_t>(block - first_)]) fail(block);
  });
}

void BlockSums::take(std::int64_t at, std::span<const std::byte> bytes) {
  for_blocks(at, bytes, [&](std::int64_t block, std::span<const std::byte> part) {
    sums_[static_cast<std::size_t>(block - first_)] = crc32c(part);
  });
}

void BlockSums::fail(std::int64_t block) const {
  const std::int64_t begin = block * kSumBlock;
  const std::int64_t first = begin / row_bytes_;
  const std::int64_t last = (std::min(payload_, begin + kSumBlock) - 1) / row_bytes_;
  const std::string rows = first == last
                               ? "row " + std::to_string(first)
                               : "rows " + std::to_string(first) + " to " + std::to_string(last);
  throw FormatError(name_ + ": block " + std::to_string(block) + " (" + rows +
                    ") does not match its checksum; the file was altered or is damaged: restore it "
                    "or convert again");
}

void Summer::update(std::span<const std::byte> bytes, std::vector<std::uint32_t>& out) {
  const auto block = static_cast<std::size_t>(kSumBlock);
  out.reserve(out.size() + (filled_ + bytes.size()) / block);
  while (!bytes.empty()) {
    const std::size_t taken = std::min(bytes.size(), block - filled_);
    sum_ = crc32c(bytes.first(taken), sum_);
    bytes = bytes.subspan(taken);
    filled_ += taken;
    if (filled_ == block) {
      out.push_back(sum_);
      sum_ = 0;
      filled_ = 0;
    }
  }
}

void Summer::finish(std::vector<std::uint32_t>& out) {
  if (filled_ > 0) out.push_back(sum_);
  filled_ = 0;
}

}  // namespace foregather
