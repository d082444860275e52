// NameSink: hashes the names of a piece of text and writes most of them once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/hash.hpp"
#include "graph/text/fields.hpp"
#include "graph/text/strings.hpp"

namespace foregather::text {

class NameSink {
 public:
  /// `names` has room for every name of the piece, repeats too.
  explicit NameSink(NameBuffer names) : names_(names), last_(kSlots) { names_.offsets[0] = 0; }

  /// The key of a field; its text is in the buffer then. Fails where it is empty or not UTF-8.
  std::uint64_t put(const Field& field, int column, const Place& place) {
    if (!field.sound) place.fail(column, field.text, "a closed quote and then the next field");
    if (field.text.empty()) place.fail(column, field.text, "an id");
    std::uint8_t* name = names_.data.data() + used_;
    const std::size_t length = unquote(field, name);
    if (!is_utf8({reinterpret_cast<const char*>(name), length})) {
      place.fail(column, field.text, "UTF-8 text");
    }
    const std::uint64_t key = xxh64({reinterpret_cast<const std::byte*>(name), length});
    Met& met = last_[key % kSlots];
    if (met.index >= 0 && met.key == key && same(met.index, name, length)) return key;
    used_ += length;
    met = {key, count_};
    names_.keys[static_cast<std::size_t>(count_)] = key;
    names_.offsets[static_cast<std::size_t>(++count_)] = static_cast<std::int64_t>(used_);
    return key;
  }

  std::int64_t count() const { return count_; }

 private:
  // Direct-mapped: the last string met for each slot. Skewed graphs repeat their hubs.
  // The key is compared first, which spares most lookups of the text.
  struct Met {
    std::uint64_t key = 0;
    std::int64_t index = -1;
  };
  static constexpr std::size_t kSlots = 1 << 12;

  bool same(std::int64_t index, const std::uint8_t* name, std::size_t length) const {
    const auto from = static_cast<std::size_t>(names_.offsets[static_cast<std::size_t>(index)]);
    const auto to = static_cast<std::size_t>(names_.offsets[static_cast<std::size_t>(index) + 1]);
    return to - from == length && !std::memcmp(names_.data.data() + from, name, length);
  }

  NameBuffer names_;
  std::vector<Met> last_;
  std::int64_t count_ = 0;
  std::size_t used_ = 0;
};

}  // namespace foregather::text
