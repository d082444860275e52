#include "io/files/scratch_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/platform.hpp"
#include "io/files/file.hpp"
#include "io/files/probe_ways.hpp"
#include "io/reading/ring.hpp"
#include "plan/plan.hpp"

namespace foregather {

ScratchFile::ScratchFile(const std::string& folder, std::int64_t bytes, std::int64_t row_bytes,
                         std::shared_ptr<Faults> faults)
    : folder_(folder),
      bytes_(bytes),
      faults_(std::move(faults)),
      sums_(std::make_shared<BlockSums>("the scratch file", bytes, row_bytes, 0)),
      file_(std::make_unique<Descriptor>(platform::nameless_file(folder))) {
  if (file_->value < 0) fail("cannot make", errno);
  reserve();
  try {
    direct_ = kPage % make_direct(file_->value, "the scratch file") == 0;
  } catch (const StorageError&) {
    direct_ = false;
  }
  if (!direct_) platform::use_page_cache(file_->value);
}

ScratchFile::~ScratchFile() = default;

std::string ScratchFile::path() const { return platform::path_of(file_->value); }

void ScratchFile::reserve() const {
  const int code = platform::reserve_room(file_->value, bytes_);
  if (code != 0) fail("cannot reserve " + std::to_string(bytes_) + " bytes for", code);
}

void ScratchFile::write(std::int64_t offset, std::span<const std::byte> pages) {
  sums_->take(offset, pages);
  for (int tries = 0; !pages.empty();) {
    const ssize_t moved = ::pwrite(file_->value, pages.data(), pages.size(), offset);
    std::int64_t got = moved < 0 ? -errno : moved;
    const auto asked = static_cast<std::int64_t>(pages.size());
    if (faults_) got = faults_->apply(offset, asked, got);
    if (got > 0) {
      offset += got;
      pages = pages.subspan(static_cast<std::size_t>(got));
      tries = 0;
    } else if (got == 0 || !passing(static_cast<int>(-got)) || ++tries > kMostTries) {
      fail("cannot write to", got == 0 ? EIO : static_cast<int>(-got));
    } else if (got != -EINTR) {
      pause();
    }
  }
}

void ScratchFile::fail(const std::string& what, int code) const {
  throw StorageError(what + " a scratch file in " + folder_ + ": " + errno_text(code) +
                         "; free space there, or read without repacking",
                     code);
}

}  // namespace foregather
