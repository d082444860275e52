#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/half.hpp"
#include "base/random.hpp"
#include "io/gathering/gather.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

template <typename Id>
void test_bytes() {
  for (std::size_t row_bytes : {1, 3, 16, 100, 513}) {
    const std::int64_t num_rows = 1000;
    std::vector<std::byte> data(static_cast<std::size_t>(num_rows) * row_bytes);
    for (std::size_t k = 0; k < data.size(); ++k) data[k] = static_cast<std::byte>(draw(1, k));
    const Rows rows{data.data(), num_rows, row_bytes};
    for (std::size_t count : {0, 1, 11, 12, 13, 5000}) {
      std::vector<Id> ids(count);
      for (std::size_t k = 0; k < count; ++k) ids[k] = static_cast<Id>(bounded(2, k, 1000));
      for (int threads : {1, 2, 8}) {
        std::vector<std::byte> out(count * row_bytes);
        gather_rows<Id>(rows, ids, out, threads);
        for (std::size_t k = 0; k < count; ++k) {
          const std::byte* from = data.data() + static_cast<std::size_t>(ids[k]) * row_bytes;
          CHECK(std::memcmp(out.data() + k * row_bytes, from, row_bytes) == 0);
        }
      }
    }
    std::vector<Id> bad{0, 999, static_cast<Id>(-1), 1000};
    std::vector<std::byte> out(4 * row_bytes, std::byte{7});
    CHECK_THROWS(gather_rows<Id>(rows, bad, out, 2), InputError);
    CHECK(out[0] == std::byte{7});
    try {
      gather_rows<Id>(rows, bad, out, 2);
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find("at position 2") != std::string::npos);
    }
    out.pop_back();
    CHECK_THROWS(gather_rows<Id>(rows, bad, out, 1), InputError);
  }
}

void test_values() {
  const std::vector<std::int8_t> q{-127, 0, 127, 5, -5, 1};
  const std::vector<float> scale{0.5f, 2.0f, 0.25f};
  const Rows rows{reinterpret_cast<const std::byte*>(q.data()), 2, 3};
  const std::vector<std::uint32_t> ids{1, 0};
  std::vector<float> out(6);
  gather_scaled<std::uint32_t>(rows, scale, ids, out, 1);
  CHECK((out == std::vector<float>{2.5f, -10.0f, 0.25f, -63.5f, 0.0f, 31.75f}));
  CHECK_THROWS(gather_scaled<std::uint32_t>(rows, std::span(scale).first(2), ids, out, 1),
               InputError);

  std::vector<std::uint16_t> halves(1 << 16);
  for (std::size_t k = 0; k < halves.size(); ++k) halves[k] = static_cast<std::uint16_t>(k);
  const Rows all{reinterpret_cast<const std::byte*>(halves.data()), 1 << 12, 32};
  std::vector<std::int64_t> order(1 << 12);
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = static_cast<std::int64_t>(k);
  std::vector<float> floats(1 << 16);
  gather_half<std::int64_t>(all, order, floats, 2);
  for (std::size_t k = 0; k < halves.size(); ++k) {
    const int exponent = (halves[k] >> 10) & 31;
    const int mantissa = halves[k] & 1023;
    const float sign = halves[k] & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31) {
      CHECK(mantissa ? std::isnan(floats[k]) : floats[k] == sign * INFINITY);
    } else {
      const int fraction = exponent ? 1024 + mantissa : mantissa;
      CHECK(floats[k] ==
            sign * std::ldexp(static_cast<float>(fraction), (exponent ? exponent : 1) - 25));
      CHECK(to_half(floats[k]) == halves[k]);
    }
  }
}

}  // namespace

int main() {
  test_bytes<std::uint32_t>();
  test_bytes<std::int64_t>();
  test_values();
  return 0;
}
