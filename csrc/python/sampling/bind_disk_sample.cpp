#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>

#include "io/checksums/block_sums.hpp"
#include "python/arrays.hpp"
#include "python/sampling/array_pool.hpp"
#include "python/sampling/excluded_edges.hpp"
#include "sampling/on_disk/disk_sample.hpp"

namespace foregather::python {
namespace {

// A disk sampler, its lock and its pool.
template <typename Id>
class DiskKernel {
 public:
  DiskKernel(const std::string& path, const std::string& backend, int depth,
             const std::string& name, const DiskShape& shape, std::int64_t memory,
             std::shared_ptr<BlockSums> sums)
      : sampler_(std::make_unique<BlockReader>(path, parse_backend(backend), depth, name, sums),
                 shape, static_cast<std::size_t>(memory < 0 ? 0 : memory)) {}

  void append(const In<std::int64_t>& ends) {
    const auto rows = view(ends);
    Released released;
    std::lock_guard<std::mutex> hold(lock_);
    sampler_.index().append(rows);
  }
  void finish() {
    Released released;
    std::lock_guard<std::mutex> hold(lock_);
    sampler_.index().finish();
  }

  Minibatches sample(std::vector<std::int64_t> fanouts, bool replace, bool once,
                     const In<std::int64_t>& seeds, const In<std::int64_t>& ptr, std::uint64_t seed,
                     std::uint64_t epoch, std::uint64_t first_batch, int threads,
                     const LeftOut& exclude) {
    const ExcludedEdges excluded = excluded_of(exclude);
    const NeighborRule rule{std::move(fanouts), replace, once};
    return make_minibatches<Id>(pool_, lock_, ptr, [&](const auto& places) {
      // Ctrl-C is seen between windows
      sampler_.sample(rule, view(seeds), view(ptr), seed, epoch, first_batch, threads, places,
                      raise_signals, excluded);
    });
  }

  Minibatches sample_trees(std::vector<std::int64_t> fanouts, bool replace,
                           const In<std::int64_t>& seeds, const In<std::int64_t>& rows,
                           const In<std::int64_t>& ptr, std::uint64_t seed, std::uint64_t epoch,
                           int threads, const LeftOut& exclude) {
    const ExcludedEdges excluded = excluded_of(exclude);
    const NeighborRule rule{std::move(fanouts), replace, true};
    return make_minibatches<Id>(pool_, lock_, ptr, [&](const auto& places) {
      sampler_.sample_trees(rule, view(seeds), view(rows), view(ptr), seed, epoch, threads, places,
                            raise_signals, excluded);
    });
  }

  void hold(const In<std::int64_t>& rows) {
    const auto wanted = view(rows);
    Released released;
    std::lock_guard<std::mutex> guard(lock_);
    sampler_.hold(wanted);
  }

  Facts counters() {
    DiskCounters done;
    PassCounters pass;
    ReadCounters read;
    {
      Released released;  // a call that samples has the lock and asks for the GIL
      std::lock_guard<std::mutex> hold(lock_);
      done = sampler_.counters();
      pass = sampler_.pass_counters();
      read = sampler_.read_counters();
    }
    Facts facts;
    facts["picks"] = done.picks;
    facts["hits"] = done.hits;
    facts["misses"] = done.picks - done.hits;
    facts["passes"] = pass.passes;
    facts["blocks"] = pass.blocks;
    facts["block_hits"] = pass.block_hits;
    facts["hot_hits"] = done.hot_hits;
    facts["hot_rows"] = done.hot.rows;
    facts["hot_held"] = done.hot.held;
    facts["hot_bytes"] = done.hot.bytes;
    facts["planned_requests"] = pass.requests + done.hot.requests;
    facts["planned_bytes"] = pass.bytes + done.hot.bytes;
    facts["requests"] = read.requests;
    facts["bytes"] = read.bytes;
    facts["retries"] = read.retries;
    Facts seconds;
    seconds["draw"] = done.draw;
    seconds["mark"] = done.mark;
    seconds["plan"] = done.plan;
    seconds["sort"] = done.sort;
    seconds["wait"] = done.wait;
    seconds["resolve"] = done.resolve;
    seconds["renumber"] = done.renumber;
    seconds["read"] = read.seconds;
    facts["seconds"] = seconds;
    return facts;
  }

  Facts shares() {
    const DiskShares& parts = sampler_.shares();
    Facts facts;
    facts["index"] = parts.index;
    facts["tables"] = parts.tables;
    facts["checksums"] = parts.sums;
    facts["staging"] = parts.staging;
    facts["order"] = parts.order;
    facts["renumbering"] = parts.ids;
    facts["cache"] = parts.cache;
    facts["hot"] = parts.hot;
    facts["least"] = parts.least;
    facts["slots"] = parts.pass.num_slots;
    return facts;
  }

  std::string backend() const { return backend_name(sampler_.reader().backend()); }
  std::int64_t alignment() const { return sampler_.reader().alignment(); }

 private:
  std::mutex lock_;  // one call at a time
  DiskSampler<Id> sampler_;
  std::shared_ptr<ArrayPool<Id>> pool_ = std::make_shared<ArrayPool<Id>>();
};

template <typename Id>
void bind(nb::module_& m, const char* name) {
  using Kernel = DiskKernel<Id>;
  nb::class_<Kernel>(m, name, "Bulk neighbour sampling from a topology on disk.")
      .def("append", &Kernel::append, nb::arg("ends").noconvert(),
           "The next piece of indptr, without its leading 0.")
      .def("finish", &Kernel::finish, "Says that indptr is complete.")
      .def("sample", &Kernel::sample, nb::arg("fanouts"), nb::arg("replace"), nb::arg("once"),
           nb::arg("seeds").noconvert(), nb::arg("ptr").noconvert(), nb::arg("seed"),
           nb::arg("epoch"), nb::arg("first_batch"), nb::arg("threads") = 0,
           nb::arg("exclude").none() = nb::none(),
           "Minibatches as (node, num_nodes, row, col, num_edges, edge, seed_position).")
      .def("sample_trees", &Kernel::sample_trees, nb::arg("fanouts"), nb::arg("replace"),
           nb::arg("seeds").noconvert(), nb::arg("rows").noconvert(), nb::arg("ptr").noconvert(),
           nb::arg("seed"), nb::arg("epoch"), nb::arg("threads") = 0,
           nb::arg("exclude").none() = nb::none(),
           "Minibatches of disjoint trees, keyed by rows; exclude is cut into trees.")
      .def("hold", &Kernel::hold, nb::arg("rows").noconvert(),
           "Holds the lists of these rows in memory, as many as fit, best first.")
      .def("counters", &Kernel::counters, "Picks, hits, passes, requests, bytes, seconds so far.")
      .def("shares", &Kernel::shares, "How the budget is divided, in bytes.")
      .def_prop_ro("backend", &Kernel::backend)
      .def_prop_ro("alignment", &Kernel::alignment);
  m.def(
      "disk_kernel",
      [](const In<Id>&, const std::string& path, const std::string& backend, int depth,
         const std::string& file, std::int64_t num_nodes, std::int64_t num_edges,
         std::int64_t payload, std::int64_t file_bytes, std::int64_t block, std::int64_t gap,
         std::int64_t memory, std::shared_ptr<BlockSums> sums, int hot_percent) {
        const auto checks = sums ? static_cast<std::int64_t>(4 * sums->sums().size()) : 0;
        const DiskShape shape{num_nodes, num_edges, sizeof(Id), payload,    file_bytes,
                              block,     gap,       checks,     hot_percent};
        return new Kernel(path, backend, depth, file, shape, memory, std::move(sums));
      },
      nb::rv_policy::take_ownership, nb::arg("ids").noconvert(), nb::arg("path"),
      nb::arg("backend"), nb::arg("depth"), nb::arg("name"), nb::arg("num_nodes"),
      nb::arg("num_edges"), nb::arg("payload"), nb::arg("file_bytes"), nb::arg("block"),
      nb::arg("gap"), nb::arg("memory"), nb::arg("sums").none() = nb::none(),
      nb::arg("hot_percent") = 0,
      "The kernel of a topology on disk, for ids as wide as those given (they may be none).");
}

}  // namespace

void bind_disk_sample(nb::module_& m) {
  bind<std::uint32_t>(m, "DiskKernel32");
  bind<std::int64_t>(m, "DiskKernel64");
}

}  // namespace foregather::python
