// Check: assertions for the C++ tests that stay on in release builds and say what failed.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: CHECK(%s) failed\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (0)

#define CHECK_THROWS(statement, Type)                                                              \
  do {                                                                                             \
    bool thrown = false;                                                                           \
    try {                                                                                          \
      statement;                                                                                   \
    } catch (const Type&) {                                                                        \
      thrown = true;                                                                               \
    }                                                                                              \
    if (!thrown) {                                                                                 \
      std::fprintf(stderr, "%s:%d: %s did not throw " #Type "\n", __FILE__, __LINE__, #statement); \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (0)
