#include <cmath>
#include <string>
#include <vector>

#include "base/half.hpp"
#include "base/random.hpp"
#include "base/types.hpp"
#include "nn/sum_rows.hpp"
#include "tests/check.hpp"

using namespace foregather;
using namespace foregather::nn;

namespace {

float value(std::uint64_t k) { return static_cast<float>(bounded(1, k, 2001)) / 8.0f - 125.0f; }

template <typename T>
T stored(float x) {
  if constexpr (std::is_same_v<T, Float16>) {
    return {to_half(x)};
  } else {
    return static_cast<T>(x);
  }
}

template <typename T>
Sum<T> read(const FeatureRows<T>& rows, std::int64_t row, std::int64_t column) {
  const T x = rows.data[row * rows.width + column];
  if constexpr (std::is_same_v<T, std::int8_t>) {
    return static_cast<float>(x) * rows.scale[column];
  } else {
    return widen(x);
  }
}

// Lists with an empty one at both ends and between, against a loop over edges.
template <typename T, typename Id>
void test_sums() {
  constexpr std::int64_t kRows = 50, kTargets = 40;
  for (const std::int64_t width : {1, 7, 8, 9, 24, 65, 130}) {
    std::vector<T> data(static_cast<std::size_t>(kRows * width));
    for (std::size_t k = 0; k < data.size(); ++k) data[k] = stored<T>(value(k));
    std::vector<float> scale(static_cast<std::size_t>(width));
    for (std::size_t k = 0; k < scale.size(); ++k) scale[k] = 0.01f * static_cast<float>(k + 1);
    const FeatureRows<T> rows{data.data(), kRows, width, scale.data()};
    std::vector<Id> node;
    for (std::uint64_t k = 0; k < 30; ++k) node.push_back(static_cast<Id>(bounded(2, k, kRows)));
    std::vector<std::int64_t> starts{0};
    std::vector<std::uint32_t> place;
    std::vector<float> weight;
    for (std::uint64_t t = 0; t < kTargets; ++t) {
      const std::uint64_t count = t % 5 == 0 ? 0 : bounded(3, t, 40);
      for (std::uint64_t k = 0; k < count; ++k) {
        place.push_back(static_cast<std::uint32_t>(bounded(4, place.size(), 30)));
        weight.push_back(value(place.size()));
      }
      starts.push_back(static_cast<std::int64_t>(place.size()));
    }
    for (const bool weighted : {false, true}) {
      const PlaceLists lists{starts, place, weighted ? weight.data() : nullptr};
      std::vector<Sum<T>> wanted(static_cast<std::size_t>(kTargets * width));
      for (std::int64_t t = 0; t < kTargets; ++t) {
        for (auto k = starts[static_cast<std::size_t>(t)];
             k < starts[static_cast<std::size_t>(t) + 1]; ++k) {
          const auto row = static_cast<std::int64_t>(node[place[static_cast<std::size_t>(k)]]);
          for (std::int64_t j = 0; j < width; ++j) {
            const Sum<T> x = read(rows, row, j);
            const auto w = static_cast<Sum<T>>(weight[static_cast<std::size_t>(k)]);
            wanted[static_cast<std::size_t>(t * width + j)] += weighted ? x * w : x;
          }
        }
      }
      for (const int threads : {1, 2, 5}) {
        std::vector<Sum<T>> out(wanted.size(), Sum<T>{7});
        sum_rows<T, Id>(rows, node, lists, out.data(), threads);
        CHECK(out == wanted);
      }
    }
  }
}

void test_wrong_input() {
  const std::vector<float> data(12);
  const FeatureRows<float> rows{data.data(), 4, 3, nullptr};
  const std::vector<std::int64_t> starts{0, 1, 2}, short_of{0, 1}, falling{0, 3, 2};
  const std::vector<std::uint32_t> good{0, 3}, bad{0, 4};
  const std::vector<std::int64_t> node{0, 1, 2, -1};
  std::vector<float> out(6, 7);
  const auto sum = [&](const auto& begins, const auto& places, std::span<const std::int64_t> ids) {
    sum_rows<float, std::int64_t>(rows, ids, PlaceLists{begins, places, nullptr}, out.data(), 2);
  };
  CHECK_THROWS(sum(starts, bad, {}), InputError);
  CHECK_THROWS(sum(starts, good, node), InputError);
  CHECK_THROWS(sum(short_of, good, {}), InputError);
  CHECK_THROWS(sum(falling, good, {}), InputError);
  CHECK(out[0] == 7);
  sum(starts, good, {});
  CHECK(out[0] == 0);
}

}  // namespace

int main() {
  test_sums<float, std::uint32_t>();
  test_sums<double, std::int64_t>();
  test_sums<Float16, std::uint32_t>();
  test_sums<std::int8_t, std::int64_t>();
  test_wrong_input();
  return 0;
}
