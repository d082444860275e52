#include "io/checksums/crc32c_fold.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "base/cpu_features.hpp"
#endif

// The bytes of a block are the coefficients of a polynomial, and a register is its remainder. The
// first kFolded bytes are folded: 64 bytes, multiplied by the power of x that moves them over the
// next 64 and reduced to 32 bits per factor, are added to those, until 64 are left. The rest of the
// block is three lanes for the CRC instruction, which needs three words at once to be busy. At the
// end the registers of the four parts are moved over what follows them, and added.
//
// Powers, with bit i of a word of n bits for x^(n-1-i): the product of two words of 64 bits, read
// as one of 128, and of two of 32, read as one of 64, is the product of what they stand for times
// x; and the instruction multiplies what it takes by x^32. The exponents below make up for both.
namespace foregather {

#if defined(__x86_64__)
namespace {

// vpclmulqdq is used by Wide alone: the compiler makes no such instruction by itself.
#define FOREGATHER_FOLD __attribute__((target("sse4.2,crc32,pclmul,avx2,vpclmulqdq")))
#define FOREGATHER_FOLD_STEP FOREGATHER_FOLD __attribute__((always_inline)) static inline

constexpr std::size_t kBlock = 4096;
constexpr std::size_t kFold = 64;

constexpr std::uint32_t power_of_x(std::size_t n) {
  std::uint32_t value = 0x80000000u;  // x^0
  for (std::size_t i = 0; i < n; ++i) value = times_x(value);
  return value;
}

// The factors that move 16 bytes over kFold: of their first eight, and of the others.
constexpr auto kFirst = static_cast<long long>(std::uint64_t{power_of_x(8 * kFold + 63)} << 32);
constexpr auto kSecond = static_cast<long long>(std::uint64_t{power_of_x(8 * kFold - 1)} << 32);

FOREGATHER_FOLD_STEP std::uint64_t word(const std::byte* p) {
  std::uint64_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

struct Wide {  // two pairs of words at once; the split was the fastest of several on a Zen 3
  using Register = __m256i;
  static constexpr std::size_t kFolded = 2176, kWords = 2;
  FOREGATHER_FOLD_STEP Register load(const std::byte* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  FOREGATHER_FOLD_STEP Register factors() {
    return _mm256_set_epi64x(kSecond, kFirst, kSecond, kFirst);
  }
  FOREGATHER_FOLD_STEP Register add(Register a, Register b) { return _mm256_xor_si256(a, b); }
  FOREGATHER_FOLD_STEP Register begin(std::uint32_t state) {
    return _mm256_set_epi32(0, 0, 0, 0, 0, 0, 0, static_cast<int>(state));
  }
  FOREGATHER_FOLD_STEP Register move(Register a, Register by) {
    return add(_mm256_clmulepi64_epi128(a, by, 0x00), _mm256_clmulepi64_epi128(a, by, 0x11));
  }
  FOREGATHER_FOLD_STEP void store(std::byte* p, Register a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a);
  }
};

struct Narrow {  // one pair of words; half as many bytes are folded in the same time
  using Register = __m128i;
  static constexpr std::size_t kFolded = 1216, kWords = 6;
  FOREGATHER_FOLD_STEP Register load(const std::byte* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  FOREGATHER_FOLD_STEP Register factors() { return _mm_set_epi64x(kSecond, kFirst); }
  FOREGATHER_FOLD_STEP Register add(Register a, Register b) { return _mm_xor_si128(a, b); }
  FOREGATHER_FOLD_STEP Register begin(std::uint32_t state) {
    return _mm_cvtsi32_si128(static_cast<int>(state));
  }
  FOREGATHER_FOLD_STEP Register move(Register a, Register by) {
    return add(_mm_clmulepi64_si128(a, by, 0x00), _mm_clmulepi64_si128(a, by, 0x11));
  }
  FOREGATHER_FOLD_STEP void store(std::byte* p, Register a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), a);
  }
};

template <std::size_t kLane>
struct Lanes {
  const std::byte* at;
  std::uint64_t a = 0, b = 0, c = 0;

  FOREGATHER_FOLD_STEP void step(Lanes& l) {
    l.a = _mm_crc32_u64(l.a, word(l.at));
    l.b = _mm_crc32_u64(l.b, word(l.at + kLane));
    l.c = _mm_crc32_u64(l.c, word(l.at + 2 * kLane));
    l.at += 8;
  }
};

// Prefetches a share of the next block. What comes from a disk is in no cache, and what is checked
// next mostly lies behind it. An address beyond the buffer is never touched, only prefetched.
FOREGATHER_FOLD_STEP void ask_next(const std::byte* block, std::size_t line, std::size_t lines) {
  const auto next = reinterpret_cast<std::uintptr_t>(block) + kBlock + 64 * line;
  for (std::size_t i = 0; i < 64 * lines; i += 64) {
    __builtin_prefetch(reinterpret_cast<const void*>(next + i));
  }
}

// What a register adds to that of a block that has `kAfter` more bytes, before the last crc32.
template <std::size_t kAfter>
FOREGATHER_FOLD_STEP std::uint64_t moved(std::uint64_t state) {
  constexpr auto kPower = static_cast<int>(power_of_x(8 * kAfter - 33));
  const __m128i register_ = _mm_cvtsi64_si128(static_cast<long long>(state));
  const __m128i made = _mm_clmulepi64_si128(register_, _mm_cvtsi32_si128(kPower), 0x00);
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(made));
}

template <typename V>
FOREGATHER_FOLD std::uint32_t fold_block(std::uint32_t state, const std::byte* p) {
  constexpr std::size_t kSize = sizeof(typename V::Register), kRegisters = kFold / kSize;
  constexpr std::size_t kLane = (kBlock - V::kFolded) / 3, kSteps = V::kFolded / kFold - 1;
  constexpr std::size_t kAsked = (kBlock / 64 + kSteps - 1) / kSteps;
  static_assert(V::kFolded + 3 * kLane == kBlock && V::kFolded % kFold == 0 && kLane % 8 == 0);
  static_assert((kSteps - 1) * V::kWords <= kLane / 8);
  const std::byte* const block = p;
  const auto by = V::factors();
  typename V::Register x[kRegisters];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRegisters; ++i) x[i] = V::load(p + kSize * i);
  x[0] = V::add(x[0], V::begin(state));
  Lanes<kLane> lanes{p + V::kFolded};
  for (std::size_t s = 0; s < kSteps; ++s) {
    p += kFold;
    ask_next(block, kAsked * s, kAsked);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kRegisters; ++i) {
      x[i] = V::add(V::move(x[i], by), V::load(p + kSize * i));
    }
    if (s + 1 == kSteps) break;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < V::kWords; ++i) Lanes<kLane>::step(lanes);
  }
  for (std::size_t i = (kSteps - 1) * V::kWords; i < kLane / 8; ++i) Lanes<kLane>::step(lanes);
  std::byte left[kFold];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRegisters; ++i) V::store(left + kSize * i, x[i]);
  std::uint64_t folded = 0;
  for (std::size_t i = 0; i < kFold; i += 8) folded = _mm_crc32_u64(folded, word(left + i));
  const std::uint64_t sum =
      moved<3 * kLane>(folded) ^ moved<2 * kLane>(lanes.a) ^ moved<kLane>(lanes.b);
  return static_cast<std::uint32_t>(_mm_crc32_u64(0, sum) ^ lanes.c);
}

template <typename V>
FOREGATHER_FOLD std::uint32_t run_folds(std::uint32_t state, const std::byte* p, std::size_t size) {
  for (; size >= kBlock; p += kBlock, size -= kBlock) state = fold_block<V>(state, p);
  std::uint64_t rest = state;
  for (; size >= 8; p += 8, size -= 8) rest = _mm_crc32_u64(rest, word(p));
  state = static_cast<std::uint32_t>(rest);
  for (; size > 0; ++p, --size) state = _mm_crc32_u8(state, static_cast<std::uint8_t>(*p));
  return state;
}

}  // namespace
#endif

std::vector<Crc32cWay> fold_ways() {
  std::vector<Crc32cWay> found;
#if defined(__x86_64__)
  const CpuFeatures& has = cpu_features();
  if (has.sse42 && has.pclmul && has.avx2) {
    found.push_back({"pclmulqdq", run_folds<Narrow>});
    if (has.vpclmulqdq) found.push_back({"vpclmulqdq", run_folds<Wide>});
  }
#endif
  return found;
}

}  // namespace foregather
