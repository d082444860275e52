// shim: makes one input or output call of a process go wrong, chosen by its number.
//
// Loaded before libc (LD_PRELOAD), it stands in front of the calls by which a program reaches
// files, counts those that concern the folder FAULTS_ROOT (by path, or by a descriptor that was
// opened there), and fails number N as shim_arm says. All else passes through.
//
// Only calls that can fail in the given way are counted: a full disk is no answer to a read.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
#include <dirent.h>

enum Kind { kNone, kEio, kGone, kNospc, kEintr, kShort, kKill };
// What a call can do: fail at all, run out of space, be interrupted, transfer less than asked.
enum Can { cFail = 1, cSpace = 2, cIntr = 4, cShort = 8 };

static atomic_int kind = kNone;
static atomic_long target, count, fired;
static char root[PATH_MAX];
static size_t root_length;
static atomic_char inside[65536];  // by descriptor: below the root 1, or 2 where it can be written
static char fired_name[32];

void shim_arm(int what, long number) {
  const char *folder = getenv("FAULTS_ROOT");
  if (folder == NULL || realpath(folder, root) == NULL) abort();
  root_length = strlen(root);
  atomic_store(&target, number);
  atomic_store(&count, 0);
  atomic_store(&fired, 0);
  atomic_store(&kind, what);
}

long shim_count(void) { return atomic_load(&count); }
long shim_fired(void) { return atomic_load(&fired); }
const char *shim_fired_name(void) { return fired_name; }

static int below(const char *path) {
  return strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || !path[root_length]);
}

static int on_fd(int fd) {
  return fd >= 0 && fd < (int)sizeof inside ? atomic_load(&inside[fd]) : 0;
}

// Relative names count if the directory they start from does.
static int on_path(int at, const char *path) {
  if (atomic_load(&kind) == kNone || path == NULL) return 0;
  if (path[0] == '/') return below(path);
  if (at != AT_FDCWD) return on_fd(at);
  char here[PATH_MAX];
  return syscall(SYS_getcwd, here, sizeof here) > 0 && below(here);
}

// The answer to a call: 0 to pass it on, else the error it gets; -1 for a short transfer.
static int fate(const char *name, int can) {
  const int what = atomic_load(&kind);
  int fits = 0, answer = 0;
  switch (what) {
    case kNone: return 0;
    case kEio: case kGone: fits = can & cFail, answer = EIO; break;
    case kNospc: fits = can & cSpace, answer = ENOSPC; break;
    case kEintr: fits = can & cIntr, answer = EINTR; break;
    case kShort: fits = can & cShort, answer = -1; break;
    case kKill: fits = 1; break;
  }
  if (!fits) return 0;
  const long number = atomic_fetch_add(&count, 1) + 1, wanted = atomic_load(&target);
  const int lasts = what == kGone || what == kNospc;  // a full disk stays full
  if (wanted == 0 || number < wanted || (number > wanted && !lasts)) return 0;
  if (what == kKill) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
  }
  if (atomic_exchange(&fired, 1) == 0) strncpy(fired_name, name, sizeof fired_name - 1);
  return answer;
}

#define REAL(name) \
  static __typeof__(&name) real; \
  if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define FAIL(error) return (errno = (error), -1)
#define JUDGE(concerns, name, can) \
  if (concerns) { \
    const int error = fate(name, can); \
    if (error > 0) FAIL(error); \
  }

static int track(int fd, int is_inside) {
  if (fd >= 0 && fd < (int)sizeof inside) atomic_store(&inside[fd], (char)is_inside);
  return fd;
}

// ---- opening and closing -----------------------------------------------------------------------

#define MODE() \
  mode_t mode = 0; \
  if (flags & (O_CREAT | __O_TMPFILE)) { \
    va_list rest; \
    va_start(rest, flags); \
    mode = va_arg(rest, mode_t); \
    va_end(rest); \
  }
#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    REAL(name); \
    MODE(); \
    const int ours = on_path(AT_FDCWD, path); \
    JUDGE(ours, "open", cFail | cIntr | (flags & O_CREAT ? cSpace : 0)); \
    return track(real(path, flags, mode), ours ? 1 + (flags & O_ACCMODE ? 1 : 0) : 0); \
  }
#define OPENAT(name) \
  int name(int at, const char *path, int flags, ...) { \
    REAL(name); \
    MODE(); \
    const int ours = on_path(at, path); \
    JUDGE(ours, "open", cFail | cIntr | (flags & O_CREAT ? cSpace : 0)); \
    return track(real(at, path, flags, mode), ours ? 1 + (flags & O_ACCMODE ? 1 : 0) : 0); \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
  REAL(close);
  const int ours = on_fd(fd);
  track(fd, 0);
  // What was written may be refused as late as here; the descriptor is gone in any case.
  const int error = ours == 2 ? fate("close", cFail) : 0;
  const int done = real(fd);
  if (error > 0) FAIL(error);
  return done;
}

int dup(int fd) {
  REAL(dup);
  return track(real(fd), on_fd(fd));
}
int dup2(int fd, int other) {
  REAL(dup2);
  return track(real(fd, other), on_fd(fd));
}
int dup3(int fd, int other, int flags) {
  REAL(dup3);
  return track(real(fd, other, flags), on_fd(fd));
}
#define FCNTL(name) \
  int name(int fd, int command, ...) { \
    REAL(name); \
    va_list rest; \
    va_start(rest, command); \
    void *argument = va_arg(rest, void *); \
    va_end(rest); \
    const int done = real(fd, command, argument); \
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) track(done, on_fd(fd)); \
    return done; \
  }
FCNTL(fcntl)
FCNTL(fcntl64)

DIR *opendir(const char *path) {
  REAL(opendir);
  if (on_path(AT_FDCWD, path)) {
    const int error = fate("opendir", cFail);
    if (error > 0) return (errno = error, NULL);
  }
  return real(path);
}
DIR *fdopendir(int fd) {
  REAL(fdopendir);
  if (on_fd(fd)) {
    const int error = fate("opendir", cFail);
    if (error > 0) return (errno = error, NULL);
  }
  return real(fd);
}

// ---- reading and writing -----------------------------------------------------------------------

enum { kReads = cFail | cIntr | cShort, kWrites = cFail | cIntr | cShort | cSpace };

static int direct(int fd) { return (int)syscall(SYS_fcntl, fd, F_GETFL) & O_DIRECT; }

// A count that a file opened past the page cache accepts too; 0 where there is none.
static size_t half(int fd, size_t size) {
  return direct(fd) ? size / 2 / 4096 * 4096 : size / 2;
}

#define TRANSFER(said, can) \
  if (on_fd(fd)) { \
    const size_t less = half(fd, size); \
    const int error = fate(said, less ? (can) : (can) & ~cShort); \
    if (error > 0) FAIL(error); \
    if (error < 0) size = less; \
  }

ssize_t read(int fd, void *data, size_t size) {
  REAL(read);
  TRANSFER("read", kReads)
  return real(fd, data, size);
}
ssize_t write(int fd, const void *data, size_t size) {
  REAL(write);
  TRANSFER("write", kWrites)
  return real(fd, data, size);
}
#define PREAD(name, offset) \
  ssize_t name(int fd, void *data, size_t size, offset at) { \
    REAL(name); \
    TRANSFER("pread", kReads) \
    return real(fd, data, size, at); \
  }
#define PWRITE(name, offset) \
  ssize_t name(int fd, const void *data, size_t size, offset at) { \
    REAL(name); \
    TRANSFER("pwrite", kWrites) \
    return real(fd, data, size, at); \
  }
PREAD(pread, off_t)
PREAD(pread64, off64_t)
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

// Vectors: a short one is the first part alone, or half of it where there is no other.
#define VECTOR(said, can) \
  struct iovec first; \
  if (on_fd(fd)) { \
    const size_t less = number > 0 ? half(fd, parts[0].iov_len) : 0; \
    const int error = fate(said, number > 1 || less ? (can) : (can) & ~cShort); \
    if (error > 0) FAIL(error); \
    if (error < 0 && number > 1) number = 1; \
    else if (error < 0) first = parts[0], first.iov_len = less, parts = &first; \
  }
ssize_t readv(int fd, const struct iovec *parts, int number) {
  REAL(readv);
  VECTOR("readv", kReads)
  return real(fd, parts, number);
}
ssize_t writev(int fd, const struct iovec *parts, int number) {
  REAL(writev);
  VECTOR("writev", kWrites)
  return real(fd, parts, number);
}
#define POSITIONED(name, offset, can) \
  ssize_t name(int fd, const struct iovec *parts, int number, offset at) { \
    REAL(name); \
    VECTOR(#name, can) \
    return real(fd, parts, number, at); \
  }
POSITIONED(preadv, off_t, kReads)
POSITIONED(preadv64, off64_t, kReads)
POSITIONED(pwritev, off_t, kWrites)
POSITIONED(pwritev64, off64_t, kWrites)
#define POSITIONED2(name, offset, can) \
  ssize_t name(int fd, const struct iovec *parts, int number, offset at, int flags) { \
    REAL(name); \
    VECTOR(#name, can) \
    return real(fd, parts, number, at, flags); \
  }
POSITIONED2(preadv2, off_t, kReads)
POSITIONED2(preadv64v2, off64_t, kReads)
POSITIONED2(pwritev2, off_t, kWrites)
POSITIONED2(pwritev64v2, off64_t, kWrites)

ssize_t copy_file_range(int from, off64_t *at, int fd, off64_t *to, size_t size, unsigned flags) {
  REAL(copy_file_range);
  if (!on_fd(fd)) return real(from, at, fd, to, size, flags);
  TRANSFER("copy_file_range", kWrites & ~cIntr)
  return real(from, at, fd, to, size, flags);
}
ssize_t sendfile64(int fd, int from, off64_t *at, size_t size) {
  REAL(sendfile64);
  TRANSFER("sendfile", kWrites & ~cIntr)
  return real(fd, from, at, size);
}

// ---- sizes, maps and syncs ---------------------------------------------------------------------

#define ON_FD(name, said, can, declared, given) \
  int name declared { \
    REAL(name); \
    JUDGE(on_fd(fd), said, can); \
    return real given; \
  }
// Not passed on below the root: a killed process loses no page cache, and waiting for a disk
// would take most of the time.
#define SYNC(name) \
  int name(int fd) { \
    REAL(name); \
    const int ours = on_fd(fd); \
    JUDGE(ours, #name, cFail | cIntr | cSpace); \
    return ours ? 0 : real(fd); \
  }
SYNC(fsync)
SYNC(fdatasync)
ON_FD(ftruncate, "ftruncate", cFail | cIntr | cSpace, (int fd, off_t size), (fd, size))
ON_FD(ftruncate64, "ftruncate", cFail | cIntr | cSpace, (int fd, off64_t size), (fd, size))
ON_FD(fallocate, "fallocate", cFail | cIntr | cSpace, (int fd, int mode, off_t at, off_t size),
      (fd, mode, at, size))
ON_FD(fallocate64, "fallocate", cFail | cIntr | cSpace,
      (int fd, int mode, off64_t at, off64_t size), (fd, mode, at, size))
ON_FD(flock, "flock", cFail | cIntr, (int fd, int how), (fd, how))

#define RESERVE(name, offset) \
  int name(int fd, offset at, offset size) { \
    REAL(name); \
    const int error = on_fd(fd) ? fate("posix_fallocate", cFail | cIntr | cSpace) : 0; \
    return error > 0 ? error : real(fd, at, size); \
  }
RESERVE(posix_fallocate, off_t)
RESERVE(posix_fallocate64, off64_t)

#define MAP(name, offset) \
  void *name(void *hint, size_t size, int rights, int flags, int fd, offset at) { \
    REAL(name); \
    if (on_fd(fd)) { \
      const int error = fate("mmap", cFail); \
      if (error > 0) return (errno = error, MAP_FAILED); \
    } \
    return real(hint, size, rights, flags, fd, at); \
  }
MAP(mmap, off_t)
MAP(mmap64, off64_t)

// ---- names -------------------------------------------------------------------------------------

#define ON_PATH(name, can, declared, given, concerns) \
  int name declared { \
    REAL(name); \
    JUDGE(concerns, #name, can); \
    return real given; \
  }
#define HERE(path) on_path(AT_FDCWD, path)
ON_PATH(unlink, cFail, (const char *path), (path), HERE(path))
ON_PATH(unlinkat, cFail, (int at, const char *path, int flags), (at, path, flags),
        on_path(at, path))
ON_PATH(rmdir, cFail, (const char *path), (path), HERE(path))
ON_PATH(mkdir, cFail | cSpace, (const char *path, mode_t mode), (path, mode), HERE(path))
ON_PATH(mkdirat, cFail | cSpace, (int at, const char *path, mode_t mode), (at, path, mode),
        on_path(at, path))
ON_PATH(rename, cFail | cSpace, (const char *path, const char *to), (path, to), HERE(path))
ON_PATH(renameat, cFail | cSpace, (int at, const char *path, int there, const char *to),
        (at, path, there, to), on_path(at, path))
ON_PATH(renameat2, cFail | cSpace,
        (int at, const char *path, int there, const char *to, unsigned flags),
        (at, path, there, to, flags), on_path(at, path))
ON_PATH(link, cFail | cSpace, (const char *path, const char *to), (path, to), HERE(to))
ON_PATH(linkat, cFail | cSpace,
        (int at, const char *path, int there, const char *to, int flags),
        (at, path, there, to, flags), on_path(there, to))
ON_PATH(symlink, cFail | cSpace, (const char *path, const char *to), (path, to), HERE(to))

// ---- rings of requests -------------------------------------------------------------------------

// A ring reads descriptors that were registered with it; every wait of a process that has one open
// below the root counts.
long syscall(long number, ...) {
  va_list rest;
  va_start(rest, number);
  long a[6];
  for (int i = 0; i < 6; ++i) a[i] = va_arg(rest, long);
  va_end(rest);
  if (number == SYS_io_uring_enter) {
    JUDGE(1, "io_uring_enter", cFail | cIntr);
  }
  REAL(syscall);
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
