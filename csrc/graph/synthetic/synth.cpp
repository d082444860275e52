// The shape of a synthetic graph: where vertices lie and how many edges each has; rows are drawn in
// synth_rows.cpp, features and labels in synth_learn.cpp.
#include "graph/synthetic/synth.hpp"

#include <algorithm>
#include <cmath>

#include "graph/synthetic/synth_parts.hpp"

namespace foregather {
namespace {

// Offsets x0 of the two laws. 8 makes the largest degree some thousand times the mean at 10M
// vertices and skew 4. Inside a community 1/16 of its size makes the first vertex about 4 times as
// heavy as the mean; more would ask for it more often than it may appear in distinct sources.
constexpr double kWholeOffset = 8.0;
constexpr double kInsideOffset = 1.0 / 16.0;

bool share(double x) { return x >= 0.0 && x <= 1.0; }

SynthOptions checked(const SynthOptions& o) {
  if (o.nodes < 1 || o.nodes >= std::int64_t{1} << 47) {
    throw InputError("nodes must be from 1 to 2^47");
  }
  const double most = static_cast<double>(o.nodes) * static_cast<double>(o.nodes - 1);
  if (o.edges < 0 || o.edges > std::int64_t{1} << 52 || static_cast<double>(o.edges) > most) {
    throw InputError("edges must be from 0 to nodes * (nodes - 1)");
  }
  if (o.communities < 1 || o.communities > o.nodes) {
    throw InputError("communities must be from 1 to nodes");
  }
  if (o.classes < 1 || o.classes > o.communities || o.classes > std::int64_t{1} << 30) {
    throw InputError("classes must be from 1 to communities");
  }
  if (o.width < 0 || o.width > std::int64_t{1} << 24) throw InputError("width is out of range");
  if (o.skew != 1 && o.skew != 2 && o.skew != 4 && o.skew != 8) {
    throw InputError("skew must be 1, 2, 4 or 8");
  }
  if (!share(o.mixing) || !share(o.label_noise)) {
    throw InputError("mixing and label noise must be from 0 to 1");
  }
  if (!(o.signal >= 0.0 && o.signal <= 1000.0)) throw InputError("signal must be from 0 to 1000");
  if (!share(o.train) || !share(o.valid) || !share(o.test) ||
      o.train + o.valid + o.test > 1.0 + 1e-9) {
    throw InputError("split shares must be from 0 to 1 and sum to at most 1");
  }
  return o;
}

}  // namespace

Synth::Synth(const SynthOptions& options)
    : options_(checked(options)),
      nodes_(static_cast<std::uint64_t>(options.nodes)),
      communities_(static_cast<std::uint64_t>(options.communities)),
      size_(nodes_ / communities_),
      larger_(nodes_ % communities_),
      by_communities_(communities_),
      by_size_(size_),
      by_larger_size_(size_ + 1),
      by_classes_(static_cast<std::uint64_t>(options.classes)),
      inside_share_(static_cast<std::uint32_t>((1.0 - options.mixing) * 65536.0)),
      row_key_(synth_key(options.seed, Purpose::row)),
      label_key_(synth_key(options.seed, Purpose::label)),
      feature_key_(synth_key(options.seed, Purpose::feature)),
      split_key_(synth_key(options.seed, Purpose::split)),
      ids_(nodes_, synth_key(options.seed, Purpose::id)),
      classes_(communities_, synth_key(options.seed, Purpose::community)) {
  for (int m = options.skew; m > 1; m /= 2) ++roots_;
  whole_ = law(kWholeOffset, nodes_);
  const double offset = static_cast<double>(size_) * kInsideOffset;
  inside_[0] = law(offset, size_);
  inside_[1] = law(offset, size_ + 1);
  const auto edges = static_cast<double>(options.edges);
  const double inside = static_cast<double>(communities_ - larger_) * inside_[0].span +
                        static_cast<double>(larger_) * inside_[1].span;
  edges_inside_ = (1.0 - options.mixing) * edges / inside;
  edges_whole_ = options.mixing * edges / whole_.span;
  // Expected degrees fall with the rank and rounding moves a degree by less than 1, so once a
  // degree is 2 below the cap, no later one reaches it.
  edges_ = options.edges;
  const std::uint64_t cap = nodes_ - 1;
  for (std::uint64_t rank = 0; rank < nodes_; ++rank) {
    const std::uint64_t asked = first_edge(rank + 1) - first_edge(rank);
    if (asked > cap) edges_ -= static_cast<std::int64_t>(asked - cap);
    if (asked + 2 < cap) break;
  }
  make_centroids();
}

double Synth::root(double x) const {
  for (int level = 0; level < roots_; ++level) x = std::sqrt(x);
  return x;
}

Synth::Law Synth::law(double offset, std::uint64_t extent) const {
  const double low = root(offset);
  const auto ranks = static_cast<double>(extent);
  return {offset, low, root(ranks + offset) - low, ranks};
}

Synth::Place Synth::place(std::uint64_t vertex) const {
  const std::uint64_t in_larger = larger_ * (size_ + 1);
  if (vertex < in_larger) {
    const std::uint64_t community = by_larger_size_.quotient(vertex);
    return {community, vertex - community * (size_ + 1)};
  }
  const std::uint64_t rest = by_size_.quotient(vertex - in_larger);
  return {larger_ + rest, vertex - in_larger - rest * size_};
}

// floor(S(rank)): monotone in rank, 0 at 0 and E at N.
std::uint64_t Synth::first_edge(std::uint64_t rank) const {
  if (rank >= nodes_) return static_cast<std::uint64_t>(options_.edges);
  const std::uint64_t number = by_communities_.quotient(rank);
  const Law& inside = inside_[0];  // inside_[1] has the same offset, so the same F
  const auto all = static_cast<double>(communities_);
  const auto some = static_cast<double>(rank - number * communities_);
  const double before = root(static_cast<double>(number) + inside.offset) - inside.low;
  const double after = root(static_cast<double>(number + 1) + inside.offset) - inside.low;
  // min: rounding must not lift the last community of a rank above the first of the next.
  const double within = std::min(all * before + some * (after - before), all * after);
  const double whole = root(static_cast<double>(rank) + whole_.offset) - whole_.low;
  const double sum = edges_inside_ * within + edges_whole_ * whole;
  return static_cast<std::uint64_t>(std::min(sum, static_cast<double>(options_.edges)));
}

std::int64_t Synth::degree(std::uint64_t vertex) const {
  const Place at = place(vertex);
  const std::uint64_t rank = at.number * communities_ + at.community;
  const std::uint64_t asked = first_edge(rank + 1) - first_edge(rank);
  return static_cast<std::int64_t>(std::min(asked, nodes_ - 1));
}

std::int64_t Synth::vertex(std::int64_t id) const {
  check_range(id, 1);
  return static_cast<std::int64_t>(own_vertex(id));
}

std::int64_t Synth::id(std::int64_t vertex) const {
  check_range(vertex, 1);
  return static_cast<std::int64_t>(own_id(static_cast<std::uint64_t>(vertex)));
}

void Synth::check_range(std::int64_t begin, std::size_t count) const {
  if (begin < 0 || begin > options_.nodes ||
      count > static_cast<std::size_t>(options_.nodes - begin)) {
    throw InputError("the range of ids must lie within the graph");
  }
}

void Synth::degrees(std::int64_t begin, std::span<std::int64_t> out, int threads) const {
  each(begin, out, threads, [&](std::uint64_t v) { return degree(v); });
}

void Synth::communities(std::int64_t begin, std::span<std::int64_t> out, int threads) const {
  each(begin, out, threads, [&](std::uint64_t v) { return place(v).community; });
}

}  // namespace foregather
