// CpuFeatures: what the processor at hand can do beyond every x86-64, asked of it itself.
//
// Compilers have __builtin_cpu_supports for this, but it needs a part of the compiler's own library
// that not every one of them brings (that of ziglang does not).
#pragma once

namespace foregather {

/// What loops are compiled for besides every x86-64. Lanes of 256 and 512 bits count only where the
/// operating system keeps their registers. Elsewhere than on x86-64 all are false.
struct CpuFeatures {
  bool sse42 = false, pclmul = false, avx2 = false, f16c = false, vpclmulqdq = false;
  bool fma = false, avx512f = false;
  bool intel = false;  ///< who made it
};

/// The features of this processor; asked once.
const CpuFeatures& cpu_features();

}  // namespace foregather
