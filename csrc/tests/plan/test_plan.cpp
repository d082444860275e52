#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "io/repacking/repack.hpp"
#include "plan/baselines/policies.hpp"
#include "plan/bounds/priced_bound.hpp"
#include "plan/planner.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

using Trace = std::vector<std::vector<std::uint32_t>>;

Geometry geometry(std::int64_t rows, std::int64_t row_bytes, std::int64_t block) {
  const std::int64_t end = 4096 + rows * row_bytes;
  return {rows, row_bytes, 4096, (end + 4095) / 4096 * 4096, block};
}

Trace trace(std::uint64_t key, std::int64_t rows, std::size_t steps, std::size_t most) {
  Trace made(steps);
  std::uint64_t at = 0;
  for (auto& batch : made) {
    std::set<std::uint32_t> chosen;
    const std::uint64_t count = bounded(key, at++, most + 1);
    for (std::uint64_t k = 0; k < count; ++k) {
      chosen.insert(
          static_cast<std::uint32_t>(bounded(key, at++, static_cast<std::uint64_t>(rows))));
    }
    batch.assign(chosen.begin(), chosen.end());
    for (std::size_t i = batch.size(); i > 1; --i) {
      std::swap(batch[i - 1], batch[bounded(key, at++, i)]);
    }
  }
  return made;
}

std::vector<std::span<const std::uint32_t>> spans(const Trace& made) {
  return {made.begin(), made.end()};
}

// Carries a plan out on row numbers; what comes out must be the batches.
void run(const Plan& plan, const Trace& batches, std::vector<std::uint32_t>& slots) {
  check_plan(plan);
  CHECK(plan.num_rows.size() == batches.size());
  for (std::size_t t = 0; t < batches.size(); ++t) {
    std::vector<std::uint32_t> output(batches[t].size(), kNone);
    for (auto h = static_cast<std::size_t>(plan.hit_ptr[t]);
         h < static_cast<std::size_t>(plan.hit_ptr[t + 1]); ++h) {
      output[plan.hit_position[h]] = slots[plan.hit_slot[h]];
    }
    for (auto r = static_cast<std::size_t>(plan.request_ptr[t]);
         r < static_cast<std::size_t>(plan.request_ptr[t + 1]); ++r) {
      for (auto c = static_cast<std::size_t>(plan.copy_ptr[r]);
           c < static_cast<std::size_t>(plan.copy_ptr[r + 1]); ++c) {
        if (plan.copy_position[c] != kNone) output[plan.copy_position[c]] = plan.copy_row[c];
        if (plan.copy_slot[c] != kNone) slots[plan.copy_slot[c]] = plan.copy_row[c];
      }
    }
    CHECK(output == batches[t]);
  }
}

void test_all_policies() {
  std::uint64_t key = 1;
  for (std::int64_t row_bytes : {7, 512, 1536, 4096, 9000}) {
    for (std::int64_t block : {4096, 12288}) {
      for (std::int64_t num_slots : {0, 1, 13, 400}) {
        const Geometry g = geometry(300, row_bytes, block);
        PlannerOptions options;
        options.max_request = block * 2;
        PlannerOptions single = options;
        single.single = true;
        Planner ours(g, num_slots, options), ginex(g, num_slots, single);
        PagePlanner page(g, num_slots, options);
        PlannerOptions plain = options;
        plain.riders = false;
        Planner by_rows(g, num_slots, plain);
        const auto cold = [&](const Geometry& file, const Trace& bulk) {
          return Planner(file, num_slots, options).plan(spans(bulk));
        };
        std::vector<std::uint32_t> a(static_cast<std::size_t>(num_slots), kNone), b = a, c = a;
        Trace now = trace(++key, 300, 6, 60);
        for (int bulk = 0; bulk < 4; ++bulk) {
          const Trace next = trace(++key, 300, 5, 60);
          const auto batches = spans(now), ahead = spans(next);
          run(ours.plan(batches, ahead), now, a);
          ginex.clear();
          run(ginex.plan(batches, {}, true), now, b);
          run(page.plan(batches, ahead), now, c);
          const Plan rows = by_rows.plan(batches);
          check_plan(make_repack(rows, 8192, block * 2).scratch);
          CHECK(priced_bound(g, batches, num_slots, {}, 5) <= count_plan(cold(g, now)).blocks);
          now = next;
        }
        for (auto policy : {OnlinePolicy::kStatic, OnlinePolicy::kLru, OnlinePolicy::kClock,
                            OnlinePolicy::kSieve, OnlinePolicy::kS3Fifo}) {
          OnlinePlanner online(g, num_slots, policy, options);
          std::vector<std::uint32_t> d(static_cast<std::size_t>(num_slots), kNone);
          for (int bulk = 0; bulk < 3; ++bulk) {
            now = trace(++key, 300, 5, 60);
            run(online.plan(spans(now)), now, d);
          }
        }
      }
    }
  }
}

void test_refusals() {
  const Geometry g = geometry(10, 4096, 4096);
  Planner planner(g, 3);
  std::vector<std::uint32_t> slots(3, kNone);
  const Trace good{{1, 2, 3}, {3, 4}, {1}};
  run(planner.plan(spans(good)), good, slots);
  for (const Trace& bad : {Trace{{1}, {10}}, Trace{{2, 5, 2}}}) {
    const auto before =
        std::vector<std::uint32_t>(planner.cached().begin(), planner.cached().end());
    CHECK_THROWS(planner.plan(spans(bad)), InputError);
    CHECK(std::equal(before.begin(), before.end(), planner.cached().begin()));
    run(planner.plan(spans(good)), good, slots);  // a refused bulk changes nothing
  }
  CHECK_THROWS(Planner(geometry(10, 0, 4096), 3), InputError);
  CHECK_THROWS(Planner(geometry(10, 8, 5000), 3), InputError);
  CHECK_THROWS(Planner(geometry(10, 8, 0), 3), InputError);
  CHECK_THROWS(Planner(g, -1), InputError);
  CHECK_THROWS(parse_policy("fifo"), InputError);
}

// Step numbers run out after about a million steps; plans go on as if nothing had happened.
void test_many_steps() {
  const Geometry g = geometry(8, 4096, 4096);
  Planner planner(g, 4), fresh(g, 4);
  std::vector<std::uint32_t> slots(4, kNone);
  const Trace idle(300000);
  for (int k = 0; k < 5; ++k) {
    planner.plan(spans(idle));
    const Trace now = trace(static_cast<std::uint64_t>(k), 8, 20, 5);
    const Plan plan = planner.plan(spans(now));
    run(plan, now, slots);
    CHECK(count_plan(plan).misses == plan.row_bound);
  }
}

}  // namespace

int main() {
  test_all_policies();
  test_refusals();
  test_many_steps();
  return 0;
}
