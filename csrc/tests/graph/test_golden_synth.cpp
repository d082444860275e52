#include <vector>

#include "graph/synthetic/synth.hpp"
#include "io/checksums/crc32c.hpp"
#include "tests/golden.hpp"

using namespace foregather;

namespace {

void synthetic() {
  SynthOptions options;
  options.nodes = 3001;
  options.edges = 40'000;
  options.communities = 7;
  options.classes = 5;
  options.width = 33;
  options.label_noise = 0.25;
  options.train = 0.5;
  options.valid = 0.25;
  const Synth synth(options);
  std::vector<std::int64_t> indptr(3002, 0);
  synth.degrees(0, std::span(indptr).subspan(1), 2);
  for (std::size_t v = 1; v < indptr.size(); ++v) indptr[v] += indptr[v - 1];
  std::vector<std::uint32_t> indices(40'000);
  synth.rows(0, std::span<const std::int64_t>(indptr), std::span(indices), 2);
  Digest edges;
  edges.add(indptr);
  edges.add(indices);
  expect("synthetic edges", edges, 0x65023db2075d780b);
  std::vector<float> wide(3001 * 33);
  std::vector<std::uint16_t> half(wide.size());
  std::vector<std::int8_t> narrow(wide.size());
  synth.features(0, std::span(wide), 2);
  synth.features(0, std::span(half), 2);
  synth.features(0, std::span(narrow), 2);
  Digest features;
  features.add(wide);
  features.add(half);
  features.add(narrow);
  features.add(synth.scale().data(), 33);
  expect("synthetic features", features, 0x4c7c4fb2f2a3307a);
  std::vector<std::int16_t> labels(3001);
  std::vector<std::uint8_t> roles(3001);
  synth.labels(0, std::span(labels), 2);
  synth.roles(0, std::span(roles), 2);
  Digest targets;
  targets.add(labels);
  targets.add(roles);
  expect("synthetic labels and splits", targets, 0xd20e748e383beda0);
  for (const Crc32cWay& way : crc32c_ways()) {  // the instruction of this processor, and the table
    const auto bytes = std::as_bytes(std::span(wide));
    Digest sum;
    const std::uint32_t value = ~way.run(~std::uint32_t{0}, bytes.data(), bytes.size());
    sum.add(&value, 1);
    expect(std::string("crc32c by ") + way.name, sum, 0x81d9b0de6f36237b);
  }
}

}  // namespace

int main() {
  synthetic();
  return failures;
}
