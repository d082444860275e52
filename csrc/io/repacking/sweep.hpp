// Sweep: the first half of a repacked bulk: one pass over the feature file into a scratch file.
//
// sweep() reads the requests of a RepackPlan in order, `depth` in flight, and writes each row to
// its place in the scratch file, from where `scratch`, an ordinary Plan, is carried out by a
// DiskGather that shares the slots. See repack.hpp.
//
// Contract:
// - Reads are exactly the requests of the plan, writes exactly the pages of the scratch file, each
//   once; counters() reports both.
// - The scratch file has no name: nothing is left behind, however the process ends. Its space is
//   free again when the last reference to it is gone.
// - Where there is no space (ENOSPC), or writing fails, sweep() throws and everything is as before:
//   the same bulk can be read by its plan by rows instead.
// - The feature file is compared with what it was when the Sweeper was made, before and after each
//   sweep.
// - With block sums, every block read is checked before a row of it is moved. The scratch file
//   always has its own sums, taken as it is written.
// - Memory: staging while it sweeps, write_bytes for the buffers of the runs, and the scratch
//   file's sums (4 bytes per 4096) as long as it lives.
// - cancel() may come from any thread and ends a running sweep and all later ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/faults.hpp"
#include "io/reading/reader.hpp"
#include "io/repacking/repack.hpp"

namespace foregather {

class FileWatch;
class RunWriter;
class ScratchFile;

struct SweepOptions {
  std::int64_t staging_bytes = std::int64_t{8} << 20;  ///< a multiple of 4096
  std::int64_t write_bytes = std::int64_t{8} << 20;
  Backend backend = Backend::kUring;
  int depth = 16;
  std::shared_ptr<Faults> faults = nullptr;         ///< of reads; tests only
  std::shared_ptr<Faults> write_faults = nullptr;   ///< of writes; tests only
  std::shared_ptr<const BlockSums> sums = nullptr;  ///< what the file must hold; null: not known
};

/// Of finished sweeps.
struct SweepCounters {
  std::int64_t sweeps = 0;
  std::int64_t moves = 0;    ///< rows written
  std::int64_t writes = 0;   ///< system calls, about
  std::int64_t written = 0;  ///< bytes
  ReadCounters reads;
  double seconds = 0;
};

class Sweeper {
 public:
  Sweeper(const std::string& path, std::string name, const Geometry& geometry,
          SweepOptions options);
  ~Sweeper();
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

  /// Sweeps into a new scratch file in `folder`. `poll` is called a few times a second and may
  /// throw to give up. A plan without moves is an InputError: there is nothing to write.
  std::shared_ptr<ScratchFile> sweep(const RepackPlan& plan, const std::string& folder,
                                     const std::function<void()>& poll = {});

  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  SweepCounters counters() const;

  /// The least write_bytes for bulks of this many batches.
  static std::int64_t least_write_bytes(std::int64_t batches);

 private:
  void check(const RepackPlan& plan) const;
  ReadCounters run(const RepackPlan& plan, RunWriter& writer, const std::function<void()>& poll);
  void move(const RepackPlan& plan, std::size_t request, const std::byte* data,
            RunWriter& writer) const;

  const std::string path_, name_;
  const Geometry geometry_;
  const SweepOptions options_;
  std::unique_ptr<Descriptor> file_;
  std::unique_ptr<FileWatch> watch_;
  std::atomic<bool> cancelled_{false};
  mutable std::mutex turn_;  ///< held while it sweeps
  mutable std::mutex lock_;  ///< guards counters_
  SweepCounters counters_;
};

}  // namespace foregather
