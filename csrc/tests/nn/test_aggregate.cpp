#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "base/types.hpp"
#include "nn/edge_dots.hpp"
#include "nn/edge_lists.hpp"
#include "nn/edge_softmax.hpp"
#include "nn/max_lists.hpp"
#include "nn/processor.hpp"
#include "nn/sum_lists.hpp"
#include "tests/check.hpp"

using namespace foregather;
using namespace foregather::nn;

namespace {

struct Edges {
  std::int64_t sources, targets;
  std::vector<std::int64_t> from, to;
};

// Target t has t % most edges from drawn sources; the last one has `hub` more.
Edges make_edges(std::int64_t sources, std::int64_t targets, std::int64_t most, std::int64_t hub) {
  Edges edges{sources, targets, {}, {}};
  for (std::int64_t t = 0; t < targets; ++t) {
    const std::int64_t count = t % most + (t + 1 == targets ? hub : 0);
    for (std::int64_t j = 0; j < count; ++j) {
      const auto range = static_cast<std::uint32_t>(sources);
      edges.from.push_back(bounded(7, edges.from.size(), range));
      edges.to.push_back(t);
    }
  }
  return edges;
}

template <typename Index>
struct Both {
  std::vector<std::int64_t> indptr, ptr;
  std::vector<Index> source, edge, target;

  Both(const Edges& edges, int threads)
      : indptr(static_cast<std::size_t>(edges.targets) + 1),
        ptr(static_cast<std::size_t>(edges.sources) + 1),
        source(edges.from.size()),
        edge(source.size()),
        target(source.size()) {
    lists_by_target<Index>(edges.from, edges.to, edges.sources, indptr, source, threads);
    lists_by_source<Index>(indptr, source, ptr, edge, target, threads);
  }
  Lists<Index> by_target(std::int64_t sources) const {
    return {indptr.data(), static_cast<std::int64_t>(indptr.size()) - 1, source.data(), nullptr,
            sources};
  }
  Lists<Index> by_source(std::int64_t limit) const {
    return {ptr.data(), static_cast<std::int64_t>(ptr.size()) - 1, target.data(), edge.data(),
            limit};
  }
};

template <typename Index>
void test_lists() {
  const Edges edges = make_edges(5000, 20000, 17, 4000);
  const Both<Index> one(edges, 1), many(edges, 4);
  CHECK(one.indptr == many.indptr && one.ptr == many.ptr && one.edge == many.edge);
  CHECK(one.source == many.source && one.target == many.target);
  std::vector<std::int64_t> seen(edges.from.size(), 0);
  for (std::int64_t s = 0; s < edges.sources; ++s) {
    const auto row = static_cast<std::size_t>(s);
    for (auto k = static_cast<std::size_t>(one.ptr[row]);
         k < static_cast<std::size_t>(one.ptr[row + 1]); ++k) {
      const auto edge = static_cast<std::size_t>(one.edge[k]);
      CHECK(edges.from[edge] == s && edges.to[edge] == one.target[k]);
      CHECK(k == static_cast<std::size_t>(one.ptr[row]) || one.edge[k - 1] < one.edge[k]);
      ++seen[edge];
    }
  }
  for (const std::int64_t times : seen) CHECK(times == 1);

  Edges wrong = edges;
  wrong.to[70000] = 0;
  wrong.from[150000] = 5000;
  for (int threads : {1, 3}) {
    try {
      Both<Index> lists(wrong, threads);
      CHECK(false);
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find("edge 70000 ") == 0);
    }
  }
  const Edges none{0, 0, {}, {}};
  CHECK((Both<Index>(none, 2).indptr == std::vector<std::int64_t>{0}));
  const Edges empty{3, 2, {}, {}};
  CHECK((Both<Index>(empty, 2).indptr == std::vector<std::int64_t>{0, 0, 0}));
}

template <typename T>
std::vector<T> numbers(std::size_t count, std::uint64_t key) {
  std::vector<T> made(count);
  for (std::size_t k = 0; k < count; ++k) {
    const auto value = static_cast<Sum<T>>(static_cast<double>(bounded(key, k, 2001)) / 256 - 4);
    narrow(value, made[k]);
  }
  return made;
}

template <typename T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// Everything that can be computed of one graph.
template <typename T, typename Index>
std::vector<std::vector<T>> all(const Edges& edges, std::int64_t heads, std::int64_t width,
                                int threads) {
  const Both<Index> lists(edges, threads);
  const auto values = static_cast<std::size_t>(heads * width);
  const auto x = numbers<T>(static_cast<std::size_t>(edges.sources) * values, 1);
  const auto grad = numbers<T>(static_cast<std::size_t>(edges.targets) * values, 2);
  const std::size_t entries = edges.from.size() * static_cast<std::size_t>(heads);
  const auto weight = numbers<Sum<T>>(entries, 3);
  std::vector<T> sums(grad.size()), means(grad.size()), most(grad.size()), to_x(x.size()),
      to_winners(x.size()), dots(entries), soft(entries), to_logits(entries);
  std::vector<Sum<T>> products(entries);
  std::vector<std::int32_t> winner(grad.size());
  const Heads<const T> rows{x.data(), heads, width}, grads{grad.data(), heads, width};
  const auto by_target = lists.by_target(edges.sources);
  const auto by_source = lists.by_source(edges.targets / 2);
  sum_lists<T, Index>(by_target, rows, {weight.data(), nullptr}, false, sums.data(), threads);
  sum_lists<T, Index>(by_target, rows, {nullptr, nullptr}, true, means.data(), threads);
  sum_lists<T, Index>(by_source, grads, {weight.data(), lists.indptr.data()}, false, to_x.data(),
                      threads);
  edge_dots<T, Index>(by_target, rows, grad.data(), true, nullptr, products.data(), threads);
  for (std::size_t k = 0; k < entries; ++k) narrow(products[k], dots[k]);
  // A maximum has no heads: it is over all columns, with the first weights.
  const Heads<const T> flat{x.data(), 1, heads * width}, flat_grads{grad.data(), 1, heads * width};
  max_lists<T, Index>(by_target, flat, weight.data(), most.data(), winner.data(), threads);
  max_lists_gradient<T, Index>(by_source, flat_grads, winner.data(), lists.indptr.data(),
                               weight.data(), to_winners.data(), threads);
  const auto logits = numbers<T>(entries, 4);
  edge_softmax<T>(lists.indptr.data(), edges.targets, heads, logits.data(), soft.data(), threads);
  edge_softmax_gradient<T>(lists.indptr.data(), edges.targets, heads, soft.data(), logits.data(),
                           to_logits.data(), threads);
  return {sums, means, to_x, dots, most, to_winners, soft, to_logits};
}

// The sums once more, by a loop; the rest is compared with loops in Python.
template <typename T>
void check_sums(const Edges& edges, std::int64_t heads, std::int64_t width,
                const std::vector<std::vector<T>>& found) {
  const std::int64_t values = heads * width;
  const auto x = numbers<T>(static_cast<std::size_t>(edges.sources * values), 1);
  const auto weight = numbers<Sum<T>>(edges.from.size() * static_cast<std::size_t>(heads), 3);
  std::vector<Sum<T>> sums(static_cast<std::size_t>(edges.targets * values));
  for (std::size_t k = 0; k < edges.from.size(); ++k) {
    for (std::int64_t j = 0; j < values; ++j) {
      sums[static_cast<std::size_t>(edges.to[k] * values + j)] +=
          widen(x[static_cast<std::size_t>(edges.from[k] * values + j)]) *
          weight[k * static_cast<std::size_t>(heads) + static_cast<std::size_t>(j / width)];
    }
  }
  std::vector<T> stored(sums.size());
  for (std::size_t k = 0; k < sums.size(); ++k) narrow(sums[k], stored[k]);
  CHECK(same(stored, found[0]));
}

template <typename T, typename Index>
void test_kernels() {
  for (const auto& [heads, width] : {std::pair{1, 1}, {1, 7}, {1, 8}, {1, 77}, {3, 13}, {4, 8}}) {
    const Edges edges = make_edges(600, 900, 13, 700);
    const auto one = all<T, Index>(edges, heads, width, 1);
    check_sums<T>(edges, heads, width, one);
    const auto many = all<T, Index>(edges, heads, width, 4);
    for (std::size_t k = 0; k < one.size(); ++k) CHECK(same(one[k], many[k]));
    avx2_allowed() = false;
    const auto any = all<T, Index>(edges, heads, width, 2);
    avx2_allowed() = true;
    for (std::size_t k = 0; k < one.size(); ++k) CHECK(same(one[k], any[k]));
  }
  const Edges none{0, 0, {}, {}};
  CHECK((all<T, Index>(none, 1, 8, 2)[0].empty()));
  const Edges bare{4, 3, {}, {}};
  const auto zeros = all<T, Index>(bare, 1, 9, 2);
  for (const T& value : zeros[0]) CHECK(widen(value) == 0);
}

void test_half_numbers() {
  Float16 half;
  for (std::uint32_t bits = 0; bits < 1u << 16; ++bits) {
    const Float16 given{static_cast<std::uint16_t>(bits)};
    const float value = widen(given);
    narrow(value, half);
    if (value != value) {
      CHECK(widen(half) != widen(half));
    } else {
      CHECK(half.bits == bits);
    }
    const Float16 eight[kLanes] = {given, given, given, given, given, given, given, given};
    detail::Floats lanes;
    load(eight, lanes);
    CHECK(std::bit_cast<std::uint32_t>(static_cast<float>(lanes[5])) ==
          std::bit_cast<std::uint32_t>(value));
  }
  narrow(65519.9f, half);
  CHECK(half.bits == 0x7BFF);
  narrow(65520.0f, half);
  CHECK(half.bits == 0x7C00);
  narrow(-1e30f, half);
  CHECK(half.bits == 0xFC00);
  Bfloat16 brain;
  narrow(1.0f + 0x1p-8f, brain);  // half way: to even
  CHECK(brain.bits == 0x3F80);
  narrow(1.0f + 0x3p-8f, brain);
  CHECK(brain.bits == 0x3F82);
  narrow(3.4e38f, brain);
  CHECK(brain.bits == 0x7F80);
  narrow(std::nanf(""), brain);
  CHECK(widen(brain) != widen(brain));
}

// Every number of sixteen bits, times factors that round, overflow and underflow: with the
// processor's conversions and without, the bits of the conversion of one number.
template <typename T>
void test_conversions() {
  constexpr std::int64_t kRows = (1 << 16) / kLanes;
  std::vector<T> x(1 << 16), expected(x.size()), found(x.size());
  for (std::size_t k = 0; k < x.size(); ++k) x[k].bits = static_cast<std::uint16_t>(k);
  std::vector<std::int64_t> ptr{0};
  std::vector<std::int32_t> index;
  for (std::int32_t row = 0; row < kRows; ++row) {
    index.push_back(row);
    ptr.push_back(row + 1);
  }
  const Lists<std::int32_t> lists{ptr.data(), kRows, index.data(), nullptr, kRows};
  for (const float factor :
       {1.0f, 1.00048828125f, -0.333f, 1.9f, 0x1p-12f, 0x1.8p-20f, 1e20f, -3e38f}) {
    const std::vector<float> weight(kRows, factor);
    for (std::size_t k = 0; k < x.size(); ++k) narrow(0.0f + widen(x[k]) * factor, expected[k]);
    for (const bool allowed : {false, true}) {
      avx2_allowed() = allowed;
      sum_lists<T, std::int32_t>(lists, {x.data(), 1, kLanes}, {weight.data(), nullptr}, false,
                                 found.data(), 1);
      CHECK(same(found, expected));
    }
  }
  avx2_allowed() = true;
}

}  // namespace

int main() {
  test_half_numbers();
  test_conversions<Float16>();
  test_conversions<Bfloat16>();
  test_lists<std::int32_t>();
  test_lists<std::int64_t>();
  test_kernels<float, std::int32_t>();
  test_kernels<float, std::int64_t>();
  test_kernels<double, std::int32_t>();
  test_kernels<Bfloat16, std::int32_t>();
  test_kernels<Float16, std::int64_t>();
  return 0;
}
