// AVX2 with FMA and F16C: 16 registers of 32 bytes. 6 x 2 accumulators, 2 vectors of b and a scalar
// fill 15. Compiled with -mavx2 -mfma -mf16c; runs only where dispatch.cpp found all of them.
#define VECTOR_BYTES 32
#include "cpu/level.h"

namespace tiled::cpu {
constexpr ChainTable AVX2 = make_chains<6, 2, 8>();
}  // namespace tiled::cpu
