#include <vector>

#include "base/random.hpp"
#include "plan/planner.hpp"
#include "tests/golden.hpp"

using namespace foregather;

namespace {

void plans() {
  const Geometry geometry{3000, 512, 4096, 4096 + 3000 * 512, 8192};
  Planner planner(geometry, 200, PlannerOptions{});
  Digest digest;
  std::uint64_t at = 0;
  for (int bulk = 0; bulk < 3; ++bulk) {
    std::vector<std::vector<std::uint32_t>> batches(6);
    for (auto& batch : batches) {
      std::vector<bool> taken(3000, false);
      for (int k = 0; k < 150; ++k) {
        const std::uint64_t first = bounded(9, at++, 55), second = bounded(9, at++, 55);
        const auto row = first * second;  // small ones are popular
        if (!taken[row]) batch.push_back(static_cast<std::uint32_t>(row));
        taken[row] = true;
      }
    }
    const Plan plan =
        planner.plan(std::vector<std::span<const std::uint32_t>>(batches.begin(), batches.end()));
    digest.add(plan.hit_slot);
    digest.add(plan.hit_position);
    digest.add(plan.request_offset);
    digest.add(plan.request_length);
    digest.add(plan.copy_row);
    digest.add(plan.copy_position);
    digest.add(plan.copy_slot);
    digest.add(std::vector<std::int64_t>{plan.row_bound, plan.block_bound});
  }
  expect("plans", digest, 0xf9f7faeec450f2b7);
}

}  // namespace

int main() {
  plans();
  return failures;
}
