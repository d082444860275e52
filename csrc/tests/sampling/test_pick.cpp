#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "base/random.hpp"
#include "sampling/picking/pick.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

// Of any length, evenly drawn or not, with repeats, up to the largest limit.
void numbers_are_put_in_order() {
  for (const std::uint32_t limit : {1u, 2u, 33u, 100u, 4097u, 1u << 20, 0xFFFFFFFFu}) {
    for (std::uint32_t count = 0; count < 600; count += count < 40 ? 1 : 37) {
      std::vector<std::uint32_t> even, first, same(count, limit - 1);
      for (std::uint32_t i = 0; i < count; ++i) {
        even.push_back(bounded(count, i, limit));
        first.push_back(bounded(limit, i, std::min(limit, 5u)));
      }
      for (auto* numbers : {&even, &first, &same}) {
        std::vector<std::uint32_t> want = *numbers;
        std::sort(want.begin(), want.end());
        detail::sort_even(numbers->data(), count, limit);
        CHECK(*numbers == want);
      }
    }
  }
}

// Floyd's method by a set, and draws with replacement by sorting.
void picks_are_those_of_the_definition() {
  PickScratch scratch;
  for (const std::uint32_t degree : {5u, 64u, 65u, 300u, 5000u, 200000u}) {
    for (const std::uint32_t count : {1u, 4u, 31u, 33u, 64u, 128u, 600u}) {
      std::vector<std::uint32_t> any(count), made(count);
      for (std::uint32_t slot = 0; slot < count; ++slot) any[slot] = bounded(9, slot, degree);
      std::sort(any.begin(), any.end());
      pick_any(9, degree, count, made.data());
      CHECK(made == any);
      if (count > degree) continue;
      std::set<std::uint32_t> taken;
      for (std::uint32_t slot = 0, last = degree - count; slot < count; ++slot, ++last) {
        const std::uint32_t drawn = bounded(9, slot, last + 1);
        taken.insert(taken.count(drawn) > 0 ? last : drawn);
      }
      pick_distinct(9, degree, count, made.data(), scratch);
      if (count == degree) continue;
      CHECK(std::equal(made.begin(), made.end(), taken.begin(), taken.end()));
    }
  }
}

}  // namespace

int main() {
  numbers_are_put_in_order();
  picks_are_those_of_the_definition();
}
