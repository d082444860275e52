#include <algorithm>
#include <numeric>
#include <vector>

#include "base/varint.hpp"
#include "sampling/keys.hpp"
#include "sampling/owners/row_sample.hpp"
#include "sampling/picking/pick.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

template <typename Id>
struct World {
  std::vector<std::int64_t> indptr{0};
  std::vector<Id> indices;
  std::vector<float> weight;
  std::vector<std::int64_t> starts;
  BlockRows<Id> block(std::size_t o, bool weighted) const {
    const auto first = static_cast<std::size_t>(starts[o]),
               last = static_cast<std::size_t>(starts[o + 1]);
    const auto begin = static_cast<std::size_t>(indptr[first]);
    const auto count = static_cast<std::size_t>(indptr[last]) - begin;
    return {starts[o], std::span(indptr).subspan(first, last - first + 1),
            std::span(indices).subspan(begin, count),
            weighted ? std::span(weight).subspan(begin, count) : std::span<const float>{}};
  }
};

// Row v has v * 7 % 23 entries, the last row 300; sources ascend with repeats.
template <typename Id>
World<Id> make_world(std::int64_t nodes) {
  World<Id> world;
  for (std::int64_t v = 0; v < nodes; ++v) {
    const std::int64_t degree = v + 1 == nodes ? 300 : v * 7 % 23;
    for (std::int64_t j = 0; j < degree; ++j) {
      world.indices.push_back(static_cast<Id>(j * (nodes - 1) / std::max<std::int64_t>(degree, 1)));
      world.weight.push_back(static_cast<float>(v) + static_cast<float>(j) / 1000);
    }
    world.indptr.push_back(static_cast<std::int64_t>(world.indices.size()));
  }
  world.starts = {0, nodes / 3, nodes / 3, 2 * nodes / 3, nodes};  // one block is empty
  return world;
}

// Requests, replies and what is filled from them bring the picks that each row has by itself.
template <typename Id>
void check_exchange(const RowRule& rule, bool weighted, int threads) {
  const std::int64_t nodes = 90;
  const World<Id> world = make_world<Id>(nodes);
  std::vector<Id> rows;
  std::vector<std::int64_t> ptr{0};
  std::vector<std::uint64_t> keys;
  for (std::uint64_t b = 0; b < 5; ++b) {  // batch 3 is empty; rows are not sorted
    for (std::int64_t i = 0; i < (b == 3 ? 0 : 40); ++i) {
      rows.push_back(static_cast<Id>((i * 37 + static_cast<std::int64_t>(b) * 11) % nodes));
    }
    ptr.push_back(static_cast<std::int64_t>(rows.size()));
    keys.push_back(mix64(b + 1));
  }
  const std::int64_t own = 2;
  RowInquiry<Id> inquiry(rows, ptr, world.starts, keys, rule, own);
  std::vector<std::vector<std::uint8_t>> replies;
  std::vector<std::span<const std::uint8_t>> views;
  for (std::int64_t o = 0; o < inquiry.owners(); ++o) {
    const auto request = inquiry.request(o);
    CHECK(request.empty() == (o == own || o == 1));
    replies.push_back(answer_rows(world.block(static_cast<std::size_t>(o), weighted), rule,
                                  std::span<const std::uint8_t>(request)));
  }
  for (const auto& reply : replies) views.emplace_back(reply);
  std::vector<std::int64_t> ends(rows.size() + 1);
  const auto mine = world.block(own, weighted);
  inquiry.accept(views, mine, weighted, ends, threads);
  const auto count = static_cast<std::size_t>(ends.back());
  std::vector<Id> columns(count);
  std::vector<std::int64_t> edge(count);
  std::vector<float> weight(weighted ? count : 0);
  inquiry.fill(mine, ends, columns, edge, weight, threads);
  PickScratch scratch;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto v = static_cast<std::size_t>(rows[r]);
    const auto b =
        static_cast<std::size_t>(std::upper_bound(ptr.begin(), ptr.end(), r) - ptr.begin() - 1);
    const auto degree = static_cast<std::uint32_t>(world.indptr[v + 1] - world.indptr[v]);
    std::vector<std::uint32_t> picks(degree);
    std::iota(picks.begin(), picks.end(), 0u);
    if (rule.fanout >= 0 && degree > 0 && (rule.replace || degree > rule.fanout)) {
      picks.resize(static_cast<std::size_t>(rule.fanout));
      const auto n = static_cast<std::uint32_t>(rule.fanout);
      if (rule.replace) {
        pick_any(vertex_key(keys[b], v), degree, n, picks.data());
      } else {
        pick_distinct(vertex_key(keys[b], v), degree, n, picks.data(), scratch);
      }
    }
    CHECK(ends[r + 1] - ends[r] == static_cast<std::int64_t>(picks.size()));
    for (std::size_t i = 0; i < picks.size(); ++i) {
      const auto at = static_cast<std::size_t>(ends[r]) + i;
      CHECK(edge[at] == world.indptr[v] + picks[i]);
      CHECK(columns[at] == world.indices[static_cast<std::size_t>(edge[at])]);
      if (weighted) CHECK(weight[at] == world.weight[static_cast<std::size_t>(edge[at])]);
    }
  }
}

// Whatever bytes come, the answer is a reply or an InputError.
void check_hostile() {
  const World<std::uint32_t> world = make_world<std::uint32_t>(90);
  const std::uint64_t key = 7;
  const std::vector<std::uint32_t> rows{1, 5, 9, 61};
  const std::vector<std::int64_t> ptr{0, 4};
  const RowRule rule{3, false};
  RowInquiry<std::uint32_t> inquiry(rows, ptr, world.starts, std::span(&key, 1), rule, 2);
  const auto request = inquiry.request(0);
  const auto block = world.block(0, false);
  const auto reply = answer_rows(block, rule, std::span<const std::uint8_t>(request));
  int refused = 0;
  for (std::size_t i = 0; i < request.size(); ++i) {
    for (int byte : {0, 1, 127, 128, 255}) {
      auto bad = request;
      bad[i] = static_cast<std::uint8_t>(byte);
      try {
        answer_rows(block, rule, std::span<const std::uint8_t>(bad));
      } catch (const InputError&) {
        ++refused;
      }
      try {
        answer_rows(block, rule, std::span<const std::uint8_t>(request).first(i));
      } catch (const InputError&) {
        ++refused;
      }
    }
  }
  for (std::size_t i = 0; i < reply.size(); ++i) {
    for (int byte : {0, 1, 127, 128, 255}) {
      auto bad = reply;
      bad[i] = static_cast<std::uint8_t>(byte);
      const std::vector<std::span<const std::uint8_t>> views{bad, {}, {}, {}};
      std::vector<std::int64_t> ends(rows.size() + 1);
      try {
        RowInquiry<std::uint32_t> again(std::span<const std::uint32_t>(rows).first(3),
                                        std::vector<std::int64_t>{0, 3}, world.starts,
                                        std::span(&key, 1), rule, 2);
        const auto mine = world.block(2, false);
        again.accept(views, mine, false, std::span(ends).first(4), 1);
        std::vector<std::uint32_t> columns(static_cast<std::size_t>(ends[3]));
        std::vector<std::int64_t> edge(columns.size());
        again.fill(mine, std::span(ends).first(4), columns, edge, {}, 1);
      } catch (const InputError&) {
        ++refused;
      }
    }
  }
  CHECK(refused > 50);
}

void check_varint() {
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint64_t> numbers{0, 1, 127, 128, 16383, 16384, ~std::uint64_t{0}};
  for (std::uint64_t n : numbers) put_varint(bytes, n);
  VarintReader in(bytes);
  for (std::uint64_t n : numbers) CHECK(in.number() == n);
  CHECK(in.left() == 0);
  bool refused = false;
  const std::vector<std::uint8_t> endless(11, 0xFF);
  try {
    VarintReader(endless).number();
  } catch (const InputError&) {
    refused = true;
  }
  CHECK(refused);
}

}  // namespace

int main() {
  check_varint();
  for (int threads : {1, 3}) {
    for (bool replace : {false, true}) {
      for (std::int64_t fanout : {1, 5, 40}) {
        check_exchange<std::uint32_t>({fanout, replace}, false, threads);
        check_exchange<std::int64_t>({fanout, replace}, false, threads);
      }
    }
    check_exchange<std::uint32_t>({-1, false}, false, threads);
    check_exchange<std::uint32_t>({-1, false}, true, threads);
    check_exchange<std::int64_t>({-1, true}, true, threads);
  }
  check_hostile();
  return 0;
}
