#include "foregather/sample.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "foregather/keys.hpp"
#include "foregather/pool.hpp"

namespace foregather {
namespace {

constexpr std::int64_t kAhead = 24;  // rows ahead whose indptr is asked for
constexpr std::int64_t kBlock = 16;  // rows of a pipeline block

// A block of the pipeline: its edges are [first, last) of the layer.
struct Block {
  std::int64_t first = 0, last = 0;
};

}  // namespace

template <typename Id>
void NeighborWorker<Id>::next_tick(std::int64_t num_nodes) {
  const auto size = static_cast<std::size_t>(num_nodes);
  if (table_size_ < size) {
    table_.reserve(size);
    table_size_ = table_.capacity();
    std::memset(table_.data(), 0, table_size_ * sizeof(std::uint32_t));
    tick_ = 0;
  }
  if (++tick_ >> (32 - id_bits_)) {  // out of ticks: forget everything, begin again at 1
    std::memset(table_.data(), 0, table_size_ * sizeof(std::uint32_t));
    tick_ = 1;
  }
}

// Makes local ids up to `most` fit, by giving the ticks fewer bits.
template <typename Id>
void NeighborWorker<Id>::widen(std::int64_t most, const SampleArrays<Id>& out) {
  if (most < (std::int64_t{1} << id_bits_)) return;
  if (most >= std::int64_t{1} << 31) {
    throw InputError("a minibatch of more than 2^31 vertices and edges; lower the fan-outs");
  }
  while (most >= (std::int64_t{1} << id_bits_)) ++id_bits_;
  std::memset(table_.data(), 0, table_size_ * sizeof(std::uint32_t));
  tick_ = 1;
  for (std::int64_t i = 0; i < known_; ++i) {
    table_[static_cast<std::size_t>(out.node[static_cast<std::size_t>(i)])] =
        (tick_ << id_bits_) | static_cast<std::uint32_t>(i);
  }
}

template <typename Id>
void NeighborWorker<Id>::start(const Topology<Id>& graph, std::span<const std::int64_t> seeds,
                               SampleArrays<Id>& out) {
  const std::int64_t n = graph.num_nodes();
  next_tick(n);
  known_ = drawn_ = 0;
  out.node.reserve(seeds.size() + 1);
  out.num_nodes.clear();
  out.num_edges.clear();
  out.seed_position.clear();
  widen(static_cast<std::int64_t>(seeds.size()), out);
  const std::uint32_t mask = (std::uint32_t{1} << id_bits_) - 1;
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    if (seeds[i] < 0 || seeds[i] >= n) {
      throw InputError("seed " + std::to_string(i) + " is node " + std::to_string(seeds[i]) +
                       ", but the graph has " + std::to_string(n) + " nodes (ids are 0 to N-1)");
    }
    std::uint32_t& entry = table_[static_cast<std::size_t>(seeds[i])];
    const bool met = entry >> id_bits_ == tick_;
    if (met && out.seed_position.empty()) {  // the first repeat: all before were in order
      out.seed_position.resize(seeds.size());
      for (std::size_t before = 0; before < i; ++before) {
        out.seed_position[before] = static_cast<std::int64_t>(before);
      }
    }
    if (!met) {
      entry = (tick_ << id_bits_) | static_cast<std::uint32_t>(known_);
      out.node[static_cast<std::size_t>(known_++)] = static_cast<Id>(seeds[i]);
    }
    if (!out.seed_position.empty()) out.seed_position[i] = entry & mask;
  }
  out.num_nodes.push_back(known_);
}

// Reads where the rows of the frontier are; returns how many edges they give.
template <typename Id>
std::int64_t NeighborWorker<Id>::count_rows(const Topology<Id>& graph, const NeighborRule& rule,
                                            std::int64_t fanout, std::int64_t first,
                                            std::int64_t last, const SampleArrays<Id>& out) {
  const auto rows = static_cast<std::size_t>(last - first);
  start_.reserve(rows);
  degree_.reserve(rows);
  const std::int64_t* indptr = graph.indptr.data();
  const Id* node = out.node.data();
  std::int64_t total = 0;
  for (std::int64_t i = first; i < last; ++i) {
    if (i + kAhead < last) __builtin_prefetch(&indptr[node[i + kAhead]]);
    const std::int64_t begin = indptr[node[i]], degree = indptr[node[i] + 1] - begin;
    start_[static_cast<std::size_t>(i - first)] = begin;
    degree_[static_cast<std::size_t>(i - first)] = static_cast<std::uint32_t>(degree);
    const bool whole = fanout < 0 || (!rule.replace && degree <= fanout);
    total += whole ? degree : degree == 0 ? 0 : fanout;
  }
  return total;
}

template <typename Id>
void NeighborWorker<Id>::expand(const Topology<Id>& graph, const NeighborRule& rule,
                                std::int64_t fanout, std::uint64_t key, std::int64_t first,
                                SampleArrays<Id>& out) {
  const std::int64_t last = known_;
  const std::int64_t edges = count_rows(graph, rule, fanout, first, last, out);
  const auto total = static_cast<std::size_t>(drawn_ + edges);
  out.node.reserve(static_cast<std::size_t>(known_ + edges) + 1, static_cast<std::size_t>(known_));
  out.row.reserve(total, static_cast<std::size_t>(drawn_));
  out.col.reserve(total, static_cast<std::size_t>(drawn_));
  out.edge.reserve(total, static_cast<std::size_t>(drawn_));
  if (fanout > 0) picks_.reserve(static_cast<std::size_t>(fanout));
  widen(known_ + edges + 1, out);

  const Id* indices = graph.indices.data();
  Id* node = out.node.data();
  std::uint32_t* row = out.row.data();
  std::uint32_t* col = out.col.data();
  std::int64_t* edge = out.edge.data();
  std::uint32_t* table = table_.data();
  const std::uint32_t stamp = tick_ << id_bits_, mask = (std::uint32_t{1} << id_bits_) - 1;
  if constexpr (sizeof(Id) > 4) wide_.reserve(static_cast<std::size_t>(edges) + 1);

  std::int64_t at = drawn_;
  auto draw_block = [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) {
      const std::int64_t begin = start_[static_cast<std::size_t>(i - first)];
      const std::uint32_t degree = degree_[static_cast<std::size_t>(i - first)];
      const auto target = static_cast<std::uint32_t>(i);
      if (fanout < 0 || (!rule.replace && degree <= fanout)) {
        for (std::uint32_t p = 0; p < degree; ++p, ++at) {
          edge[at] = begin + p;
          col[at] = target;
        }
        constexpr std::uint32_t kLine = 64 / sizeof(Id);
        for (std::uint32_t p = 0; p < degree; p += kLine) __builtin_prefetch(&indices[begin + p]);
        continue;
      }
      if (degree == 0) continue;
      const std::uint64_t row_key = vertex_key(key, static_cast<std::uint64_t>(node[i]));
      const auto count = static_cast<std::uint32_t>(fanout);
      std::uint32_t* picks = picks_.data();
      if (rule.replace) {
        pick_any(row_key, degree, count, picks);
      } else {
        pick_distinct(row_key, degree, count, picks, scratch_);
      }
      for (std::uint32_t p = 0; p < count; ++p, ++at) {
        edge[at] = begin + picks[p];
        col[at] = target;
        __builtin_prefetch(&indices[begin + picks[p]]);
      }
    }
  };
  auto read_block = [&](Block block) {
    for (std::int64_t e = block.first; e < block.last; ++e) {
      const Id v = indices[edge[e]];
      __builtin_prefetch(&table[v], 1);
      if constexpr (sizeof(Id) > 4) {
        wide_[static_cast<std::size_t>(e - drawn_)] = v;
      } else {
        row[e] = v;
      }
    }
  };
  auto renumber_block = [&](Block block) {
    std::int64_t known = known_;
    for (std::int64_t e = block.first; e < block.last; ++e) {
      Id v;
      if constexpr (sizeof(Id) > 4) {
        v = wide_[static_cast<std::size_t>(e - drawn_)];
      } else {
        v = row[e];
      }
      // Without a branch: whether a vertex was met before is a coin flip no predictor learns.
      const std::uint32_t entry = table[v];
      const bool fresh = (entry & ~mask) != stamp;
      const std::uint32_t id = fresh ? static_cast<std::uint32_t>(known) : entry & mask;
      node[known] = v;  // stays only if fresh
      table[v] = stamp | id;
      row[e] = id;
      known += fresh;
    }
    known_ = known;
  };

  Block reading, renumbering;
  for (std::int64_t i = first; i < last; i += kBlock) {
    Block drawing{at, at};
    draw_block(i, std::min(i + kBlock, last));
    drawing.last = at;
    read_block(reading);
    renumber_block(renumbering);
    renumbering = reading;
    reading = drawing;
  }
  read_block(reading);
  renumber_block(renumbering);
  renumber_block(reading);
  drawn_ = at;
  out.num_nodes.push_back(known_);
  out.num_edges.push_back(edges);
}

template <typename Id>
void NeighborWorker<Id>::sample(const Topology<Id>& graph, const NeighborRule& rule,
                                std::span<const std::int64_t> seeds, std::uint64_t seed,
                                std::uint64_t epoch, std::uint64_t batch, SampleArrays<Id>& out) {
  start(graph, seeds, out);
  const std::uint64_t key = batch_key(seed, epoch, batch);
  std::int64_t first = 0;
  for (std::size_t layer = 0; layer < rule.fanouts.size(); ++layer) {
    const std::int64_t last = known_;
    expand(graph, rule, rule.fanouts[layer], layer_key(key, layer), first, out);
    if (rule.once) first = last;
  }
}

template <typename Id>
std::size_t NeighborWorker<Id>::bytes() const {
  return table_.bytes() + start_.bytes() + degree_.bytes() + picks_.bytes() + wide_.bytes() +
         scratch_.capacity() * sizeof(std::uint64_t);
}

template <typename Id>
void sample_neighbors(const Topology<Id>& graph, const NeighborRule& rule,
                      std::span<const std::int64_t> seeds, std::span<const std::int64_t> ptr,
                      std::uint64_t seed, std::uint64_t epoch, std::uint64_t first_batch,
                      int threads, std::span<NeighborWorker<Id>> workers,
                      std::span<SampleArrays<Id>* const> out) {
  if (ptr.size() != out.size() + 1 || ptr.front() != 0 ||
      ptr.back() != static_cast<std::int64_t>(seeds.size()) ||
      !std::is_sorted(ptr.begin(), ptr.end())) {
    throw InputError("ptr does not cut the seeds into minibatches");
  }
  parallel_tasks(static_cast<std::int64_t>(out.size()), threads, [&](std::int64_t i, int worker) {
    const auto k = static_cast<std::size_t>(i);
    workers[static_cast<std::size_t>(worker)].sample(
        graph, rule,
        seeds.subspan(static_cast<std::size_t>(ptr[k]),
                      static_cast<std::size_t>(ptr[k + 1] - ptr[k])),
        seed, epoch, first_batch + k, *out[k]);
  });
}

template class NeighborWorker<std::uint32_t>;
template class NeighborWorker<std::int64_t>;
template void sample_neighbors(const Topology<std::uint32_t>&, const NeighborRule&,
                               std::span<const std::int64_t>, std::span<const std::int64_t>,
                               std::uint64_t, std::uint64_t, std::uint64_t, int,
                               std::span<NeighborWorker<std::uint32_t>>,
                               std::span<SampleArrays<std::uint32_t>* const>);
template void sample_neighbors(const Topology<std::int64_t>&, const NeighborRule&,
                               std::span<const std::int64_t>, std::span<const std::int64_t>,
                               std::uint64_t, std::uint64_t, std::uint64_t, int,
                               std::span<NeighborWorker<std::int64_t>>,
                               std::span<SampleArrays<std::int64_t>* const>);

}  // namespace foregather
