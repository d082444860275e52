// Pages: page-aligned zeroed memory of a fixed size, in huge pages where the system has them.
// Private to the executors; untouched pages take no memory.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <span>

namespace foregather {

class Pages {
 public:
  explicit Pages(std::size_t bytes) : bytes_(bytes) {
    if (bytes_ == 0) return;
    void* place =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(place);
    // Only advice: a refusal changes nothing but speed.
    if (bytes_ >= (std::size_t{2} << 20)) ::madvise(place, bytes_, MADV_HUGEPAGE);
  }
  ~Pages() { release(); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  void release() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
    data_ = nullptr, bytes_ = 0;
  }
  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  std::span<std::byte> span() const { return {data_, bytes_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace foregather
