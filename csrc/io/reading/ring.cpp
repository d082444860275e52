#include "io/reading/ring.hpp"

#include <cerrno>
#include <system_error>

#include "base/platform.hpp"
#include "base/types.hpp"

#if FOREGATHER_URING
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <vector>

// Flags younger than some build machines' headers; the kernel that runs decides what they mean.
#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif
#ifndef IORING_FEAT_RW_CUR_POS
#define IORING_FEAT_RW_CUR_POS (1U << 3)
#endif
#ifndef __NR_io_uring_setup
#define __NR_io_uring_setup 425
#define __NR_io_uring_enter 426
#define __NR_io_uring_register 427
#endif
#endif

namespace foregather {

std::string errno_text(int code) { return std::generic_category().message(code); }

#if FOREGATHER_URING

namespace {

constexpr std::size_t kPinnedPiece = std::size_t{1} << 30;  // the kernel's most for one buffer

int setup(unsigned entries, unsigned flags, io_uring_params& params) {
  std::memset(&params, 0, sizeof params);
  params.flags = flags;
  const long fd = syscall(__NR_io_uring_setup, entries, &params);
  return fd < 0 ? -errno : static_cast<int>(fd);
}

int register_with(int ring, unsigned what, const void* argument, unsigned count) {
  return syscall(__NR_io_uring_register, ring, what, argument, count) < 0 ? errno : 0;
}

int enter_ring(int ring, unsigned submit, unsigned wait) {
  // GETEVENTS also when nothing is waited for: a deferring ring posts completions only then.
  const long taken = syscall(__NR_io_uring_enter, ring, submit, wait, IORING_ENTER_GETEVENTS,
                             nullptr, std::size_t{0});
  return taken < 0 ? -errno : static_cast<int>(taken);
}

std::string refusal(int code) {
  switch (code) {
    case ENOSYS:
      return "this kernel has no io_uring";
    case EPERM:
    case EACCES:
      return "io_uring is refused here (a container's seccomp profile, or the setting "
             "kernel.io_uring_disabled)";
    case ENOMEM:
      return "io_uring does not fit the limit on locked memory (ulimit -l)";
    default:
      return "io_uring cannot be set up: " + errno_text(code);
  }
}

void* map_shared(int fd, std::size_t bytes, off_t what) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
  if (at == MAP_FAILED) throw StorageError(refusal(errno), errno);
  return at;
}

}  // namespace

Ring::Ring(unsigned entries, int fd) : file_fd_(fd) {
  io_uring_params params;
  ring_fd_ = setup(entries, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, params);
  deferred_ = ring_fd_ >= 0;
  // EINVAL: a kernel before 6.1, which does not know the flags
  if (ring_fd_ == -EINVAL) ring_fd_ = setup(entries, 0, params);
  if (ring_fd_ < 0) throw StorageError(refusal(-ring_fd_), -ring_fd_);
  try {
    // RW_CUR_POS came with plain reads (5.6), SINGLE_MMAP before them (5.4).
    if (!(params.features & IORING_FEAT_RW_CUR_POS) ||
        !(params.features & IORING_FEAT_SINGLE_MMAP)) {
      throw StorageError("this kernel's io_uring is older than Linux 5.6", ENOSYS);
    }
    map(&params);
  } catch (...) {
    release();
    throw;
  }
  // Saves a look-up and a reference count per read; a refusal costs only that.
  file_registered_ = register_with(ring_fd_, IORING_REGISTER_FILES, &file_fd_, 1) == 0;
}

Ring::~Ring() { release(); }

void Ring::map(const void* opaque) {
  const auto& params = *static_cast<const io_uring_params*>(opaque);
  const std::size_t sq_bytes = params.sq_off.array + params.sq_entries * sizeof(unsigned);
  const std::size_t cq_bytes = params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe);
  rings_bytes_ = sq_bytes > cq_bytes ? sq_bytes : cq_bytes;
  rings_ = static_cast<std::byte*>(map_shared(ring_fd_, rings_bytes_, IORING_OFF_SQ_RING));
  entries_bytes_ = params.sq_entries * sizeof(io_uring_sqe);
  entries_ = map_shared(ring_fd_, entries_bytes_, IORING_OFF_SQES);
  auto word = [&](unsigned at) { return reinterpret_cast<unsigned*>(rings_ + at); };
  sq_head_ = word(params.sq_off.head);
  sq_tail_ = word(params.sq_off.tail);
  sq_mask_ = *word(params.sq_off.ring_mask);
  cq_head_ = word(params.cq_off.head);
  cq_tail_ = word(params.cq_off.tail);
  cq_mask_ = *word(params.cq_off.ring_mask);
  completions_ = rings_ + params.cq_off.cqes;
  // Place i of the queue always names entry i, so the indirection is written once.
  unsigned* order = word(params.sq_off.array);
  for (unsigned i = 0; i < params.sq_entries; ++i) order[i] = i;
}

void Ring::release() {
  if (entries_ != nullptr) munmap(entries_, entries_bytes_);
  if (rings_ != nullptr) munmap(rings_, rings_bytes_);
  if (ring_fd_ >= 0) close(ring_fd_);
  entries_ = nullptr, rings_ = nullptr, ring_fd_ = -1;
}

int Ring::pin(std::span<std::byte> memory) {
  std::vector<iovec> pieces;
  for (std::size_t at = 0; at < memory.size(); at += kPinnedPiece) {
    const std::size_t rest = memory.size() - at;
    pieces.push_back({memory.data() + at, rest < kPinnedPiece ? rest : kPinnedPiece});
  }
  if (pinned()) register_with(ring_fd_, IORING_UNREGISTER_BUFFERS, nullptr, 0);
  pinned_bytes_ = 0;
  if (pieces.empty()) return 0;
  const int code = register_with(ring_fd_, IORING_REGISTER_BUFFERS, pieces.data(),
                                 static_cast<unsigned>(pieces.size()));
  if (code == 0) pinned_base_ = memory.data(), pinned_bytes_ = memory.size();
  return code;
}

// The pinned piece that holds all of the read's memory, or -1.
int Ring::buffer_index(const RingRead& read) const {
  if (pinned_bytes_ == 0 || read.address < pinned_base_) return -1;
  const auto first = static_cast<std::size_t>(read.address - pinned_base_);
  const std::size_t end = first + read.length;
  if (end > pinned_bytes_ || first / kPinnedPiece != (end - 1) / kPinnedPiece) return -1;
  return static_cast<int>(first / kPinnedPiece);
}

void Ring::push(const RingRead& read) {
  // relaxed: we are the only writer of the tail
  const unsigned tail = std::atomic_ref<unsigned>(*sq_tail_).load(std::memory_order_relaxed);
  io_uring_sqe& entry = static_cast<io_uring_sqe*>(entries_)[tail & sq_mask_];
  std::memset(&entry, 0, sizeof entry);
  const int piece = buffer_index(read);
  entry.opcode = piece >= 0 ? IORING_OP_READ_FIXED : IORING_OP_READ;
  entry.flags = file_registered_ ? IOSQE_FIXED_FILE : 0;
  entry.fd = file_registered_ ? 0 : file_fd_;
  entry.off = static_cast<std::uint64_t>(read.offset);
  entry.addr = reinterpret_cast<std::uint64_t>(read.address);
  entry.len = read.length;
  entry.buf_index = static_cast<std::uint16_t>(piece >= 0 ? piece : 0);
  entry.user_data = read.tag;
  // release: whoever sees the new tail sees the entry written before it
  std::atomic_ref<unsigned>(*sq_tail_).store(tail + 1, std::memory_order_release);
}

unsigned Ring::queued() const {
  // acquire: an entry counted as taken has been copied by the kernel, so it may be overwritten
  const unsigned head = std::atomic_ref<unsigned>(*sq_head_).load(std::memory_order_acquire);
  return std::atomic_ref<unsigned>(*sq_tail_).load(std::memory_order_relaxed) - head;
}

void Ring::rewind() {
  // Without SQPOLL the kernel looks at the tail only inside our own enter: it may move back.
  const unsigned head = std::atomic_ref<unsigned>(*sq_head_).load(std::memory_order_acquire);
  std::atomic_ref<unsigned>(*sq_tail_).store(head, std::memory_order_release);
}

int Ring::enter(unsigned count) { return enter_ring(ring_fd_, queued(), count); }

int Ring::wait(unsigned count) { return enter_ring(ring_fd_, 0, count); }

bool Ring::pop(RingResult& result) {
  const unsigned head = std::atomic_ref<unsigned>(*cq_head_).load(std::memory_order_relaxed);
  // acquire: pairs with the kernel's release of the tail, so the completion and the bytes it
  // speaks of are visible
  if (head == std::atomic_ref<unsigned>(*cq_tail_).load(std::memory_order_acquire)) return false;
  const auto& done = static_cast<const io_uring_cqe*>(completions_)[head & cq_mask_];
  result = {done.user_data, done.res};
  // release: the completion is copied before the kernel may use its place again
  std::atomic_ref<unsigned>(*cq_head_).store(head + 1, std::memory_order_release);
  return true;
}

#else  // another system, or headers without io_uring: the ladder goes on to pread

Ring::Ring(unsigned, int) { throw StorageError("this build was made without io_uring", ENOSYS); }
Ring::~Ring() = default;
int Ring::pin(std::span<std::byte>) { return 0; }
void Ring::push(const RingRead&) {}
unsigned Ring::queued() const { return 0; }
void Ring::rewind() {}
int Ring::enter(unsigned) { return 0; }
int Ring::wait(unsigned) { return 0; }
bool Ring::pop(RingResult&) { return false; }

#endif

}  // namespace foregather
