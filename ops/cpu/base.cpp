// The level that every CPU of the architecture has, with vectors of 16 bytes and no flags: SSE2 on
// x86-64 (16 registers, and no fused multiply-add: the one level whose bits are its own), NEON on
// aarch64 (32 registers, fused).
#define VECTOR_BYTES 16
#include "cpu/level.h"

namespace tiled::cpu {
#ifdef __aarch64__
constexpr ChainTable BASE = make_chains<8, 3, 4>();
#else
constexpr ChainTable BASE = make_chains<4, 2, 4>();
#endif
}  // namespace tiled::cpu
