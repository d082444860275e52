#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/random.hpp"
#include "base/types.hpp"
#include "graph/key_index.hpp"
#include "graph/text/name_table.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

using Names = std::map<std::uint64_t, std::string>;  // by key, ascending

std::uint64_t key_of(const std::string& name) { return xxh64(std::as_bytes(std::span(name))); }

struct Packed {
  std::vector<std::uint8_t> data;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::uint64_t> keys;

  void add(const std::string& name, std::uint64_t key) {
    data.insert(data.end(), name.begin(), name.end());
    offsets.push_back(static_cast<std::int64_t>(data.size()));
    keys.push_back(key);
  }
};

// Everything the table holds, in small portions; the keys ascend.
void drain(NameTable& table, Names& out) {
  std::vector<std::uint64_t> keys(7);
  std::vector<std::int64_t> lengths(7);
  std::uint64_t last = 0;
  std::size_t left = table.size();
  for (bool first = true; left > 0;) {
    std::vector<std::uint8_t> text(std::max<std::size_t>(20, table.next_length()));
    const auto taken = table.next(keys, lengths, text);
    CHECK(taken.names > 0);
    const char* p = reinterpret_cast<const char*>(text.data());
    for (std::size_t i = 0; i < taken.names; ++i) {
      CHECK(first || keys[i] > last);
      last = keys[i], first = false;
      const std::string name(p, static_cast<std::size_t>(lengths[i]));
      p += lengths[i];
      const auto [held, fresh] = out.emplace(keys[i], name);
      CHECK(fresh || held->second == name);
    }
    left -= taken.names;
  }
  CHECK(table.next(keys, lengths, {}).names == 0 && table.next_length() == 0);
  table.clear();
  CHECK(table.size() == 0);
}

void holds_each_name_once(std::size_t budget) {
  Packed given;
  Names expected, found;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    std::string name = "n" + std::to_string(bounded(3, i, 6000));
    if (i % 1000 == 0) name = std::string(i, 'x');  // one of no bytes, others longer than a block
    given.add(name, key_of(name));
    expected.emplace(key_of(name), name);
  }
  NameTable table(budget);
  std::size_t drained = 0;
  for (std::size_t at = 0; at < given.keys.size();) {
    const std::size_t before = at;
    at = table.add(given.data, given.offsets, given.keys, at);
    if (at < given.keys.size()) {
      CHECK(table.size() > 0 && at >= before);
      drain(table, found);
      ++drained;
    }
  }
  CHECK((drained > 0) == (budget < (1u << 20)));
  if (drained == 0) CHECK(table.size() == expected.size());
  drain(table, found);
  CHECK(found == expected);
}

// Keys with the same leading bits end the table early, and every name is still there.
void survives_crowded_keys() {
  Packed given;
  Names expected, found;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    const std::string name = std::to_string(i);
    const std::uint64_t key = ~std::uint64_t{0} - i;  // the last home: the margin is used too
    given.add(name, key);
    expected.emplace(key, name);
  }
  NameTable table(1 << 26);
  for (std::size_t at = 0; at < given.keys.size();) {
    at = table.add(given.data, given.offsets, given.keys, at);
    drain(table, found);
  }
  CHECK(found == expected);
}

void refuses() {
  NameTable table(1 << 20);
  Packed same;
  same.add("a", 5);
  same.add("b", 5);
  CHECK_THROWS(table.add(same.data, same.offsets, same.keys, 0), InputError);
  Packed outside;
  outside.add("a", 6);
  outside.offsets[1] = 2;
  CHECK_THROWS(table.add(outside.data, outside.offsets, outside.keys, 0), InputError);
  CHECK_THROWS(table.add(same.data, same.offsets, same.keys, 3), InputError);
  CHECK_THROWS(table.add(same.data, outside.offsets, same.keys, 0), InputError);
  CHECK(table.next_length() == 1);
  CHECK_THROWS(table.add(same.data, same.offsets, same.keys, 0), InputError);  // being handed out
}

void finds(const std::vector<std::uint64_t>& sorted, const std::vector<std::uint64_t>& keys) {
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{2}, sorted.size()}) {
    const std::span<const std::uint64_t> part(sorted.data(), size);
    std::vector<std::int64_t> found(keys.size());
    KeyIndex(part).find(keys, found, 3);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto at = std::lower_bound(part.begin(), part.end(), keys[i]);
      const bool present = at != part.end() && *at == keys[i];
      CHECK(found[i] == (present ? at - part.begin() : -1));
    }
  }
}

void finds_keys() {
  std::vector<std::uint64_t> even, crowded, hashes, asked;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    even.push_back(i * 3 + (1ull << 40));
    crowded.push_back(i < 500 ? i * i : ~std::uint64_t{0} - (1000 - i) * 7);
    hashes.push_back(key_of(std::to_string(i)));
  }
  std::sort(hashes.begin(), hashes.end());
  for (std::uint64_t i = 0; i < 3100; ++i) asked.push_back(i + (1ull << 40) - 20);
  for (const auto* some : {&even, &crowded, &hashes}) {
    for (std::uint64_t key : *some) asked.insert(asked.end(), {key - 1, key, key + 1});
  }
  asked.insert(asked.end(), {0, ~std::uint64_t{0}});
  for (const auto* some : {&even, &crowded, &hashes}) finds(*some, asked);
  finds({0, ~std::uint64_t{0}}, asked);
  std::vector<std::int64_t> few(1);
  CHECK_THROWS(KeyIndex(even).find(asked, few, 1), InputError);
  CHECK_THROWS(KeyIndex(std::vector<std::uint64_t>{2, 2}), InputError);
}

}  // namespace

int main() {
  holds_each_name_once(1 << 26);
  holds_each_name_once(1 << 16);
  holds_each_name_once(0);
  survives_crowded_keys();
  refuses();
  finds_keys();
  return 0;
}
