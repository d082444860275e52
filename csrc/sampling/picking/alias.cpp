#include "sampling/picking/alias.hpp"

#include <cmath>
#include <string>

#include "parallel/pool.hpp"
#include "sampling/keys.hpp"
#include "sampling/sampling_verbs.hpp"

namespace foregather {
namespace {

// Refuses row `row` of node `node`, entries [begin, end), if its weights cannot be drawn from.
// Returns how many are above 0.
template <typename Weight>
std::uint32_t check_row(std::span<const Weight> weights, std::int64_t begin, std::int64_t end,
                        std::int64_t node) {
  std::uint32_t positive = 0;
  for (std::int64_t e = begin; e < end; ++e) {
    const Weight w = weights[static_cast<std::size_t>(e)];
    if (!(w >= 0 && std::isfinite(w))) {
      throw InputError("weights hold " + std::to_string(w) + " at position " + std::to_string(e) +
                       " (an edge into node " + std::to_string(node) +
                       "), expected finite numbers that are not negative");
    }
    positive += w > 0 ? 1 : 0;
  }
  if (positive == 0 && end > begin) {
    throw InputError("the weights of all " + std::to_string(end - begin) + " edges into node " +
                     std::to_string(node) +
                     " are 0, so there is nothing to sample; give one of them a weight above 0 or "
                     "leave these edges out");
  }
  return positive;
}

}  // namespace

template <typename Weight>
void alias_row(std::span<const Weight> weights, std::span<AliasCell> cells, AliasScratch& scratch) {
  const std::size_t degree = weights.size();
  const auto heaviest =
      static_cast<std::size_t>(std::max_element(weights.begin(), weights.end()) - weights.begin());
  const auto largest = static_cast<double>(weights[heaviest]);
  auto& [part, small, large, rest, taken] = scratch;
  part.resize(degree);
  double total = 0;
  for (std::size_t i = 0; i < degree; ++i) {
    part[i] = static_cast<double>(weights[i]) / largest;  // so that no sum overflows
    total += part[i];
  }
  const double factor = static_cast<double>(degree) / total;
  small.clear();
  large.clear();
  for (std::size_t i = 0; i < degree; ++i) {
    part[i] *= factor;  // 1 is the share of a cell
    (part[i] < 1 ? small : large).push_back(static_cast<std::uint32_t>(i));
  }
  while (!small.empty() && !large.empty()) {
    const std::uint32_t lesser = small.back(), greater = large.back();
    small.pop_back();
    cells[lesser] = {static_cast<std::uint32_t>(part[lesser] * 0x1.0p32), greater};
    part[greater] = (part[greater] + part[lesser]) - 1;
    if (part[greater] < 1) {
      large.pop_back();
      small.push_back(greater);
    }
  }
  // What is left fills its cell but for rounding; an entry of weight 0 must not.
  for (const std::uint32_t i : large) cells[i] = {0, i};
  for (const std::uint32_t i : small) {
    cells[i] = {0, weights[i] > 0 ? i : static_cast<std::uint32_t>(heaviest)};
  }
}

template <typename Weight>
void prepare_row(std::span<const Weight> weights, std::span<AliasCell> cells,
                 AliasScratch& scratch) {
  if (weights.size() > kShortRow) {
    alias_row(weights, cells, scratch);
  } else if (weights.size() > 1) {  // there is nothing to choose from one
    write_short_row(weights, reinterpret_cast<std::int32_t*>(cells.data()));
  }
}

void prepare_weights(std::span<const std::int64_t> indptr, std::span<const float> weights,
                     Buffer<AliasCell>& cells, std::vector<std::uint32_t>& positive, int threads) {
  if (indptr.empty() || indptr.front() != 0 || !std::is_sorted(indptr.begin(), indptr.end()) ||
      indptr.back() != static_cast<std::int64_t>(weights.size())) {
    throw InputError("weights hold " + std::to_string(weights.size()) +
                     " numbers, expected one for each of the " +
                     std::to_string(indptr.empty() ? 0 : indptr.back()) + " edges");
  }
  const auto nodes = static_cast<std::int64_t>(indptr.size()) - 1;
  bool all = true;
  positive.resize(static_cast<std::size_t>(nodes));
  for (std::int64_t v = 0; v < nodes; ++v) {  // one thread: the first wrong weight is named
    const auto at = static_cast<std::size_t>(v);
    positive[at] = check_row(weights, indptr[at], indptr[at + 1], v);
    all = all && positive[at] == indptr[at + 1] - indptr[at];
  }
  if (all) positive = {};
  cells.reserve(weights.size() + 1);
  parallel_blocks(nodes, threads, 1024, [&](std::int64_t first, std::int64_t last, int) {
    AliasScratch scratch;
    for (auto v = static_cast<std::size_t>(first); v < static_cast<std::size_t>(last); ++v) {
      const auto begin = static_cast<std::size_t>(indptr[v]);
      const auto degree = static_cast<std::size_t>(indptr[v + 1]) - begin;
      prepare_row(weights.subspan(begin, degree), {cells.data() + begin, degree}, scratch);
    }
  });
}

template <typename Id>
void draw_rows(std::span<const Id> rows, std::span<const std::int64_t> batch_ptr,
               std::span<const std::int64_t> ptr, std::span<const double> weights,
               std::span<const std::uint64_t> keys, std::int64_t s, bool replace,
               std::span<const std::int64_t> picks_ptr, std::span<std::int64_t> picks,
               int threads) {
  std::vector<std::int64_t> expected(ptr.size());
  count_picks(ptr, weights, s, replace, expected);  // checks ptr and weights
  if (ptr.size() != rows.size() + 1 || batch_ptr.size() != keys.size() + 1 ||
      batch_ptr.front() != 0 || !std::is_sorted(batch_ptr.begin(), batch_ptr.end()) ||
      batch_ptr.back() != static_cast<std::int64_t>(rows.size())) {
    throw InputError("batch_ptr, ptr and keys do not describe the rows");
  }
  if (!std::equal(picks_ptr.begin(), picks_ptr.end(), expected.begin(), expected.end()) ||
      picks.size() != static_cast<std::size_t>(expected.back())) {
    throw InputError("picks_ptr is not what count_picks gave for these rows");
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    check_row(weights, ptr[r], ptr[r + 1], static_cast<std::int64_t>(rows[r]));
  }
  parallel_blocks(
      static_cast<std::int64_t>(rows.size()), threads, 64,
      [&](std::int64_t first, std::int64_t last, int) {
        AliasScratch scratch;
        std::vector<AliasCell> cells;
        std::vector<std::uint32_t> places;
        auto b = static_cast<std::size_t>(
            std::upper_bound(batch_ptr.begin(), batch_ptr.end(), first) - batch_ptr.begin() - 1);
        for (auto r = static_cast<std::size_t>(first); r < static_cast<std::size_t>(last); ++r) {
          while (static_cast<std::int64_t>(r) >= batch_ptr[b + 1]) ++b;
          const auto begin = static_cast<std::size_t>(ptr[r]);
          const auto own = weights.subspan(begin, static_cast<std::size_t>(ptr[r + 1]) - begin);
          const auto count = static_cast<std::uint32_t>(picks_ptr[r + 1] - picks_ptr[r]);
          const auto positive =
              std::count_if(own.begin(), own.end(), [](double w) { return w > 0; });
          std::int64_t* out = picks.data() + picks_ptr[r];
          if (!replace && positive == static_cast<std::int64_t>(count)) {  // all there are
            for (std::size_t i = 0; i < own.size(); ++i) {
              if (own[i] > 0) *out++ = ptr[r] + static_cast<std::int64_t>(i);
            }
            continue;
          }
          if (count == 0) continue;
          cells.resize(own.size());
          places.resize(count);
          prepare_row(own, std::span<AliasCell>(cells), scratch);
          const std::uint64_t key = vertex_key(keys[b], static_cast<std::uint64_t>(rows[r]));
          if (replace) {
            pick_weighted_any(key, cells.data(), static_cast<std::uint32_t>(own.size()), count,
                              places.data());
          } else {
            pick_weighted(key, cells.data(), own, count, places.data(), scratch);
          }
          for (const std::uint32_t place : places) *out++ = ptr[r] + place;
        }
      });
}

template void prepare_row(std::span<const float>, std::span<AliasCell>, AliasScratch&);
template void prepare_row(std::span<const double>, std::span<AliasCell>, AliasScratch&);
template void alias_row(std::span<const float>, std::span<AliasCell>, AliasScratch&);
template void alias_row(std::span<const double>, std::span<AliasCell>, AliasScratch&);
#define FOREGATHER_ALIAS(Id)                                                      \
  template void draw_rows(std::span<const Id>, std::span<const std::int64_t>,     \
                          std::span<const std::int64_t>, std::span<const double>, \
                          std::span<const std::uint64_t>, std::int64_t, bool,     \
                          std::span<const std::int64_t>, std::span<std::int64_t>, int);
FOREGATHER_ALIAS(std::uint32_t)
FOREGATHER_ALIAS(std::int64_t)
#undef FOREGATHER_ALIAS

}  // namespace foregather
