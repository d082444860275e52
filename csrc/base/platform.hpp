// Platform: what is asked of the operating system in another way on Linux than elsewhere.
//
// On Linux: direct reads (O_DIRECT), io_uring, nameless files, the processors that a process may
// use. Elsewhere, and on Linux where FOREGATHER_PORTABLE is defined, POSIX alone, and on macOS
// reads that leave the page cache alone (F_NOCACHE). What a platform does not have changes speed
// and never results.
#pragma once

#include <cstdint>
#include <string>

#if defined(__linux__) && !defined(FOREGATHER_PORTABLE)
#define FOREGATHER_LINUX 1
#else
#define FOREGATHER_LINUX 0
#endif

#if FOREGATHER_LINUX && __has_include(<linux/io_uring.h>)
#define FOREGATHER_URING 1
#else
#define FOREGATHER_URING 0
#endif

struct stat;

namespace foregather::platform {

/// Processors that this process may use, at least 1.
int allowed_processors();

/// Says that reads of the file will be scattered, so that nothing is read ahead. Only advice.
void expect_scattered_reads(int fd);

/// Makes reads of the file leave the page cache alone; returns 0, or the errno of a refusal.
int leave_page_cache(int fd);
/// Undoes that.
void use_page_cache(int fd);
/// What offsets, lengths and addresses of such reads must be multiples of: 0 = such reads are
/// refused, -1 = the system does not say, so that it must be tried.
std::int64_t direct_alignment(int fd);

/// Opens a new file in the folder that has no name and is gone when it is closed; below 0: errno.
int nameless_file(const std::string& folder);
/// A path under which an open file can be opened once more, also where it has no name.
std::string path_of(int fd);
/// Makes the file `bytes` long, with room for all of it where the file system can promise that;
/// returns 0 or an errno.
int reserve_room(int fd, std::int64_t bytes);

/// Whether two states of a file have the same time of change.
bool same_time(const struct stat& one, const struct stat& other);

}  // namespace foregather::platform
