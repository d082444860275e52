// The features of the processor are those that the compiler's own library finds, where it has one.
#include "base/cpu_features.hpp"
#include "tests/check.hpp"

using foregather::cpu_features;

int main() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  CHECK(cpu_features().sse42 == (__builtin_cpu_supports("sse4.2") != 0));
  CHECK(cpu_features().pclmul == (__builtin_cpu_supports("pclmul") != 0));
  CHECK(cpu_features().avx2 == (__builtin_cpu_supports("avx2") != 0));
  CHECK(cpu_features().f16c == (__builtin_cpu_supports("f16c") != 0));
  CHECK(cpu_features().vpclmulqdq == (__builtin_cpu_supports("vpclmulqdq") != 0));
  CHECK(cpu_features().fma == (__builtin_cpu_supports("fma") != 0));
  CHECK(cpu_features().avx512f == (__builtin_cpu_supports("avx512f") != 0));
  CHECK(cpu_features().intel == (__builtin_cpu_is("intel") != 0));
#elif !defined(__x86_64__)
  CHECK(!cpu_features().sse42 && !cpu_features().pclmul && !cpu_features().avx2);
  CHECK(!cpu_features().f16c && !cpu_features().vpclmulqdq && !cpu_features().intel);
  CHECK(!cpu_features().fma && !cpu_features().avx512f);
#endif
  CHECK(&cpu_features() == &cpu_features());
  return 0;
}
