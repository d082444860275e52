#include "io/checksums/crc32c.hpp"

#include <array>
#include <cstring>
#include <vector>

#include "base/cpu_features.hpp"
#include "io/checksums/crc32c_fold.hpp"

#if defined(__x86_64__)
#include <nmmintrin.h>
#define FOREGATHER_CRC_INSTRUCTION __attribute__((target("sse4.2,crc32")))
#elif defined(__aarch64__) && defined(__linux__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define FOREGATHER_CRC_INSTRUCTION __attribute__((target("+crc")))
#endif

namespace foregather {
namespace {

using Table = std::array<std::uint32_t, 256>;

// Entry b of table k: what byte b, followed by k zero bytes, adds to the register.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t value = b;
    for (int bit = 0; bit < 8; ++bit) value = times_x(value);
    tables[0][b] = value;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t value = tables[k - 1][b];
      tables[k][b] = (value >> 8) ^ tables[0][value & 255];
    }
  }
  return tables;
}

constexpr std::array<Table, 8> kTables = make_tables();

std::uint64_t load(const std::byte* p) {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

// Takes and returns the register, which is the complement of the value.
std::uint32_t run_table(std::uint32_t state, const std::byte* p, std::size_t size) {
  for (; size >= 8; p += 8, size -= 8) {
    const std::uint64_t word = load(p) ^ state;
    state = 0;
    for (int k = 0; k < 8; ++k) state ^= kTables[7 - k][(word >> (8 * k)) & 255];
  }
  for (; size > 0; ++p, --size) {
    state = (state >> 8) ^ kTables[0][(state ^ static_cast<std::uint32_t>(*p)) & 255];
  }
  return state;
}

#if defined(FOREGATHER_CRC_INSTRUCTION)

// The instruction takes one word per cycle but answers after three: four lanes of a block at once
// keep it busy, and are joined by moving a lane's register over the bytes of the next one.
constexpr std::size_t kLane = 1024;

// What each byte of a register becomes when kLane zero bytes follow it: the register of a lane
// moves over the next lane by four look-ups.
constexpr std::array<Table, 4> make_moves() {
  std::array<std::uint32_t, 32> bits{};
  for (std::size_t bit = 0; bit < 32; ++bit) {
    std::uint32_t value = std::uint32_t{1} << bit;
    for (std::size_t i = 0; i < kLane; ++i) value = (value >> 8) ^ kTables[0][value & 255];
    bits[bit] = value;
  }
  std::array<Table, 4> moves{};
  for (std::size_t k = 0; k < 4; ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      for (std::size_t bit = 0; bit < 8; ++bit) {
        if ((b >> bit) & 1) moves[k][b] ^= bits[8 * k + bit];
      }
    }
  }
  return moves;
}

const std::array<Table, 4> kMoves = make_moves();

std::uint32_t move_lane(std::uint32_t state) {
  return kMoves[0][state & 255] ^ kMoves[1][(state >> 8) & 255] ^ kMoves[2][(state >> 16) & 255] ^
         kMoves[3][state >> 24];
}

// Prefetches the four lines of the next block that belong here. What comes from a disk is in no
// cache, and what is checked next mostly lies behind it: without prefetching, memory gives half the
// speed. An address beyond the buffer is never touched, only prefetched in vain.
inline void ask_next(const std::byte* p) {
  const auto next = reinterpret_cast<std::uintptr_t>(p) + 4 * kLane;
  for (std::size_t line = 0; line < 256; line += 64) {
    __builtin_prefetch(reinterpret_cast<const void*>(next + line));
  }
}

#if defined(__x86_64__)
FOREGATHER_CRC_INSTRUCTION inline std::uint64_t word_step(std::uint64_t state, std::uint64_t word) {
  return _mm_crc32_u64(state, word);
}
FOREGATHER_CRC_INSTRUCTION inline std::uint32_t byte_step(std::uint32_t state, std::byte byte) {
  return _mm_crc32_u8(state, static_cast<std::uint8_t>(byte));
}
bool has_instruction() { return cpu_features().sse42; }
constexpr const char* kMeans = "sse4.2";
#else
FOREGATHER_CRC_INSTRUCTION inline std::uint64_t word_step(std::uint64_t state, std::uint64_t word) {
  return __crc32cd(static_cast<std::uint32_t>(state), word);
}
FOREGATHER_CRC_INSTRUCTION inline std::uint32_t byte_step(std::uint32_t state, std::byte byte) {
  return __crc32cb(state, static_cast<std::uint8_t>(byte));
}
bool has_instruction() { return (::getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
constexpr const char* kMeans = "armv8";
#endif

FOREGATHER_CRC_INSTRUCTION std::uint32_t run_instruction(std::uint32_t state, const std::byte* p,
                                                         std::size_t size) {
  for (; size >= 4 * kLane; p += 4 * kLane, size -= 4 * kLane) {
    std::uint64_t a = state, b = 0, c = 0, d = 0;
    for (std::size_t line = 0; line < kLane; line += 64) {
      ask_next(p + 4 * line);
      for (std::size_t i = line; i < line + 64; i += 8) {
        a = word_step(a, load(p + i));
        b = word_step(b, load(p + kLane + i));
        c = word_step(c, load(p + 2 * kLane + i));
        d = word_step(d, load(p + 3 * kLane + i));
      }
    }
    state = move_lane(static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b);
    state = move_lane(state) ^ static_cast<std::uint32_t>(c);
    state = move_lane(state) ^ static_cast<std::uint32_t>(d);
  }
  std::uint64_t rest = state;
  for (; size >= 8; p += 8, size -= 8) rest = word_step(rest, load(p));
  state = static_cast<std::uint32_t>(rest);
  for (; size > 0; ++p, --size) state = byte_step(state, *p);
  return state;
}

#endif

std::vector<Crc32cWay> find_ways() {
  std::vector<Crc32cWay> found{{"table", run_table}};
#if defined(FOREGATHER_CRC_INSTRUCTION)
  if (has_instruction()) found.push_back({kMeans, run_instruction});
#endif
  for (const Crc32cWay& way : fold_ways()) found.push_back(way);
  return found;
}

const std::vector<Crc32cWay> kWays = find_ways();
const Crc32cWay kFastest = kWays.back();

}  // namespace

std::span<const Crc32cWay> crc32c_ways() { return kWays; }

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  return ~kFastest.run(~before, bytes.data(), bytes.size());
}

const char* crc32c_means() { return kFastest.name; }

}  // namespace foregather
