// Strings: vertex names as keys. A name is UTF-8 text and its key is the XXH64 of its bytes.
//
// n strings lie back to back in one buffer, string i at data[offsets[i] .. offsets[i + 1]), the
// layout of an Arrow string column. Keys of different strings may be equal (for 10^9 names the
// chance is about 3 %), so whoever numbers by key compares the names as well.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/types.hpp"

namespace foregather {

/// keys[i] = XXH64 of string i. Throws InputError where offsets leave the buffer or
/// descend, or a string is not UTF-8.
void hash_strings(std::span<const std::uint8_t> data, std::span<const std::int64_t> offsets,
                  std::span<std::uint64_t> keys, std::uint64_t seed = 0);

/// Whether the bytes are well-formed UTF-8 (no surrogates, no overlong forms).
bool is_utf8(std::string_view bytes);

}  // namespace foregather
