// Buffer: memory that grows, is not initialised, and lies in huge pages where the system has them.
//
// Sampling touches tables far larger than the caches at random; with 4 KiB pages most of those
// accesses also miss the TLB. A Buffer of 2 MiB or more is an anonymous mapping with MADV_HUGEPAGE,
// a smaller one comes from the heap. It is kept for reuse: growing copies what `keep` says,
// shrinking never gives memory back.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

namespace foregather {

template <typename T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() { release(); }

  /// Makes room for `count` elements; the first `keep` keep their values, the rest have none.
  void reserve(std::size_t count, std::size_t keep = 0) {
    if (count <= capacity_) return;
    grow(count + count / 4, keep);  // growth is geometric, so it soon stops
  }
  /// Makes room for `count` elements and no more; none keeps its value. It takes bytes_for(count).
  void reserve_exactly(std::size_t count) {
    if (count > capacity_) grow(count, 0);
  }
  /// Bytes that `count` elements take.
  static constexpr std::size_t bytes_for(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    return bytes < kHuge ? bytes : (bytes + kHuge - 1) / kHuge * kHuge;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  std::size_t capacity() const { return capacity_; }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kHuge = std::size_t{2} << 20;

  void grow(std::size_t count, std::size_t keep) {
    const std::size_t bytes = bytes_for(count);
    void* place;
    if (bytes < kHuge) {
      place = ::operator new(bytes);
    } else {
      place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (place == MAP_FAILED) throw std::bad_alloc();
      ::madvise(place, bytes, MADV_HUGEPAGE);  // only advice: a refusal changes nothing but speed
    }
    if (keep > 0) std::memcpy(place, data_, keep * sizeof(T));
    release();
    data_ = static_cast<T*>(place);
    capacity_ = bytes / sizeof(T);
    bytes_ = bytes;
  }
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    std::swap(bytes_, other.bytes_);
  }
  void release() {
    if (data_ == nullptr) return;
    if (bytes_ < kHuge) {
      ::operator delete(data_);
    } else {
      ::munmap(data_, bytes_);
    }
    data_ = nullptr;
    capacity_ = bytes_ = 0;
  }

  T* data_ = nullptr;
  std::size_t capacity_ = 0;  ///< elements
  std::size_t bytes_ = 0;     ///< of the mapping
};

}  // namespace foregather
