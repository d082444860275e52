#include "sampling/links/negatives.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <string>

#include "base/random.hpp"
#include "parallel/pool.hpp"
#include "sampling/keys.hpp"

namespace foregather {
namespace {

constexpr std::size_t kTogether = 16;  // negatives whose accesses to memory overlap

// Ranks of an end that are no later than `limit`.
std::int64_t early(const DrawnEnd& end, std::int64_t limit) {
  if (end.time.empty()) return end.count;
  return std::upper_bound(end.time.begin(), end.time.end(), limit) - end.time.begin();
}

std::int64_t units_before(const DrawnEnd& end, std::int64_t rank) {
  return end.upto.empty() ? rank : end.upto[static_cast<std::size_t>(rank)];
}

std::int64_t node_of(const DrawnEnd& end, const UnitIndex& index, std::int64_t unit) {
  const std::int64_t rank = end.upto.empty() ? unit : index.rank_of(unit);
  return end.order.empty() ? rank : end.order[static_cast<std::size_t>(rank)];
}

void check_end(const DrawnEnd& end) {
  const auto count = static_cast<std::size_t>(end.count);
  if (end.count < 0 || (!end.upto.empty() && end.upto.size() != count + 1) ||
      (!end.time.empty() && end.time.size() != count) ||
      (!end.order.empty() && end.order.size() != count)) {
    throw InputError("units, times and order of nodes differ in length");
  }
  if (!std::is_sorted(end.upto.begin(), end.upto.end()) ||
      (!end.upto.empty() && end.upto.front() != 0) ||
      !std::is_sorted(end.time.begin(), end.time.end())) {
    throw InputError("units or times of nodes do not ascend");
  }
  for (const std::int64_t node : end.order) {
    if (node < 0 || node >= end.count) throw InputError("the order of nodes holds no node");
  }
}

template <typename Id>
void check_known(const KnownRanks<Id>& known, std::int64_t sources, std::int64_t ranks) {
  const auto links = static_cast<std::int64_t>(known.rank.size());
  if (known.indptr.empty()) return;
  if (known.indptr.size() != static_cast<std::size_t>(sources) + 1 || known.indptr.front() != 0 ||
      known.indptr.back() != links || !std::is_sorted(known.indptr.begin(), known.indptr.end()) ||
      (!known.upto.empty() && known.upto.size() != known.rank.size())) {
    throw InputError("known links are not cut into a row for each source");
  }
  for (std::size_t u = 0; u + 1 < known.indptr.size(); ++u) {
    for (std::int64_t i = known.indptr[u]; i < known.indptr[u + 1]; ++i) {
      const auto rank = static_cast<std::int64_t>(known.rank[static_cast<std::size_t>(i)]);
      const bool above =
          i == known.indptr[u] ||
          rank > static_cast<std::int64_t>(known.rank[static_cast<std::size_t>(i) - 1]);
      if (rank < 0 || rank >= ranks || !above) {
        throw InputError("the known links of source " + std::to_string(u) +
                         " are not ascending destinations");
      }
    }
  }
}

void lower(std::atomic<std::int64_t>& least, std::int64_t found) {
  std::int64_t seen = least.load();
  while (found < seen && !least.compare_exchange_weak(seen, found)) continue;
}

}  // namespace

UnitIndex::UnitIndex(std::span<const std::int64_t> upto) : upto_(upto) {
  constexpr std::uint64_t kEach = 4;  // ranks for each place that is known
  if (upto.empty()) return;
  const auto units = static_cast<std::uint64_t>(upto.back());
  const std::uint64_t places = upto.size() / kEach + 1;
  while ((units >> shift_) > places) ++shift_;
  std::size_t rank = 0;
  for (std::uint64_t i = 0; i <= units >> shift_; ++i) {
    const auto unit = static_cast<std::int64_t>(i << shift_);
    while (rank + 2 < upto.size() && upto[rank + 1] <= unit) ++rank;
    at_.push_back(static_cast<std::int64_t>(rank));
  }
  at_.push_back(static_cast<std::int64_t>(upto.size()) - 2);
}

std::int64_t UnitIndex::rank_of(std::int64_t unit) const {
  const auto place = static_cast<std::size_t>(unit >> shift_);
  const std::int64_t* first = upto_.data() + at_[place];
  const std::int64_t* last = upto_.data() + at_[place + 1] + 1;
  return std::upper_bound(first, last, unit) - upto_.data() - 1;
}

/// One negative on its way.
template <typename Id>
struct NegativeDraws<Id>::One {
  std::uint64_t key = 0;  ///< of its row
  std::uint64_t number = 0;
  std::int64_t limit = 0;  ///< of times
  std::int64_t source = -1;
  std::int64_t first = 0, known = 0;  ///< known ranks of the source that are early enough
  std::int64_t left = 0;              ///< units to draw from
};

template <typename Id>
NegativeDraws<Id>::NegativeDraws(DrawnEnd source, DrawnEnd destination, KnownRanks<Id> known)
    : source_(source), destination_(destination), known_(known) {
  check_end(source_);
  check_end(destination_);
  check_known(known_, source_.count, destination_.count);
  source_units_ = UnitIndex(source_.upto);
  destination_units_ = UnitIndex(destination_.upto);
}

template <typename Id>
void NegativeDraws<Id>::check(const Positives& given, std::size_t sources,
                              std::size_t destinations) const {
  const std::size_t all = given.rows.size();
  if (given.ptr.empty() || given.ptr.size() != given.cuts.size() || given.ptr.front() != 0 ||
      given.cuts.front() != 0 || !std::is_sorted(given.ptr.begin(), given.ptr.end()) ||
      !std::is_sorted(given.cuts.begin(), given.cuts.end()) ||
      given.ptr.back() != static_cast<std::int64_t>(all) ||
      given.cuts.back() != static_cast<std::int64_t>(sources) || sources != destinations) {
    throw InputError("ptr and cuts do not cut positives and negatives into the same batches");
  }
  for (std::size_t b = 0; b + 1 < given.ptr.size(); ++b) {
    if (given.ptr[b] == given.ptr[b + 1] && given.cuts[b] != given.cuts[b + 1]) {
      throw InputError("a batch without positives has no negatives");
    }
  }
  if ((!given.sources.empty() && given.sources.size() != all) ||
      (!given.times.empty() && given.times.size() != all) ||
      (given.times.empty() && all > 0 && !(source_.time.empty() && destination_.time.empty()))) {
    throw InputError("sources and times do not have an entry for each positive");
  }
  for (const std::int64_t u : given.sources) {
    if (u < 0 || u >= source_.count) {
      throw InputError("a positive has source " + std::to_string(u) + ", but there are " +
                       std::to_string(source_.count) + " source nodes (ids are 0 to N-1)");
    }
  }
}

template <typename Id>
auto NegativeDraws<Id>::begin(const Positives& given, std::size_t batch, std::int64_t q,
                              std::uint64_t key) const -> One {
  const std::int64_t count = given.ptr[batch + 1] - given.ptr[batch];
  const std::int64_t own = q - given.cuts[batch];
  const auto place = static_cast<std::size_t>(given.ptr[batch] + own % count);
  One one;
  one.key = derive(key, static_cast<std::uint64_t>(given.rows[place]));
  one.number = static_cast<std::uint64_t>(own / count);
  if (!given.times.empty()) one.limit = given.times[place];
  if (!given.sources.empty()) one.source = given.sources[place];
  return one;
}

// The source, if it is drawn; false if there is none to draw.
template <typename Id>
bool NegativeDraws<Id>::find_source(One& one) const {
  if (one.source < 0) {
    const std::int64_t units = units_before(source_, early(source_, one.limit));
    if (units == 0) return false;
    const auto unit = static_cast<std::int64_t>(
        bounded_wide(foregather::draw(one.key, 2 * one.number), static_cast<std::uint64_t>(units)));
    one.source = node_of(source_, source_units_, unit);
  }
  if (!known_.indptr.empty())
    __builtin_prefetch(&known_.indptr[static_cast<std::size_t>(one.source)]);
  return true;
}

// How many units there are to draw the destination from; false if none.
template <typename Id>
bool NegativeDraws<Id>::find_units(One& one) const {
  const std::int64_t ranks = early(destination_, one.limit);
  one.left = units_before(destination_, ranks);
  if (!known_.indptr.empty()) {
    const auto u = static_cast<std::size_t>(one.source);
    one.first = known_.indptr[u];
    one.known = known_.indptr[u + 1] - one.first;
    const Id* row = known_.rank.data() + one.first;
    if (ranks < destination_.count) {
      one.known = std::lower_bound(row, row + one.known, ranks,
                                   [](Id rank, std::int64_t end) {
                                     return static_cast<std::int64_t>(rank) < end;
                                   }) -
                  row;
    }
    if (one.known > 0) {
      __builtin_prefetch(row + one.known / 2);
      const auto last = static_cast<std::int64_t>(row[one.known - 1]);
      one.left -= known_.upto.empty()
                      ? one.known
                      : known_.upto[static_cast<std::size_t>(one.first + one.known - 1)] +
                            units_before(destination_, last + 1) - units_before(destination_, last);
    }
  }
  return one.left > 0;
}

template <typename Id>
std::int64_t NegativeDraws<Id>::find_destination(const One& one) const {
  auto unit = static_cast<std::int64_t>(bounded_wide(foregather::draw(one.key, 2 * one.number + 1),
                                                     static_cast<std::uint64_t>(one.left)));
  // Known ranks with at most `unit` units before them that are not known come first.
  std::int64_t passed = 0;
  for (std::int64_t left = one.known; left > 0;) {
    const std::int64_t half = left / 2, at = passed + half;
    const auto rank =
        static_cast<std::int64_t>(known_.rank[static_cast<std::size_t>(one.first + at)]);
    const std::int64_t known =
        known_.upto.empty() ? at : known_.upto[static_cast<std::size_t>(one.first + at)];
    if (units_before(destination_, rank) - known <= unit) {
      passed = at + 1;
      left -= half + 1;
    } else {
      left = half;
    }
  }
  if (passed > 0 && known_.upto.empty()) {
    unit += passed;
  } else if (passed > 0) {
    const auto at = static_cast<std::size_t>(one.first + passed - 1);
    const auto rank = static_cast<std::int64_t>(known_.rank[at]);
    unit +=
        known_.upto[at] + units_before(destination_, rank + 1) - units_before(destination_, rank);
  }
  return node_of(destination_, destination_units_, unit);
}

template <typename Id>
void NegativeDraws<Id>::refuse(const Positives& given, std::int64_t q, std::uint64_t key) const {
  const auto batch = static_cast<std::size_t>(
      std::upper_bound(given.cuts.begin(), given.cuts.end(), q) - given.cuts.begin() - 1);
  const std::int64_t count = given.ptr[batch + 1] - given.ptr[batch];
  const auto place = static_cast<std::size_t>(given.ptr[batch] + (q - given.cuts[batch]) % count);
  One one = begin(given, batch, q, key);
  const std::string row = "input row " + std::to_string(given.rows[place]) + " has no negative: ";
  const std::string when =
      given.times.empty() ? "" : " at its time, " + std::to_string(given.times[place]);
  if (!find_source(one)) throw InputError(row + "there is no source node" + when);
  const bool any = units_before(destination_, early(destination_, one.limit)) > 0;
  if (!any) throw InputError(row + "there is no destination node" + when);
  throw InputError(row + "source " + std::to_string(one.source) +
                   " is linked to every destination" + when +
                   "; leave such rows out, or use exclude=None");
}

template <typename Id>
void NegativeDraws<Id>::draw(const Positives& given, std::uint64_t seed, std::uint64_t epoch,
                             std::span<std::int64_t> source, std::span<std::int64_t> destination,
                             int threads) const {
  check(given, source.size(), destination.size());
  const auto all = static_cast<std::int64_t>(source.size());
  const std::uint64_t key = epoch_key(seed, Purpose::kNegatives, epoch);
  std::atomic<std::int64_t> wrong{all};
  parallel_blocks(all, threads, 2048, [&](std::int64_t first, std::int64_t last, int) {
    auto batch = static_cast<std::size_t>(
        std::upper_bound(given.cuts.begin(), given.cuts.end(), first) - given.cuts.begin() - 1);
    std::array<One, kTogether> block;
    for (std::int64_t from = first; from < last; from += kTogether) {
      const auto some = static_cast<std::size_t>(std::min<std::int64_t>(kTogether, last - from));
      bool good = true;
      for (std::size_t k = 0; k < some; ++k) {
        const std::int64_t q = from + static_cast<std::int64_t>(k);
        while (q >= given.cuts[batch + 1]) ++batch;
        block[k] = begin(given, batch, q, key);
        if (!find_source(block[k])) block[k].left = -1;
      }
      for (std::size_t k = 0; k < some; ++k) {
        if (block[k].left == 0 && find_units(block[k])) continue;
        lower(wrong, from + static_cast<std::int64_t>(k));
        good = false;
      }
      if (!good) return;
      for (std::size_t k = 0; k < some; ++k) {
        const auto at = static_cast<std::size_t>(from) + k;
        source[at] = block[k].source;
        destination[at] = find_destination(block[k]);
      }
    }
  });
  if (wrong < all) refuse(given, wrong, key);
}

template class NegativeDraws<std::uint32_t>;
template class NegativeDraws<std::int64_t>;

}  // namespace foregather
