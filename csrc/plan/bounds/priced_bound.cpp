#include "plan/bounds/priced_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "plan/miss.hpp"

namespace foregather {
namespace {

struct Use {
  std::uint32_t step;
  std::uint32_t row;
};

// All uses, grouped by block and ascending by step.
struct Uses {
  std::vector<std::size_t> ptr;
  std::vector<Use> use;
  std::vector<bool> cached;  ///< by block: some of its rows are in the cache
};

Uses group(const Geometry& geometry, Batches batches, std::span<const std::uint32_t> cached) {
  const Extents extents(geometry, RequestShape{});
  Uses out;
  out.ptr.assign(static_cast<std::size_t>(geometry.file_bytes / geometry.block_bytes) + 2, 0);
  for (const auto& batch : batches) {
    check_rows(geometry, batch);
    for (std::uint32_t row : batch) ++out.ptr[extents.block(row) + 1];
  }
  for (std::size_t b = 1; b < out.ptr.size(); ++b) out.ptr[b] += out.ptr[b - 1];
  out.use.resize(out.ptr.back());
  std::vector<std::size_t> at(out.ptr.begin(), out.ptr.end() - 1);
  for (std::size_t t = 0; t < batches.size(); ++t) {
    for (std::uint32_t row : batches[t]) {
      out.use[at[extents.block(row)]++] = {static_cast<std::uint32_t>(t), row};
    }
  }
  out.cached.assign(out.ptr.size(), false);
  for (std::uint32_t row : cached) {
    if (row != kNone) out.cached[extents.block(row)] = true;
  }
  return out;
}

// The best schedule of one block: where to read it, and what to hold in between.
class BlockPath {
 public:
  explicit BlockPath(const std::vector<double>& paid) : paid_(paid) {}

  // Returns the cost; adds what is held to `load` (differences by step).
  double solve(std::span<const Use> uses, bool cached, std::vector<std::int64_t>& load) {
    split(uses);
    const std::size_t n = steps_.size();
    best_.assign(n + 2, std::numeric_limits<double>::infinity());
    from_.assign(n + 2, 0);
    // node 0: before the bulk (a free read if cached); node i: a read at the i-th use; node n + 1:
    // end
    best_[0] = 0;
    if (!cached) {
      best_[1] = 1;
    } else {
      relax(0, uses);
    }
    for (std::size_t j = 1; j <= n; ++j) relax(j, uses);
    for (std::size_t i = n + 1; i > 0 && (i > 1 || cached); i = from_[i]) {
      hold(from_[i], i, uses, load);
      if (from_[i] == 0) break;
    }
    return best_[n + 1];
  }

 private:
  // Groups of uses with the same step: [begins_[i - 1], begins_[i]) is node i.
  void split(std::span<const Use> uses) {
    steps_.clear();
    begins_.assign(1, 0);
    for (std::size_t k = 0; k < uses.size(); ++k) {
      if (steps_.empty() || uses[k].step != steps_.back()) {
        if (!steps_.empty()) begins_.push_back(k);
        steps_.push_back(uses[k].step);
      }
    }
    begins_.push_back(uses.size());
  }
  double paid_at(std::size_t node) const { return node == 0 ? 0 : paid_[steps_[node - 1]]; }

  // All continuations from a read at node j, until reading again is at least as good.
  void relax(std::size_t j, std::span<const Use> uses) {
    double held = 0;
    seen_.clear();
    const std::size_t n = steps_.size();
    for (std::size_t i = j + 1; i <= n + 1; ++i) {
      const double cost = best_[j] + held + (i <= n ? 1 : 0);
      if (cost < best_[i]) {
        best_[i] = cost;
        from_[i] = j;
      }
      if (i > n) break;
      if (best_[j] + held >= best_[i]) break;  // a read at i costs no more, and holds less
      for (std::size_t k = begins_[i - 1]; k < begins_[i]; ++k) {
        held += paid_[steps_[i - 1]] - since(uses[k].row, paid_at(j), paid_[steps_[i - 1]]);
      }
    }
  }

  // Up to where the row is paid for already; from now on up to `now`.
  double since(std::uint32_t row, double start, double now) {
    for (auto& [name, value] : seen_) {
      if (name == row) return std::exchange(value, now);
    }
    seen_.emplace_back(row, now);
    return start;
  }

  void hold(std::size_t j, std::size_t i, std::span<const Use> uses,
            std::vector<std::int64_t>& load) {
    last_.clear();
    for (std::size_t node = j + 1; node < i; ++node) {
      for (std::size_t k = begins_[node - 1]; k < begins_[node]; ++k) {
        auto known = std::find_if(last_.begin(), last_.end(),
                                  [&](const Use& use) { return use.row == uses[k].row; });
        if (known == last_.end()) {
          last_.push_back(uses[k]);
        } else {
          known->step = uses[k].step;
        }
      }
    }
    for (const Use& use : last_) {
      ++load[j == 0 ? 0 : steps_[j - 1]];
      --load[use.step];
    }
  }

  const std::vector<double>& paid_;  ///< by step: the price of holding from step 0 to it
  std::vector<std::uint32_t> steps_;
  std::vector<std::size_t> begins_, from_;
  std::vector<double> best_;
  std::vector<std::pair<std::uint32_t, double>> seen_;
  std::vector<Use> last_;
};

}  // namespace

std::int64_t priced_bound(const Geometry& geometry, Batches batches, std::int64_t num_slots,
                          std::span<const std::uint32_t> cached, int rounds) {
  check_geometry(geometry);
  const std::size_t steps = batches.size();
  if (steps == 0) return 0;
  const Uses all = group(geometry, batches, cached);
  const double slots = static_cast<double>(std::max<std::int64_t>(num_slots, 1));
  std::vector<double> price(steps, 2.0 / static_cast<double>(steps + 1)), paid(steps + 1, 0);
  std::vector<std::int64_t> load(steps + 1);
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    double rent = 0;
    for (std::size_t g = 0; g < steps; ++g) {
      paid[g + 1] = paid[g] + price[g];
      rent += price[g];
    }
    std::fill(load.begin(), load.end(), 0);
    BlockPath path(paid);
    double cost = 0;
    for (std::size_t b = 0; b + 1 < all.ptr.size(); ++b) {
      if (all.ptr[b] == all.ptr[b + 1]) continue;
      const std::span<const Use> uses(&all.use[all.ptr[b]], all.ptr[b + 1] - all.ptr[b]);
      cost += path.solve(uses, all.cached[b], load);
    }
    best = std::max(best, cost - static_cast<double>(num_slots) * rent);
    const double eagerness = 1.0 / std::sqrt(1.0 + round);
    std::int64_t held = 0;
    for (std::size_t g = 0; g < steps; ++g) {
      held += load[g];
      const double excess = std::clamp(static_cast<double>(held) / slots - 1, -1.0, 1.0);
      price[g] *= std::exp(eagerness * excess);
    }
  }
  // a bound on a whole number; a little is left for rounding
  return static_cast<std::int64_t>(std::ceil(best - 1e-6 * (1 + best)));
}

}  // namespace foregather
