#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/checksums/block_sums.hpp"
#include "io/checksums/crc32c.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

std::span<const std::byte> text(std::string_view s) {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
}

// The definition: one bit at a time, no table.
std::uint32_t slow(std::span<const std::byte> bytes) {
  std::uint32_t state = 0xFFFFFFFFu;
  for (std::byte byte : bytes) {
    state ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) ? 0x82F63B78u : 0);
  }
  return ~state;
}

std::vector<std::byte> noise(std::size_t size) {
  std::vector<std::byte> data(size);
  std::uint64_t word = 88172645463325252ull;
  for (auto& byte : data) {
    word ^= word << 13, word ^= word >> 7, word ^= word << 17;
    byte = static_cast<std::byte>(word);
  }
  return data;
}

void test_values() {
  CHECK(crc32c(text("123456789")) == 0xE3069283u);  // published check value
  CHECK(crc32c(text("")) == 0);
  CHECK(crc32c(std::vector<std::byte>(32)) == 0x8A9136AAu);  // RFC 3720: 32 bytes of zeros
  CHECK(crc32c(std::vector<std::byte>(32, std::byte{255})) == 0x62A8AB43u);  // and of ones
  const auto data = noise(13000);
  for (std::size_t size : {1, 7, 8, 9, 63, 1023, 1024, 4095, 4096, 4097, 8192, 12289, 12990}) {
    for (std::size_t start : {0, 1, 3, 8, 10}) {
      const auto part = std::span<const std::byte>(data).subspan(start, size);
      CHECK(crc32c(part) == slow(part));
      const std::size_t cut = size * 5 / 7;
      CHECK(crc32c(part.subspan(cut), crc32c(part.first(cut))) == slow(part));
      for (const Crc32cWay& way : crc32c_ways()) {
        CHECK(~way.run(~0u, part.data(), size) == slow(part));
        CHECK(~way.run(~crc32c(part.first(cut)), part.data() + cut, size - cut) == slow(part));
      }
    }
  }
}

// A block of one bit, for each bit: each is moved over another number of bits behind it.
void test_every_bit() {
  std::vector<std::byte> block(4096);
  std::uint32_t expected = slow(block);
  std::uint32_t moved = 0x82F63B78u;  // what the last bit adds; one more x for each bit before it
  for (std::size_t bit = 8 * block.size(); bit-- > 0;) {
    block[bit / 8] = static_cast<std::byte>(1u << (bit % 8));
    for (const Crc32cWay& way : crc32c_ways()) {
      CHECK(~way.run(~0u, block.data(), block.size()) == (expected ^ moved));
    }
    block[bit / 8] = std::byte{0};
    moved = (moved >> 1) ^ ((moved & 1) ? 0x82F63B78u : 0);
  }
  CHECK(std::string(crc32c_ways().back().name) == crc32c_means());
}

void test_summer() {
  const auto data = noise(3 * 4096 + 100);
  std::vector<std::uint32_t> whole, pieces;
  for (std::size_t at = 0; at < data.size(); at += 4096) {
    const auto rest = std::span<const std::byte>(data).subspan(at);
    whole.push_back(slow(rest.first(std::min<std::size_t>(4096, rest.size()))));
  }
  for (std::size_t step : {1, 100, 4095, 4096, 5000, 20000}) {
    Summer summer;
    pieces.clear();
    for (std::size_t at = 0; at < data.size(); at += step) {
      const auto rest = std::span<const std::byte>(data).subspan(at);
      summer.update(rest.first(std::min(step, rest.size())), pieces);
    }
    summer.finish(pieces);
    CHECK(pieces == whole);
  }
}

std::string said(const BlockSums& sums, std::int64_t at, std::span<const std::byte> bytes) {
  try {
    sums.check(at, bytes);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

void test_sums() {
  const std::int64_t payload = 3 * 4096 + 512;
  auto file = noise(5 * 4096);  // header, payload, padding
  BlockSums sums("features.npy", payload, 512, 4096);
  CHECK(sums.sums().size() == 4);
  sums.take(0, file);
  CHECK(said(sums, 0, file).empty());
  const std::span<const std::byte> all(file);
  CHECK(said(sums, 4096, all.subspan(4096)).empty());
  CHECK(said(sums, 8192, all.subspan(8192, 4096)).empty());
  CHECK(said(sums, 4 * 4096, all.subspan(4 * 4096, 512)).empty());  // up to the end of the payload
  for (std::size_t at : {4096u, 8191u, 8192u, 16384u, 16384u + 511u}) {
    file[at] ^= std::byte{4};
    const auto block = (static_cast<std::int64_t>(at) - 4096) / 4096;
    const std::string rows =
        block == 3 ? "row 24"
                   : "rows " + std::to_string(8 * block) + " to " + std::to_string(8 * block + 7);
    CHECK(said(sums, 0, file) == "features.npy: block " + std::to_string(block) + " (" + rows +
                                     ") does not match its checksum; the file was altered or is "
                                     "damaged: restore it or convert again");
    file[at] ^= std::byte{4};
  }
  file[100] ^= std::byte{1};             // the header is compared when the file is opened
  file[4 * 4096 + 512] ^= std::byte{1};  // the padding is not part of the array
  CHECK(said(sums, 0, file).empty());
  CHECK_THROWS(sums.check(4097, all.subspan(4097, 4096)), InputError);
  CHECK_THROWS(sums.check(4096, all.subspan(4096, 100)), InputError);
  CHECK_THROWS(sums.check(4096, all.subspan(4096, 3 * 4096 + 100)), InputError);
  CHECK_THROWS(sums.check(-1, all), InputError);
  CHECK_THROWS(BlockSums("x", 10, 0, 0), InputError);
  CHECK_THROWS(BlockSums("x", -1, 4, 0), InputError);
  BlockSums part("features.npy", payload, 512, 4096, 1, 3);  // blocks 1 and 2
  CHECK(part.sums().size() == 2);
  part.take(8192, all.subspan(8192, 8192));
  CHECK(said(part, 8192, all.subspan(8192, 4096)).empty());
  CHECK_THROWS(part.check(4096, all.subspan(4096, 8192)), InputError);
  CHECK_THROWS(part.check(12288, all.subspan(12288, 8192)), InputError);
  file[12288] ^= std::byte{1};
  CHECK(said(part, 12288, all.subspan(12288, 4096)).starts_with("features.npy: block 2 (rows 16 "));
  CHECK_THROWS(BlockSums("x", 4096, 4, 0, 0, 2), InputError);
  BlockSums nothing("x", 0, 0, 4096);
  nothing.check(0, all);
}

}  // namespace

int main() {
  test_values();
  test_every_bit();
  test_summer();
  test_sums();
  return 0;
}
