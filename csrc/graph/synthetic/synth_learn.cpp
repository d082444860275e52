// What a model learns from a synthetic graph: features, labels and splits.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/half.hpp"
#include "graph/synthetic/synth_parts.hpp"

namespace foregather {
namespace {

// The sum of the four 16-bit parts of a draw, minus its mean: nearly normal (Irwin-Hall), in
// [-131070, 131070] with variance (2^32 - 1) / 3.
constexpr std::int32_t bell(std::uint64_t bits) {
  constexpr std::uint64_t kEven = 0x0000FFFF0000FFFFull;
  const std::uint64_t pairs = (bits & kEven) + ((bits >> 16) & kEven);
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(pairs) +
                                   static_cast<std::uint32_t>(pairs >> 32)) -
         131070;
}
constexpr float kUnit = 1.0f / 37837.2266f;    // 1 / sqrt((2^32 - 1) / 3)
constexpr float kLargest = 131070.0f * kUnit;  // about 3.46

// Nearest integer, half to even, for |x| < 2^22: adding 1.5 * 2^23 leaves no room for a fraction.
constexpr std::int32_t nearest(float x) {
  return std::bit_cast<std::int32_t>(x + 12582912.0f) - std::bit_cast<std::int32_t>(12582912.0f);
}

float encode(float value, float, float*) { return value; }
std::uint16_t encode(float value, float, std::uint16_t*) { return to_half(value); }
std::int8_t encode(float value, float inverse, std::int8_t*) {
  return static_cast<std::int8_t>(nearest(value * inverse));  // the scale keeps it within +-127
}

constexpr std::size_t kStrip = 64;  // columns drawn at a time, on the stack

// One row of features. Drawing and encoding are apart because the first loop is scalar (64-bit
// products) and the second vectorises.
template <typename Element>
void fill(std::uint64_t key, const float* centroid, const float* inverse, std::span<Element> row) {
  std::uint64_t bits[kStrip];
  for (std::size_t at = 0; at < row.size(); at += kStrip) {
    const std::size_t count = std::min(kStrip, row.size() - at);
    for (std::size_t j = 0; j < count; ++j) bits[j] = draw(key, at + j);
    for (std::size_t j = 0; j < count; ++j) {
      const float value = centroid[at + j] + static_cast<float>(bell(bits[j])) * kUnit;
      row[at + j] = encode(value, inverse[at + j], static_cast<Element*>(nullptr));
    }
  }
}

// A draw is below the limit with this chance, to 2^-53.
std::uint64_t limit(double chance) {
  return static_cast<std::uint64_t>(std::min(chance, 1.0) * 0x1.0p53);
}

}  // namespace

void Synth::make_centroids() {
  if (options_.width == 0) return;
  const auto width = static_cast<std::size_t>(options_.width);
  const auto classes = static_cast<std::size_t>(options_.classes);
  centroids_.resize(classes * width);
  scale_.assign(width, 0.0f);
  const std::uint64_t key = synth_key(options_.seed, Purpose::centroid);
  // Entries shrink with the width so that the norm, and with it what can be learnt, does not grow.
  const auto unit = static_cast<float>(options_.signal / std::sqrt(static_cast<double>(width)));
  for (std::size_t c = 0; c < classes; ++c) {
    const std::uint64_t class_key = derive(key, c);
    for (std::size_t j = 0; j < width; ++j) {
      const float entry = static_cast<float>(bell(draw(class_key, j))) * kUnit * unit;
      centroids_[c * width + j] = entry;
      scale_[j] = std::max(scale_[j], std::abs(entry));
    }
  }
  for (float& scale : scale_) scale = (scale + kLargest) / 127.0f;
}

std::int64_t Synth::class_of(std::uint64_t vertex) const {
  // Dealing permuted communities to classes in turn gives every class its share of them.
  const std::uint64_t dealt = classes_.forward(place(vertex).community);
  return static_cast<std::int64_t>(dealt - by_classes_.quotient(dealt) * by_classes_.value());
}

template <typename Element>
void Synth::features(std::int64_t begin, std::span<Element> out, int threads) const {
  const auto width = static_cast<std::size_t>(options_.width);
  if (width == 0 || out.size() % width != 0) {
    throw InputError("the output must hold whole rows of the feature width");
  }
  const std::size_t count = out.size() / width;
  check_range(begin, count);
  std::vector<float> inverse(width);
  for (std::size_t j = 0; j < width; ++j) inverse[j] = 1.0f / scale_[j];
  constexpr std::int64_t kGrain = 256;
  parallel_for(static_cast<std::int64_t>(count), threads, kGrain,
               [&](std::int64_t from, std::int64_t to, int) {
                 for (std::int64_t k = from; k < to; ++k) {
                   const auto v = own_vertex(begin + k);
                   const std::size_t centroid = static_cast<std::size_t>(class_of(v)) * width;
                   fill(derive(feature_key_, v), centroids_.data() + centroid, inverse.data(),
                        out.subspan(static_cast<std::size_t>(k) * width, width));
                 }
               });
}

template <typename Label>
void Synth::labels(std::int64_t begin, std::span<Label> out, int threads) const {
  if (static_cast<std::int64_t>(static_cast<Label>(options_.classes - 1)) != options_.classes - 1) {
    throw InputError("the label type is too narrow for the number of classes");
  }
  const std::uint64_t noisy = limit(options_.label_noise);
  const auto classes = static_cast<std::uint32_t>(options_.classes);
  each(begin, out, threads, [&](std::uint64_t v) -> std::int64_t {
    const std::uint64_t key = derive(label_key_, v);
    return (draw(key, 0) >> 11) < noisy ? bounded(key, 1, classes) : class_of(v);
  });
}

void Synth::roles(std::int64_t begin, std::span<std::uint8_t> out, int threads) const {
  const std::uint64_t train = limit(options_.train);
  const std::uint64_t valid = train + limit(options_.valid);
  const std::uint64_t test = valid + limit(options_.test);
  each(begin, out, threads, [&](std::uint64_t v) {
    const std::uint64_t at = draw(split_key_, v) >> 11;
    return (at >= train) + (at >= valid) + (at >= test);
  });
}

template void Synth::features<float>(std::int64_t, std::span<float>, int) const;
template void Synth::features<std::uint16_t>(std::int64_t, std::span<std::uint16_t>, int) const;
template void Synth::features<std::int8_t>(std::int64_t, std::span<std::int8_t>, int) const;
template void Synth::labels<std::int16_t>(std::int64_t, std::span<std::int16_t>, int) const;
template void Synth::labels<std::int32_t>(std::int64_t, std::span<std::int32_t>, int) const;

}  // namespace foregather
