#include "io/files/file_map.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "base/types.hpp"
#include "io/reading/ring.hpp"

namespace foregather {

// An entry of the table that the handler looks at. Entries are reused, never freed, so the handler
// may walk the list at any moment.
struct FileMap::Watched {
  std::atomic<std::uintptr_t> begin{0};  // 0: free
  std::atomic<std::uintptr_t> end{0};
  std::array<char, 256> name{};  // written while begin is 0
  Watched* next = nullptr;       // fixed before the entry is in the list
};

// Everything about the signal; the table is written under `guard` and read without it.
struct MapHandler {
  static constinit std::atomic<FileMap::Watched*> head;
  static std::mutex guard;
  static std::size_t live;
  static struct sigaction before;

  static void say(const char* text) {
    // The process is about to end: a text that cannot be written is lost.
    if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
  }

  // Async-signal-safe: atomics, write and sigaction only.
  static void handle(int number, siginfo_t* info, void* context) {
    const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
    if (info->si_code > 0) {  // by the kernel, not sent by a process
      for (auto* one = head.load(std::memory_order_acquire); one != nullptr; one = one->next) {
        const std::uintptr_t begin = one->begin.load(std::memory_order_acquire);
        if (begin == 0 || at < begin || at >= one->end.load(std::memory_order_relaxed)) continue;
        say("\nforegather: reading ");
        say(one->name.data());
        say(" failed: the disk gave an error, or the file was cut while it was in use; restore it"
            " and run again\n");
        break;
      }
    }
    if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(number, info, context);
    if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
      // A fault comes again at once and ends the process; one that was sent has to be sent again.
      ::sigaction(number, &before, nullptr);
      if (info->si_code <= 0 && before.sa_handler == SIG_DFL) ::raise(number);
      return;
    }
    before.sa_handler(number);
  }

  static bool install() {
    struct sigaction ours{};
    ours.sa_sigaction = &handle;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&ours.sa_mask);
    return ::sigaction(SIGBUS, &ours, &before) == 0;
  }

  static void remove() {
    struct sigaction now{};
    // A handler that came later may call ours, which then stays.
    if (::sigaction(SIGBUS, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
        now.sa_sigaction == &handle) {
      ::sigaction(SIGBUS, &before, nullptr);
      installed = false;
    }
  }

  static FileMap::Watched* add(std::uintptr_t begin, std::size_t size, const std::string& name) {
    const std::lock_guard lock(guard);
    if (!installed) installed = install();
    ++live;
    auto* one = head.load(std::memory_order_relaxed);
    while (one != nullptr && one->begin.load(std::memory_order_relaxed) != 0) one = one->next;
    const bool fresh = one == nullptr;
    if (fresh) {
      one = new FileMap::Watched;
      one->next = head.load(std::memory_order_relaxed);
    }
    const std::size_t length = std::min(name.size(), one->name.size() - 1);
    std::memcpy(one->name.data(), name.data(), length);
    one->name[length] = '\0';
    one->end.store(begin + size, std::memory_order_relaxed);
    one->begin.store(begin, std::memory_order_release);  // name and end are seen with it
    if (fresh) head.store(one, std::memory_order_release);
    return one;
  }

  static void drop(FileMap::Watched* one) {
    const std::lock_guard lock(guard);
    one->begin.store(0, std::memory_order_release);
    if (--live == 0) remove();
  }

  static bool installed;
};

constinit std::atomic<FileMap::Watched*> MapHandler::head{nullptr};
std::mutex MapHandler::guard;
std::size_t MapHandler::live = 0;
struct sigaction MapHandler::before{};
bool MapHandler::installed = false;

FileMap::FileMap(int descriptor, std::size_t size, const std::string& name) : size_(size) {
  if (size == 0) throw InputError("a map of 0 bytes was asked for; expected at least 1");
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) {
    throw StorageError("cannot map " + name + ": " + errno_text(errno), errno);
  }
  data_ = static_cast<const std::byte*>(mapped);
  watched_ = MapHandler::add(reinterpret_cast<std::uintptr_t>(mapped), size, name);
}

FileMap::~FileMap() {
  MapHandler::drop(watched_);  // first: the addresses may be someone else's right after
  ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace foregather
