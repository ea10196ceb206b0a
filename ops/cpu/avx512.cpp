// AVX-512: 32 registers of 64 bytes. 14 x 2 accumulators, 2 vectors of b and a scalar fill 31, and
// so do 9 x 3 accumulators, which take fewer loads and fewer registers for addresses. Compiled with
// -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c; runs only where dispatch.cpp
// found all of them.
#define VECTOR_BYTES 64
#include "cpu/level.h"

namespace tiled::cpu {
constexpr ChainTable AVX512 = make_chains<14, 2, 16>();
}  // namespace tiled::cpu
