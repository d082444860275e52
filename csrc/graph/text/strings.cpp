#include "graph/text/strings.hpp"

#include <cstring>
#include <string>

#include "base/hash.hpp"

namespace foregather {

void hash_strings(std::span<const std::uint8_t> data, std::span<const std::int64_t> offsets,
                  std::span<std::uint64_t> keys, std::uint64_t seed) {
  if (offsets.size() != keys.size() + 1) {
    throw InputError("hash_strings got " + std::to_string(offsets.size()) + " offsets for " +
                     std::to_string(keys.size()) + " keys, expected one more than keys");
  }
  const auto size = static_cast<std::int64_t>(data.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (offsets[i] < 0 || offsets[i + 1] < offsets[i] || offsets[i + 1] > size) {
      throw InputError("string " + std::to_string(i) + " lies outside its buffer");
    }
    const auto length = static_cast<std::size_t>(offsets[i + 1] - offsets[i]);
    const std::uint8_t* text = data.data() + offsets[i];
    if (!is_utf8({reinterpret_cast<const char*>(text), length})) {
      throw InputError("string " + std::to_string(i) + " is not UTF-8");
    }
    keys[i] = xxh64({reinterpret_cast<const std::byte*>(text), length}, seed);
  }
}

bool is_utf8(std::string_view bytes) {
  const auto* p = reinterpret_cast<const unsigned char*>(bytes.data());
  const unsigned char* const end = p + bytes.size();
  while (p < end) {
    if (end - p >= 8) {  // most names are ASCII: eight bytes at a time
      std::uint64_t eight;
      std::memcpy(&eight, p, 8);
      if ((eight & 0x8080808080808080ull) == 0) {
        p += 8;
        continue;
      }
    }
    const unsigned char lead = *p++;
    if (lead < 0x80) continue;
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead < 0xC2 || lead > 0xF4 || end - p < more) return false;
    // The second byte of four leads has a narrower range: overlong forms, surrogates, > U+10FFFF.
    const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (*p < low || *p > high) return false;
    ++p;
    for (int i = 1; i < more; ++i, ++p) {
      if ((*p & 0xC0) != 0x80) return false;
    }
  }
  return true;
}

}  // namespace foregather
