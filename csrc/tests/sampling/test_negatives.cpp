#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "sampling/keys.hpp"
#include "sampling/links/negatives.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

using Ints = std::vector<std::int64_t>;

void wide_numbers_are_even_and_in_range() {
  static_assert(bounded_wide(0, 1) == 0 && bounded_wide(~0ull, 1) == 0);
  for (const std::uint64_t range : {1ull, 3ull, 1000ull, (1ull << 62) + 12345, 1ull << 63}) {
    Ints counts(8);
    for (std::uint64_t i = 0; i < 8000; ++i) {
      const std::uint64_t drawn = bounded_wide(draw(7, i), range);
      CHECK(drawn < range);
      ++counts[static_cast<std::size_t>(static_cast<double>(drawn) / static_cast<double>(range) *
                                        8)];
    }
    for (const std::int64_t count : counts) CHECK(range < 8 || (count > 880 && count < 1120));
  }
}

void units_are_found_as_by_counting() {
  for (const std::int64_t scale : {1, 7, 1000}) {
    Ints upto{0};
    for (std::int64_t i = 0; i < 300; ++i) {
      upto.push_back(upto.back() + (i % 5 == 2 ? 0 : i % 31 == 0 ? 40 * scale : i % 3 * scale));
    }
    const UnitIndex index(upto);
    std::int64_t rank = 0;
    for (std::int64_t unit = 0; unit < upto.back(); ++unit) {
      while (upto[static_cast<std::size_t>(rank) + 1] <= unit) ++rank;
      index.prefetch(unit);
      CHECK(index.rank_of(unit) == rank);
    }
  }
}

// Nodes with units, times and known links, in every combination.
template <typename Id>
struct Case {
  static constexpr std::int64_t kSources = 13, kNodes = 50;
  Ints upto{0}, time, order, indptr{0}, before;
  std::vector<Id> rank;
  DrawnEnd source{kSources, {}, {}, {}}, destination{kNodes, {}, {}, {}};
  KnownRanks<Id> known;

  Case(bool weighted, bool timed, bool complement) {
    for (std::int64_t v = 0; v < kNodes; ++v) {
      upto.push_back(upto.back() + v % 4);
      time.push_back(v / 7);
      order.push_back((v * 7) % kNodes);
    }
    std::sort(order.begin(), order.end(), [](auto a, auto b) { return a * 37 % 50 < b * 37 % 50; });
    for (std::int64_t u = 0; u < kSources; ++u) {
      std::int64_t units = 0;
      for (std::int64_t v = u % 3; v < kNodes; v += u + 2) {
        rank.push_back(static_cast<Id>(v));
        before.push_back(units);
        units += v % 4;
      }
      indptr.push_back(static_cast<std::int64_t>(rank.size()));
    }
    if (weighted) destination.upto = upto;
    if (timed) {
      destination.time = time;
      destination.order = order;
    }
    if (complement) known = {indptr, rank, {}};
    if (complement && weighted) known.upto = before;
  }

  // The ranks that may be drawn for a source, each as often as it has units, in order.
  Ints list(std::int64_t u, std::int64_t limit) const {
    Ints made;
    for (std::int64_t v = 0; v < kNodes; ++v) {
      if (!destination.time.empty() && time[static_cast<std::size_t>(v)] > limit) continue;
      const auto* row = rank.data() + indptr[static_cast<std::size_t>(u)];
      const auto* end = rank.data() + indptr[static_cast<std::size_t>(u) + 1];
      if (!known.indptr.empty() && std::find(row, end, static_cast<Id>(v)) != end) continue;
      made.insert(made.end(), static_cast<std::size_t>(destination.upto.empty() ? 1 : v % 4), v);
    }
    return made;
  }
};

template <typename Id>
void draws_are_those_of_a_list(bool weighted, bool timed, bool complement) {
  const Case<Id> own(weighted, timed, complement);
  const NegativeDraws<Id> draws(own.source, own.destination, own.known);
  constexpr std::size_t kRows = 3000;
  Ints rows(kRows), sources(kRows), times(kRows);
  for (std::size_t i = 0; i < kRows; ++i) {
    rows[i] = static_cast<std::int64_t>(i * 17);
    sources[i] = static_cast<std::int64_t>(i % Case<Id>::kSources);
    times[i] = static_cast<std::int64_t>(2 + i % 6);
  }
  const Ints ptr{0, 5, 5, kRows}, cuts{0, 8, 8, 8 + 2 * (kRows - 5)};
  Ints source(static_cast<std::size_t>(cuts.back())), destination(source.size()), again = source;
  for (const int threads : {1, 3}) {
    draws.draw({rows, sources, times, ptr, cuts}, 5, 2, source, destination, threads);
    if (threads == 1) again = destination;
    CHECK(again == destination);
  }
  const std::uint64_t key = epoch_key(5, Purpose::kNegatives, 2);
  for (std::size_t b = 0; b < 3; ++b) {
    for (std::int64_t q = cuts[b]; q < cuts[b + 1]; ++q) {
      const std::int64_t count = ptr[b + 1] - ptr[b], number = q - cuts[b];
      const auto at = static_cast<std::size_t>(ptr[b] + number % count);
      const Ints all = own.list(sources[at], times[at]);
      const std::uint64_t bits = draw(derive(key, static_cast<std::uint64_t>(rows[at])),
                                      2 * static_cast<std::uint64_t>(number / count) + 1);
      std::int64_t want = all[bounded_wide(bits, all.size())];
      if (timed) want = own.order[static_cast<std::size_t>(want)];
      CHECK(source[static_cast<std::size_t>(q)] == sources[at]);
      CHECK(destination[static_cast<std::size_t>(q)] == want);
    }
  }
}

void what_cannot_be_is_refused() {
  const Ints full{0, 3, 3}, rows{4, 9}, ptr{0, 2}, cuts{0, 2}, both{1, 0}, late{0, 0};
  const std::vector<std::uint32_t> rank{0, 1, 2};
  const NegativeDraws<std::uint32_t> draws({2, {}, {}, {}}, {3, {}, {}, {}}, {full, rank, {}});
  Ints source(2), destination(2);
  CHECK_THROWS(draws.draw({rows, both, {}, ptr, cuts}, 1, 0, source, destination, 1), InputError);
  const Ints wrong{0, 2}, fewer{0, 1}, times{3, 4, 5}, nobody{0, 0}, one{0};
  CHECK_THROWS(draws.draw({rows, wrong, {}, ptr, cuts}, 1, 0, source, destination, 1), InputError);
  CHECK_THROWS(draws.draw({rows, one, {}, ptr, cuts}, 1, 0, source, destination, 1), InputError);
  CHECK_THROWS(draws.draw({rows, {}, {}, ptr, fewer}, 1, 0, source, destination, 1), InputError);
  CHECK_THROWS(draws.draw({{}, {}, {}, nobody, cuts}, 1, 0, source, destination, 1), InputError);
  const NegativeDraws<std::int64_t> timed({2, {}, {}, {}}, {3, {}, times, {}}, {});
  CHECK_THROWS(timed.draw({rows, {}, {}, ptr, cuts}, 1, 0, source, destination, 1), InputError);
  CHECK_THROWS(timed.draw({rows, {}, late, ptr, cuts}, 1, 0, source, destination, 2), InputError);
  const Ints down{5, 4, 3}, outside{0, 1, 3};
  using Draws = NegativeDraws<std::uint32_t>;
  CHECK_THROWS(Draws({2, {}, {}, {}}, {3, {}, down, {}}, {}), InputError);
  CHECK_THROWS(Draws({2, {}, {}, {}}, {3, {}, {}, outside}, {}), InputError);
  CHECK_THROWS(Draws({2, {}, {}, {}}, {4, {}, times, {}}, {}), InputError);
  CHECK_THROWS(Draws({2, {}, {}, {}}, {2, {}, {}, {}}, {full, rank, {}}), InputError);
  CHECK_THROWS(Draws({3, {}, {}, {}}, {3, {}, {}, {}}, {full, rank, {}}), InputError);
}

}  // namespace

int main() {
  wide_numbers_are_even_and_in_range();
  units_are_found_as_by_counting();
  for (const bool weighted : {false, true}) {
    for (const bool timed : {false, true}) {
      for (const bool complement : {false, true}) {
        draws_are_those_of_a_list<std::uint32_t>(weighted, timed, complement);
        draws_are_those_of_a_list<std::int64_t>(weighted, timed, complement);
      }
    }
  }
  what_cannot_be_is_refused();
}
