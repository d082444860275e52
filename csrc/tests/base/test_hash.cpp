#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {
std::span<const std::byte> text(std::string_view s) {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
}
}  // namespace

int main() {
  // Published vectors of XXH64 with seed 0.
  CHECK(xxh64(text("")) == 0xEF46DB3751D8E999ull);
  CHECK(xxh64(text("a")) == 0xD24EC4F1A98C6E5Bull);
  CHECK(xxh64(text("abc")) == 0x44BC2CF5AD770999ull);

  // Every split of a buffer gives the digest of the whole.
  std::vector<std::byte> data(200);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 37 + 11);
  for (std::size_t n = 0; n <= data.size(); ++n) {
    const std::span<const std::byte> whole(data.data(), n);
    const std::uint64_t expected = xxh64(whole);
    for (std::size_t cut = 0; cut <= n; cut += 7) {
      Xxh64 state;
      state.update(whole.subspan(0, cut));
      state.update(whole.subspan(cut));
      CHECK(state.digest() == expected);
    }
  }
  return 0;
}
