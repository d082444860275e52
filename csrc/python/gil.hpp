// GIL: releases Python's lock for the length of a block, or takes it back inside one.
//
// Once the interpreter is ending, CPython (before 3.14) ends a daemon thread that asks for the lock
// by pthread_exit, inside the call that asks. glibc unwinds the stack for that, and the unwinding
// would meet a destructor or a catch-all that cannot let it pass: the process aborts. So it is
// caught where the lock is asked for, and the thread sleeps until the process is gone, as it does
// from CPython 3.14 on. Nothing it holds is missed: its frames are never cleared.
//
// Other libraries that such a thread may be in (torch) do not catch it, and would end the process
// by std::terminate. rest_instead_of_terminate, called when the interpreter begins to end, lets the
// thread sleep there too. A true exception, and the main thread, terminate as usual.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>

namespace foregather::python {

#ifdef __GLIBCXX__
using ForcedUnwind = abi::__forced_unwind;
#else
// libc++ has no name for it: a destructor then leads to std::terminate, and so to the rest below.
struct ForcedUnwind {};
#endif

[[noreturn]] inline void sleep_until_the_end() {
  while (true) ::pause();
}

/// Others may run Python while it lives; use it as nb::gil_scoped_release.
class Released {
 public:
  Released() : state_(PyEval_SaveThread()) {}
  ~Released() {
    try {
      PyEval_RestoreThread(state_);
    } catch (ForcedUnwind&) {
      sleep_until_the_end();
    }
  }
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;

 private:
  PyThreadState* state_;
};

/// This thread may use Python while it lives; use it as nb::gil_scoped_acquire.
class Held {
 public:
  Held() : state_(take()) {}
  ~Held() { PyGILState_Release(state_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  static PyGILState_STATE take() {
    try {
      return PyGILState_Ensure();
    } catch (ForcedUnwind&) {
      sleep_until_the_end();
    }
  }
  PyGILState_STATE state_;
};

namespace detail {

inline std::terminate_handler before = nullptr;
inline pthread_t main_thread;

[[noreturn]] inline void rest_or_terminate() {
  // Forced unwinding is not a C++ exception: there is none to ask for.
  if (!std::current_exception() && ::pthread_equal(::pthread_self(), main_thread) == 0) {
    sleep_until_the_end();
  }
  if (before != nullptr) before();
  std::abort();
}

}  // namespace detail

/// For the main thread, once, when daemon threads of the program may go on until the end.
inline void rest_instead_of_terminate() {
  if (detail::before != nullptr) return;
  detail::main_thread = ::pthread_self();
  detail::before = std::set_terminate(detail::rest_or_terminate);
}

}  // namespace foregather::python
