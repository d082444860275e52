// Synth: a synthetic graph as a pure function, so it needs no table, no sort and no edge list.
//
// Every degree, neighbour, feature and label is computed from (seed, vertex, slot) alone, in any
// order and by any thread; rows come out in CSC order, target by target. Only integers and the IEEE
// operations + - * / sqrt decide anything (never pow, exp or log, which differ between math
// libraries), so the same options give the same bytes on every machine.
//
// Vertices. Vertex i lies in one of K communities of equal size (the first N % K have one more):
// community c holds consecutive vertices, vertex i is number r in it, and g = r * K + c is its rank
// in the whole graph. Ranks are dealt to communities like cards, so every community has its hubs.
// What the caller sees is an id: i itself ("natural"), or a keyed permutation of it ("shuffled").
// The graph is the same either way.
//
// Weights. With skew m in {1, 2, 4, 8}, the weight of all ranks below x is
//     F(x) = (x + x0)^(1/m) - x0^(1/m)
// which takes log2(m) square roots; drawing a rank by weight is F backwards, an m-th power, which
// takes log2(m) multiplications. Weights fall like rank^-((m-1)/m), so degrees follow a power law
// with exponent 1 + m/(m-1): none, 3, 2.33 and 2.14. The offset x0 keeps the first ranks from
// swallowing everything.
//
// Neighbours. A share `mixing` of the sources of a target is drawn by weight from the whole graph,
// the rest by weight from its community. A row holds distinct sources, never the target itself,
// ascending by id: duplicates are drawn again for a bounded number of rounds, then uniformly, then
// by walking the ranks, so a row of N - 1 sources ends too. Large rows draw at most about half of
// their community.
//
// Degrees. The in-degree of v follows the same mixture of weights as the chance of being drawn, so
// in- and out-degree agree. Taken in order of g, the sum of expected degrees before g is a closed
// form S(g) (for the community part: all ranks before r, K times, plus c times rank r), and
//     degree = floor(S(g + 1)) - floor(S(g)).
// These telescope to exactly E. They are never negative because every operation in S is monotone
// under correct rounding. Degrees above N - 1 are capped, which only tiny or dense graphs meet.
//
// Learning. All vertices of a community have one class; a share `label_noise` of the labels is then
// replaced by a uniform class. Features are centroid[class] + noise of unit variance, with centroid
// norms near `signal` for any width. One row says little (an MLP is weak), the mean over
// neighbours, who mostly share the class, says much (a GNN is strong).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/divisor.hpp"
#include "base/permutation.hpp"
#include "base/types.hpp"

namespace foregather {

struct SynthOptions {
  std::int64_t nodes = 0;        ///< N >= 1
  std::int64_t edges = 0;        ///< E, 0 <= E <= N * (N - 1)
  std::int64_t communities = 1;  ///< K, 1 <= K <= N
  std::int64_t classes = 1;      ///< 1 <= classes <= K, fits int32
  std::int64_t width = 0;        ///< feature columns, 0 for none
  int skew = 4;                  ///< m: 1, 2, 4 or 8
  double mixing = 0.5;           ///< share of sources drawn from the whole graph
  double label_noise = 0.0;      ///< share of labels replaced by a uniform class
  double signal = 1.0;           ///< norm of a class centroid; the noise has unit variance
  double train = 0.0;            ///< shares of the splits; their sum is at most 1
  double valid = 0.0;
  double test = 0.0;
  bool shuffled = true;  ///< ids are a keyed permutation of the vertices
  std::uint64_t seed = 0;
};

/// The split of a vertex, as `roles` writes it.
enum class Role : std::uint8_t { train = 0, valid = 1, test = 2, none = 3 };

/// All functions are const and may be called from many threads; `begin` and ids are external.
class Synth {
 public:
  /// Throws InputError where an option is out of its range.
  explicit Synth(const SynthOptions& options);

  /// Edges that `degrees` adds up to: E less what capping at N - 1 took.
  std::int64_t edges() const { return edges_; }

  /// In-degrees of ids [begin, begin + out.size()).
  void degrees(std::int64_t begin, std::span<std::int64_t> out, int threads) const;

  /// Rows of ids [begin, begin + offsets.size() - 1): row k goes to out[offsets[k] - offsets[0]
  /// ...], and has offsets[k + 1] - offsets[k] sources, which must be its degree.
  template <typename Id>
  void rows(std::int64_t begin, std::span<const std::int64_t> offsets, std::span<Id> out,
            int threads) const;

  /// Features of ids [begin, begin + out.size() / width), row-major. Elements are float, binary16
  /// bits, or int8 q with value q * scale()[column].
  template <typename Element>
  void features(std::int64_t begin, std::span<Element> out, int threads) const;

  /// Scale of each int8 column: its largest possible magnitude / 127.
  std::span<const float> scale() const { return scale_; }

  /// Labels of ids [begin, begin + out.size()), in [0, classes).
  template <typename Label>
  void labels(std::int64_t begin, std::span<Label> out, int threads) const;

  /// Community of each of ids [begin, begin + out.size()): the truth behind the labels.
  void communities(std::int64_t begin, std::span<std::int64_t> out, int threads) const;

  /// Splits (a Role each) of ids [begin, begin + out.size()).
  void roles(std::int64_t begin, std::span<std::uint8_t> out, int threads) const;

  /// Vertex of an id, and back; throws InputError outside the graph.
  std::int64_t vertex(std::int64_t id) const;
  std::int64_t id(std::int64_t vertex) const;

 private:
  // A power law over ranks [0, extent) with offset: F(x) = root(x + offset) - low.
  struct Law {
    double offset = 0, low = 0, span = 0;
    double extent = 0;
  };
  struct Place {
    std::uint64_t community, number;
  };
  template <typename Id>
  struct Scratch;

  double root(double x) const;
  Law law(double offset, std::uint64_t extent) const;
  Place place(std::uint64_t vertex) const;
  std::uint64_t ranked(std::uint64_t rank) const;  ///< the vertex of a rank
  std::uint64_t first_edge(std::uint64_t rank) const;
  std::int64_t degree(std::uint64_t vertex) const;
  std::int64_t class_of(std::uint64_t vertex) const;
  void check_range(std::int64_t begin, std::size_t count) const;
  void make_centroids();
  template <typename Value, typename Of>
  void each(std::int64_t begin, std::span<Value> out, int threads, const Of& of) const;
  std::uint64_t own_vertex(std::int64_t id) const {
    const auto from = static_cast<std::uint64_t>(id);
    return options_.shuffled ? ids_.inverse(from) : from;
  }
  std::uint64_t own_id(std::uint64_t vertex) const {
    return options_.shuffled ? ids_.forward(vertex) : vertex;
  }
  template <typename Id>
  std::uint64_t draw_ranks(std::uint64_t vertex, std::size_t degree, std::uint64_t slot,
                           std::span<Id> into) const;
  template <typename Id>
  void to_ids(std::span<Id> ranks) const;
  template <typename Id>
  void finish_row(std::uint64_t vertex, std::span<Id> out, Scratch<Id>& scratch) const;
  template <typename Id>
  void walk(std::uint64_t vertex, std::span<Id> out, std::size_t found, Scratch<Id>& scratch) const;

  SynthOptions options_;
  std::uint64_t nodes_, communities_;
  std::uint64_t size_, larger_;  ///< smallest community, and how many have one vertex more
  Divisor by_communities_, by_size_, by_larger_size_, by_classes_;
  int roots_ = 0;               ///< log2(skew)
  Law whole_;                   ///< over all ranks
  Law inside_[2];               ///< over a community of size_ and of size_ + 1
  double edges_inside_ = 0;     ///< expected edges per unit of F, inside communities
  double edges_whole_ = 0;      ///< and in the whole graph
  std::uint32_t inside_share_;  ///< share of sources drawn inside, times 2^16
  std::int64_t edges_ = 0;
  std::uint64_t row_key_, label_key_, feature_key_, split_key_;
  Permutation ids_;      ///< vertex -> id
  Permutation classes_;  ///< community -> a number whose remainder is the class
  std::vector<float> centroids_;
  std::vector<float> scale_;
};

}  // namespace foregather
