// The rows of a synthetic graph: distinct sources drawn by weight, ascending.
#include <algorithm>
#include <array>
#include <utility>

#include "graph/synthetic/synth_parts.hpp"

namespace foregather {
namespace {

constexpr int kWeightedRounds = 8;       // then duplicates are replaced by uniform draws
constexpr int kRounds = 12;              // then by walking the ranks
constexpr std::int64_t kBlock = 256;     // rows handed to a thread at a time: hubs make rows uneven
constexpr std::size_t kRankUpTo = 64;    // row lengths up to which comparing all pairs wins
constexpr std::size_t kRadixFrom = 256;  // and from which counting digits does

// A number in [0, 1) from the bits that the choice of community leaves.
double upper48(std::uint64_t bits) {
  return static_cast<double>(static_cast<std::int64_t>(bits >> 16)) * 0x1.0p-48;
}

// Least significant digit first, 11 bits at a time.
void radix_sort(std::span<std::uint32_t> values, std::vector<std::uint32_t>& spare) {
  constexpr unsigned kDigit = 11;
  constexpr std::size_t kBins = std::size_t{1} << kDigit;
  if (spare.size() < values.size()) spare.resize(values.size());
  std::array<std::array<std::uint32_t, kBins>, 3> count{};
  for (std::uint32_t value : values) {
    for (unsigned pass = 0; pass < 3; ++pass) ++count[pass][(value >> (pass * kDigit)) % kBins];
  }
  std::uint32_t* from = values.data();
  std::uint32_t* to = spare.data();
  for (unsigned pass = 0; pass < 3; ++pass) {
    std::uint32_t position = 0;
    for (std::uint32_t& bin : count[pass]) position += std::exchange(bin, position);
    for (std::size_t k = 0; k < values.size(); ++k) {
      to[count[pass][(from[k] >> (pass * kDigit)) % kBins]++] = from[k];
    }
    std::swap(from, to);
  }
  std::copy(from, from + values.size(), values.data());  // three passes ended in `spare`
}

// Puts each value where the number of smaller ones says: n^2 comparisons, but no branch, and four
// at a time. Equal values meet in one place; the places they leave empty get `hole`.
void rank_sort(std::span<std::uint32_t> values, std::uint32_t hole) {
  std::int32_t key[kRankUpTo], rank[kRankUpTo];
  const std::size_t count = (values.size() + 3) / 4 * 4;  // whole vectors, padded with the largest
  for (std::size_t k = 0; k < count; ++k) {
    // Flipping the sign bit makes the signed comparison of SSE2 order unsigned values.
    key[k] = k < values.size() ? static_cast<std::int32_t>(values[k] ^ 0x80000000u) : 0x7FFFFFFF;
    rank[k] = 0;
  }
  for (std::size_t j = 0; j < values.size(); ++j) {
    const std::int32_t other = key[j];
    for (std::size_t k = 0; k < count; ++k) rank[k] += other < key[k];
  }
  for (std::uint32_t& value : values) value = hole;
  for (std::size_t k = 0; k < values.size(); ++k) {
    values[static_cast<std::size_t>(rank[k])] = static_cast<std::uint32_t>(key[k]) ^ 0x80000000u;
  }
}

// Sorts ascending; repeats of a value may be replaced by `hole`, at any place.
template <typename Id>
void sort_ids(std::span<Id> values, Id hole, std::vector<Id>& spare) {
  if constexpr (sizeof(Id) == 4) {
    if (values.size() <= kRankUpTo) return rank_sort(values, hole);
    if (values.size() >= kRadixFrom) return radix_sort(values, spare);
  }
  std::sort(values.begin(), values.end());
}

// Removes repeats and `self` from a span that sort_ids left; returns how many stay, at its front.
template <typename Id>
std::size_t keep_distinct(std::span<Id> sorted, Id self) {
  std::size_t kept = 0;
  for (Id value : sorted) {
    // Branch-free: every value is written, and overwritten by the next one unless it stays.
    const bool stays = value != self && (kept == 0 || sorted[kept - 1] != value);
    sorted[kept] = value;
    kept += stays;
  }
  return kept;
}

}  // namespace

/// Buffers of one thread, grown to its largest row and reused.
template <typename Id>
struct Synth::Scratch {
  std::vector<Id> fresh, merged, spare;
};

std::uint64_t Synth::ranked(std::uint64_t rank) const {
  const std::uint64_t number = by_communities_.quotient(rank);
  const std::uint64_t community = rank - number * communities_;
  return community * size_ + std::min(community, larger_) + number;
}

template <typename Id>
void Synth::to_ids(std::span<Id> ranks) const {
  for (Id& rank : ranks) rank = static_cast<Id>(ranked(static_cast<std::uint64_t>(rank)));
  if (options_.shuffled) ids_.forward_all(ranks);
}

// Draws into.size() ranks by weight for a row of `degree` sources, from draw number `slot` on;
// returns the next number.
template <typename Id>
std::uint64_t Synth::draw_ranks(std::uint64_t vertex, std::size_t degree, std::uint64_t slot,
                                std::span<Id> into) const {
  const Place at = place(vertex);
  const bool large = at.community < larger_;
  // Expect at most half of the community in a row: beyond that, draws would mostly repeat.
  const std::uint64_t half = 32768 * (size_ + large - 1);
  const std::uint64_t inside_share = inside_share_ * degree <= half ? inside_share_ : half / degree;
  const Law laws[2] = {whole_, inside_[large]};
  const std::uint64_t scale[2] = {1, communities_};
  const std::uint64_t shift[2] = {0, at.community};
  const std::uint64_t key = derive(row_key_, vertex);
  for (Id& rank : into) {
    const std::uint64_t bits = draw(key, slot++);
    // Tables instead of a branch: it would be mispredicted every other time.
    const bool inside = (bits & 0xFFFF) < inside_share;
    const Law& from = laws[inside];
    double x = from.low + upper48(bits) * from.span;
    for (int level = 0; level < roots_; ++level) x *= x;
    x = std::min(std::max(x - from.offset, 0.0), from.extent - 1.0);
    const auto number = static_cast<std::uint64_t>(static_cast<std::int64_t>(x));
    rank = static_cast<Id>(number * scale[inside] + shift[inside]);
  }
  return slot;
}

// Makes a row of its first draws: sorts, and replaces what repeats.
template <typename Id>
void Synth::finish_row(std::uint64_t vertex, std::span<Id> out, Scratch<Id>& scratch) const {
  const auto self = static_cast<Id>(own_id(vertex));
  sort_ids(out, self, scratch.spare);
  std::size_t found = keep_distinct(out, self);
  if (found == out.size()) return;
  const std::uint64_t key = derive(row_key_, vertex);
  std::uint64_t slot = out.size();
  for (int round = 1; found < out.size() && round < kRounds; ++round) {
    const std::size_t missing = out.size() - found;
    if (scratch.fresh.size() < missing) scratch.fresh.resize(missing);
    if (scratch.merged.size() < out.size()) scratch.merged.resize(out.size());
    const std::span<Id> fresh(scratch.fresh.data(), missing);
    if (round < kWeightedRounds) {
      slot = draw_ranks(vertex, out.size(), slot, fresh);
    } else {
      for (Id& rank : fresh) {
        const double x = upper48(draw(key, slot++)) * whole_.extent;
        rank = static_cast<Id>(static_cast<std::int64_t>(std::min(x, whole_.extent - 1.0)));
      }
    }
    to_ids(fresh);
    sort_ids(fresh, self, scratch.spare);
    const std::size_t news = keep_distinct(fresh, self);
    const Id* end = std::set_union(out.data(), out.data() + found, fresh.data(),
                                   fresh.data() + news, scratch.merged.data());
    found = static_cast<std::size_t>(end - scratch.merged.data());
    std::copy(scratch.merged.data(), scratch.merged.data() + found, out.data());
  }
  if (found < out.size()) walk(vertex, out, found, scratch);
}

// Completes a row of `found` sorted sources with the first ranks, from a hashed one on, that it
// does not hold. Ranks, not ids, so that shuffled and natural graphs stay the same graph.
template <typename Id>
void Synth::walk(std::uint64_t vertex, std::span<Id> out, std::size_t found,
                 Scratch<Id>& scratch) const {
  const auto self = static_cast<Id>(own_id(vertex));
  std::uint64_t rank = derive(derive(row_key_, vertex), ~std::uint64_t{0}) % nodes_;
  std::size_t filled = found;
  for (std::uint64_t step = 0; filled < out.size() && step < nodes_; ++step) {
    const auto source = static_cast<Id>(own_id(ranked(rank)));
    rank = rank + 1 == nodes_ ? 0 : rank + 1;
    if (source == self || std::binary_search(out.data(), out.data() + found, source)) continue;
    out[filled++] = source;
  }
  sort_ids(out, self, scratch.spare);
}

template <typename Id>
void Synth::rows(std::int64_t begin, std::span<const std::int64_t> offsets, std::span<Id> out,
                 int threads) const {
  if (offsets.empty()) throw InputError("offsets must hold one entry more than rows");
  const auto count = static_cast<std::int64_t>(offsets.size()) - 1;
  check_range(begin, offsets.size() - 1);
  if (sizeof(Id) == 4 && options_.nodes > kMaxNarrowVertices) {
    throw InputError("ids of this graph need 64 bits");
  }
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t length =
        offsets[static_cast<std::size_t>(k) + 1] - offsets[static_cast<std::size_t>(k)];
    if (length < 0 || length >= options_.nodes) {
      throw InputError("a row must have from 0 to nodes - 1 sources");
    }
  }
  if (static_cast<std::uint64_t>(offsets.back() - offsets.front()) != out.size()) {
    throw InputError("the output must hold exactly the edges of the rows");
  }
  if (threads <= 0) threads = default_threads();
  std::vector<Scratch<Id>> scratch(static_cast<std::size_t>(threads));
  auto row = [&](std::int64_t k) {
    const auto from = static_cast<std::size_t>(offsets[static_cast<std::size_t>(k)] - offsets[0]);
    const auto to = static_cast<std::size_t>(offsets[static_cast<std::size_t>(k) + 1] - offsets[0]);
    return out.subspan(from, to - from);
  };
  // A block goes through three loops, each over all of its rows: between them they keep more draws
  // in flight than one loop per row, which would drain the processor at every row's sort.
  parallel_tasks((count + kBlock - 1) / kBlock, threads, [&](std::int64_t block, int worker) {
    const std::int64_t first = block * kBlock;
    const std::int64_t last = std::min(count, first + kBlock);
    std::uint64_t vertices[kBlock];
    for (std::int64_t k = first; k < last; ++k) {
      const auto v = vertices[k - first] = own_vertex(begin + k);
      draw_ranks(v, row(k).size(), 0, row(k));
    }
    const std::span<Id> head = row(first), tail = row(last - 1);
    to_ids(std::span<Id>(head.data(), tail.data() + tail.size()));
    for (std::int64_t k = first; k < last; ++k) {
      finish_row(vertices[k - first], row(k), scratch[static_cast<std::size_t>(worker)]);
    }
  });
}

template void Synth::rows<std::uint32_t>(std::int64_t, std::span<const std::int64_t>,
                                         std::span<std::uint32_t>, int) const;
template void Synth::rows<std::int64_t>(std::int64_t, std::span<const std::int64_t>,
                                        std::span<std::int64_t>, int) const;

}  // namespace foregather
