// Disk gather: the executor of plans on one feature file.
//
// It owns the cache (num_slots slots, each a row in the stored dtype) and staging, and carries out
// appended plans step after step: hits are copied from their slots, then the rows of each request
// go from staging to the output, to a slot, or both, as it arrives. There is no look-up and no
// table of rows here; the plan has decided everything.
//
// Who does what: reads are issued over step and plan borders by the thread of a ReadAhead, which
// sleeps in the kernel and keeps the queue full while nobody calls step(). Rows are copied by the
// thread that calls step(): it has nothing else to do, and the copies run at the same time as the
// system calls of the reading thread, not between them. So copying need not be cut into pieces for
// the disk's sake.
//
// Contract:
// - What step() leaves in `out` equals the in-memory gather of the batch, bit for bit: bytes as
//   stored, binary16 as float32, or int8 times a float32 scale per column (one rounding).
// - Finished steps have read exactly the requests and bytes of their plan; reading ahead may be
//   further by at most staging. counters() reports both.
// - A plan is checked when it is appended: nothing in it can make a step write outside its memory.
//   What is refused (InputError) changes nothing. What only the planner can know (which row a slot
//   holds) is trusted.
// - The file is compared with what it was when it was opened, at every append and at the end of
//   every step; if it was changed, truncated or replaced, no batch is given out.
// - With block sums, every block is checked when its read is complete, before a row of it is
//   copied; a block that differs ends the step that needs it, or any later one, with a FormatError.
// - After an error in a step (one of those, or what `poll` throws) the executor is closed: further
//   calls say so and why. The step before it was right.
// - Calls may come from any thread; they take turns. close() ends a step that waits. A child
//   process (fork) opens its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "io/faults.hpp"
#include "io/reading/read_ahead.hpp"
#include "plan/plan.hpp"

namespace foregather {

class Pages;

/// What a gathered row is made of: the stored bytes, or float32 from binary16 or scaled int8.
enum class Form { kStored, kHalf, kScaled };

struct DiskOptions {
  std::int64_t staging_bytes = std::int64_t{16} << 20;  ///< a multiple of 4096
  Backend backend = Backend::kUring;
  int depth = 64;
  Form form = Form::kStored;
  std::vector<float> scale = {};             ///< one factor per column, with kScaled
  int threads = 0;                           ///< for copying hits; <= 0: default_threads()
  std::shared_ptr<Faults> faults = nullptr;  ///< tests only
  /// Slots that several executors use in turn, num_slots * row_bytes bytes; null: its own.
  std::shared_ptr<Pages> slots = nullptr;
  std::shared_ptr<const BlockSums> sums = nullptr;  ///< what the file must hold; null: not known
};

/// Slots for DiskOptions::slots. Executors that share them must take turns: the plans of one are
/// finished before the next one steps, in the order in which their planner made them.
std::shared_ptr<Pages> make_slots(std::int64_t bytes);

/// Since the executor was opened. The first three are of finished steps.
struct GatherCounters {
  std::int64_t steps = 0;
  std::int64_t rows = 0;    ///< rows given out: hits + misses
  std::int64_t hits = 0;    ///< of them, rows copied from a slot
  std::int64_t riders = 0;  ///< free riders kept
  ReadCounters reads;       ///< all finished reads, those ahead included
  double waiting = 0;       ///< seconds in step() without anything to copy
  double copying = 0;       ///< seconds copying rows
  double total = 0;         ///< seconds in step()
};

class DiskGather {
 public:
  /// @param path the feature file, `name` what errors call it
  /// @param geometry where its rows lie; must fit the size of the file
  DiskGather(const std::string& path, std::string name, const Geometry& geometry,
             std::int64_t num_slots, DiskOptions options);
  ~DiskGather();
  DiskGather(const DiskGather&) = delete;
  DiskGather& operator=(const DiskGather&) = delete;

  /// Queues a plan for this file and this cache; its reads begin at once.
  void append(std::shared_ptr<const Plan> plan);

  /// Carries out the next step. `out` has num_rows * out_row_bytes() bytes. `poll` is called a few
  /// times a second while waiting and may throw to give up.
  void step(std::span<std::byte> out, const std::function<void()>& poll = {});

  std::int64_t steps_left() const;
  /// Rows of the next step, or -1 where none is queued.
  std::int64_t next_rows() const;
  std::int64_t out_row_bytes() const { return out_row_bytes_; }
  /// Bytes of slots and staging.
  std::int64_t memory_bytes() const;
  const Geometry& geometry() const { return geometry_; }
  std::string pin_refusal() const;
  GatherCounters counters() const;

  /// Ends the reading threads and frees the memory; a step that waits throws. May be called twice.
  void close();

 private:
  void check_process() const;
  void check_open() const;
  void check_fit(const Plan& plan) const;
  void run(const Plan& plan, std::byte* out, const std::function<void()>& poll);
  template <typename Copy>
  void copy_hits(const Plan& plan, std::byte* out, const Copy& copy);
  template <typename Copy>
  void scatter(const Plan& plan, const Arrival& arrival, std::byte* out, const Copy& copy);
  template <typename Copy>
  void serve(const Plan& plan, std::byte* out, const std::function<void()>& poll, const Copy& copy);

  const std::string name_;
  const Geometry geometry_;
  const std::int64_t num_slots_;
  DiskOptions options_;
  const int process_;
  std::atomic<bool> closing_{false};
  std::int64_t out_row_bytes_;
  std::shared_ptr<Pages> slots_;
  std::unique_ptr<ReadAhead> reader_;

  mutable std::mutex turn_;  ///< held by append, step and what asks about them
  std::deque<std::shared_ptr<const Plan>> plans_;
  std::size_t step_ = 0;        ///< next step of the first plan
  std::int64_t base_ = 0;       ///< number of the first plan's first request
  std::vector<Arrival> early_;  ///< arrived for later steps
  std::vector<Arrival> batch_;  ///< work space of a step
  std::vector<std::int64_t> done_;
  std::string closed_;       ///< why; empty while open
  ReadCounters last_reads_;  ///< of a closed reader
  GatherCounters counters_;
};

}  // namespace foregather
