// The disk sampler against the in-memory one, and a pass against an obvious model of it.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "plan/block_pass.hpp"
#include "sampling/nodewise/trees.hpp"
#include "sampling/on_disk/disk_sample.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

// Passes over a file of 300 blocks: every needed block is where place() says, slots hold the blocks
// they should, requests stay inside window and file, and the cache has the largest counts.
void passes_bring_every_block(std::int64_t gap, std::int64_t slots, int window_shift) {
  constexpr std::int64_t kBlocks = 300;
  const PassShape shape{12, kBlocks * 4096 - 0, gap, 4096 * 4, window_shift, slots};
  BlockPass pass(shape);
  std::mt19937 random(7);
  std::map<std::int64_t, std::int64_t> slot_of, uses;  // the model: slot -> block, block -> count
  for (int turn = 0; turn < 400; ++turn) {
    std::set<std::int64_t> needed;
    const int count = static_cast<int>(random() % 200);
    for (int i = 0; i < count; ++i) {
      const auto skewed = std::min(random() % kBlocks, random() % kBlocks);
      needed.insert(static_cast<std::int64_t>(skewed));
    }
    for (const std::int64_t block : needed) pass.mark(block), pass.mark(block), ++uses[block];
    const std::int64_t windows = pass.plan();
    std::set<std::int64_t> cached, missing;
    for (const auto& [slot, block] : slot_of) cached.insert(block);
    for (const std::int64_t block : needed) {
      const std::uint32_t place = pass.place(block);
      CHECK(((place & BlockPass::kCached) != 0) == (cached.count(block) > 0));
      if (place & BlockPass::kCached) {
        CHECK(slot_of.at(place & ~BlockPass::kCached) == block);
      } else {
        missing.insert(block);
      }
    }
    std::map<std::int64_t, std::int64_t> arrived;  // stream place -> block
    for (std::int64_t window = 0; window < windows; ++window) {
      WindowRequests requests;
      pass.requests(window, requests);
      std::int64_t last = -1, bytes = 0;
      for (std::size_t r = 0; r < requests.offset.size(); ++r) {
        const std::int64_t offset = requests.offset[r], length = requests.length[r];
        CHECK(offset > last && length > 0 && length <= shape.request_bytes);
        CHECK(offset + length <= shape.file_bytes);
        CHECK(requests.destination[r] + length <= shape.window_blocks() * 4096);
        last = offset + length - 1;
        bytes += length;
        for (std::int64_t b = 0; b < length / 4096; ++b) {
          const std::int64_t at = (window << window_shift) + requests.destination[r] / 4096 + b;
          CHECK(arrived.emplace(at, offset / 4096 + b).second);
        }
      }
      CHECK(bytes == requests.bytes);
      for (const std::int64_t block : missing) {
        const std::uint32_t place = pass.place(block);
        if ((place & BlockPass::kCached) == 0 && place >> window_shift == window) {
          CHECK(arrived.at(place) == block);
        }
      }
      pass.keep(window, [&](std::uint32_t place, std::int64_t slot) {
        CHECK(slot >= 0 && slot < slots);
        slot_of[slot] = arrived.at(place);
      });
    }
    pass.finish();
    std::set<std::int64_t> kept;
    for (const auto& [slot, block] : slot_of) kept.insert(block);
    CHECK(kept.size() == slot_of.size());  // no block twice
    if (turn < 250) {  // counts are halved later; until then nothing better was let go
      std::int64_t worst = 1000;
      for (const std::int64_t block : kept) worst = std::min(worst, uses[block]);
      for (const std::int64_t block : missing) {
        if (!kept.count(block)) CHECK(uses[block] <= worst);
      }
      cached.insert(missing.begin(), missing.end());
      CHECK(kept.size() == std::min<std::size_t>(cached.size(), static_cast<std::size_t>(slots)));
    }
  }
}

void rows_are_found() {
  std::mt19937 random(3);
  std::vector<std::int64_t> indptr{0};
  for (int v = 0; v < 1000; ++v) {
    const std::int64_t large = random() % 20 == 0 ? 65530 + random() % 12 : 0;
    indptr.push_back(indptr.back() + large + static_cast<std::int64_t>(random() % 9));
  }
  RowIndex index(1000, indptr.back());
  const std::span<const std::int64_t> ends(indptr.data() + 1, 1000);
  index.append(ends.first(333));
  CHECK_THROWS(index.finish(), FormatError);
  index.append(ends.subspan(333));
  index.finish();
  for (std::size_t v = 0; v < 1000; ++v) {
    const RowSpan row = index.row(static_cast<std::int64_t>(v));
    CHECK(row.start == indptr[v] && row.degree == indptr[v + 1] - indptr[v]);
  }
  const std::int64_t one = 1;
  CHECK_THROWS(index.append({&one, 1}), FormatError);
  RowIndex falling(3, 10);
  const std::vector<std::int64_t> wrong{5, 4};
  CHECK_THROWS(falling.append(wrong), FormatError);
}

struct Scratch {  // a file that is removed on leaving
  Scratch() { fd = ::mkstemp(path); }
  ~Scratch() { ::close(fd), ::unlink(path); }
  char path[32] = "./fg-disk-sample-XXXXXX";
  int fd;
};

template <typename Id>
void check_same(const SampleArrays<Id>& a, const SampleArrays<Id>& b) {
  CHECK(a.num_nodes == b.num_nodes && a.num_edges == b.num_edges);
  CHECK(a.seed_position == b.seed_position && a.in_trees == b.in_trees);
  std::int64_t edges = 0;
  for (const std::int64_t count : a.num_edges) edges += count;
  CHECK(std::equal(a.node.data(), a.node.data() + a.num_nodes.back(), b.node.data()));
  CHECK(std::equal(a.row.data(), a.row.data() + edges, b.row.data()));
  CHECK(std::equal(a.col.data(), a.col.data() + edges, b.col.data()));
  CHECK(std::equal(a.edge.data(), a.edge.data() + edges, b.edge.data()));
  if (a.in_trees)
    CHECK(std::equal(a.tree.data(), a.tree.data() + a.num_nodes.back(), b.tree.data()));
}

// What is sampled from the file is what is sampled from memory, also after it was left in the
// middle, and the least memory that is announced is enough.
template <typename Id>
void equals_memory(const NeighborRule& rule, std::int64_t block, std::size_t more) {
  constexpr std::int64_t kNodes = 3000;
  std::mt19937 random(5);
  std::vector<std::int64_t> indptr{0};
  std::vector<Id> indices;
  for (std::int64_t v = 0; v < kNodes; ++v) {
    const auto degree = v % 500 == 0 ? 4000 : random() % 40;
    for (std::uint64_t i = 0; i < degree; ++i)
      indices.push_back(static_cast<Id>(random() % kNodes));
    indptr.push_back(static_cast<std::int64_t>(indices.size()));
  }
  Scratch file;
  std::vector<std::byte> bytes((4096 + indices.size() * sizeof(Id) + 4095) / 4096 * 4096);
  std::memcpy(bytes.data() + 4096, indices.data(), indices.size() * sizeof(Id));
  CHECK(::write(file.fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  const DiskShape shape{
      kNodes, indptr.back(), sizeof(Id), 4096, static_cast<std::int64_t>(bytes.size()),
      block,  8192};
  const std::size_t least = divide(shape, 0).least;
  auto open = [&] { return std::make_unique<BlockReader>(file.path, Backend::kBuffered, 4); };
  CHECK_THROWS(DiskSampler<Id>(open(), shape, least - 1), BudgetError);
  DiskSampler<Id> sampler(open(), shape, least + more);
  sampler.index().append({indptr.data() + 1, static_cast<std::size_t>(kNodes)});

  std::vector<std::int64_t> seeds, ptr{0};
  for (int batch = 0; batch < 7; ++batch) {
    for (int i = 0; i < 5 * batch; ++i)
      seeds.push_back(static_cast<std::int64_t>(random() % kNodes));
    ptr.push_back(static_cast<std::int64_t>(seeds.size()));
  }
  std::vector<SampleArrays<Id>> got(7), want(7);
  std::vector<SampleArrays<Id>*> got_at, want_at;
  for (std::size_t i = 0; i < 7; ++i) got_at.push_back(&got[i]), want_at.push_back(&want[i]);
  std::vector<NeighborWorker<Id>> workers(1);
  sample_bulk<Id, NeighborWorker<Id>>({indptr, indices}, rule, seeds, ptr, 9, 1, 3, 1, workers,
                                      want_at);
  int checks = 0;
  CHECK_THROWS(sampler.sample(rule, seeds, ptr, 9, 1, 3, 3, got_at,
                              [&] {
                                if (++checks == 2) throw InputError("stop");
                              }),
               InputError);  // left in the middle, it can be used again
  for (int threads : {1, 3}) {
    sampler.sample(rule, seeds, ptr, 9, 1, 3, threads, got_at, [] {});
    for (std::size_t i = 0; i < 7; ++i) {
      check_same(got[i], want[i]);
    }
  }
  std::vector<std::int64_t> rows, short_of_one;
  for (std::size_t s = 0; s < seeds.size(); ++s) rows.push_back(static_cast<std::int64_t>(s * s));
  if (rule.once) {
    std::vector<TreeJoin<Id>> joins(1);
    sample_trees<Id, NeighborWorker<Id>, NeighborRule>({indptr, indices}, rule, seeds, rows, ptr, 9,
                                                       1, 1, workers, joins, want_at);
    for (int threads : {1, 3}) {
      sampler.sample_trees(rule, seeds, rows, ptr, 9, 1, threads, got_at, [] {});
      for (std::size_t i = 0; i < 7; ++i) check_same(got[i], want[i]);
    }
    CHECK_THROWS(sampler.sample_trees(rule, seeds, short_of_one, ptr, 9, 1, 1, got_at, [] {}),
                 InputError);
  } else {
    CHECK_THROWS(sampler.sample_trees(rule, seeds, rows, ptr, 9, 1, 1, got_at, [] {}), InputError);
  }
  CHECK(sampler.read_counters().bytes <= sampler.pass_counters().bytes);  // less: one was left
}

}  // namespace

int main() {
  for (const std::int64_t gap : {0, 1, 5}) {
    for (const std::int64_t slots : {0, 1, 40, 300}) {
      passes_bring_every_block(gap, slots, 2);
      passes_bring_every_block(gap, slots, 5);
    }
  }
  rows_are_found();
  for (const bool once : {true, false}) {
    for (const bool replace : {true, false}) {
      const NeighborRule rule{{7, -1, 3}, replace, once};
      equals_memory<std::uint32_t>(rule, 4096, 2 << 20);
      equals_memory<std::int64_t>(rule, 16384, 40 << 20);
    }
  }
  return 0;
}
