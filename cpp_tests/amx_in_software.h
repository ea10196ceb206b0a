// AMX's instructions as plain loops, for tests of level amx on a CPU without it: slow, and right by
// what Intel's manual says. Included before amx.cpp and dispatch.cpp by cpu_core.sh (emulate); no
// other file knows of it.
#pragma once

#include <cpuid.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>

// dispatch.cpp finds every level here, and permission to use tiles.
#define __builtin_cpu_supports(name) true
#define __get_cpuid_count(leaf, part, a, b, c, d) (*(a) = *(b) = *(c) = *(d) = ~0u, 1)
#define syscall(...) 0

namespace {

struct AmxTiles {
  bool configured = false;
  uint8_t rows[8], bytes[8];
  uint8_t data[8][16][64];
};
inline AmxTiles& amx_tiles() {
  static thread_local AmxTiles tiles;
  return tiles;
}
// A tile that is used as the processor would not allow.
inline AmxTiles& amx_checked(bool right) {
  if (!right || !amx_tiles().configured) abort();
  return amx_tiles();
}

inline void amx_configure(const void* p) {
  const auto* c = static_cast<const uint8_t*>(p);
  if (c[0] != 1 || c[1] != 0) abort();  // palette, start row
  for (int i = 2; i < 16; ++i)
    if (c[i] != 0) abort();
  for (int t = 0; t < 16; ++t)
    if (t < 8 ? c[17 + 2 * t] != 0 || c[16 + 2 * t] > 64 || c[48 + t] > 16
              : c[16 + 2 * t] != 0 || c[17 + 2 * t] != 0 || c[48 + t] != 0)
      abort();
  AmxTiles& x = amx_tiles();
  x = {};
  x.configured = true;
  for (int t = 0; t < 8; ++t) x.bytes[t] = c[16 + 2 * t], x.rows[t] = c[48 + t];
}
inline void amx_zero(int t) { memset(amx_checked(true).data[t], 0, sizeof(AmxTiles::data[0])); }
inline void amx_load(int t, const void* p, int64_t stride) {
  amx_zero(t);
  for (int i = 0; i < amx_tiles().rows[t]; ++i)
    memcpy(amx_tiles().data[t][i], static_cast<const char*>(p) + i * stride, amx_tiles().bytes[t]);
}
inline void amx_store(int t, void* p, int64_t stride) {
  const AmxTiles& x = amx_checked(true);
  for (int i = 0; i < x.rows[t]; ++i)
    memcpy(static_cast<char*>(p) + i * stride, x.data[t][i], x.bytes[t]);
}

// Operands of the tile of A and the tile of B as numbers, E elements a word.
template <typename T, int E>
struct AmxOperands {
  T a[16][16 * E], b[16][16 * E];  // [row][element], [column][element]
  template <typename Number>
  AmxOperands(int tile_a, int tile_b, Number number) {
    const AmxTiles& x = amx_tiles();
    for (int row = 0; row < 16; ++row)
      for (int word = 0; word < 16; ++word)
        for (int e = 0; e < E; ++e) {
          a[row][word * E + e] = number(x.data[tile_a][row] + (word * E + e) * (4 / E));
          b[word][row * E + e] = number(x.data[tile_b][row] + (word * E + e) * (4 / E));
        }
  }
};

// sum(i, j, before) for every element of tile c. All tiles are whole.
template <typename T, typename Sum>
void amx_dot(int c, int a, int b, Sum sum) {
  for (const int t : {a, b, c})
    if (amx_tiles().rows[t] != 16 || amx_tiles().bytes[t] != 64) abort();
  AmxTiles& x = amx_checked(true);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) {
      T value;
      memcpy(&value, x.data[c][i] + j * 4, 4);
      value = sum(i, j, value);
      memcpy(x.data[c][i] + j * 4, &value, 4);
    }
}
inline void amx_bf16ps(int c, int a, int b) {
  const AmxOperands<float, 2> x(a, b, [](const uint8_t* p) {
    float value;
    const uint8_t bits[4] = {0, 0, p[0], p[1]};
    memcpy(&value, bits, 4);
    return value;
  });
  const uint32_t mode = _mm_getcsr();
  _mm_setcsr(0x9fc0);  // to nearest, subnormals are zeros, nothing traps
  amx_dot<float>(c, a, b, [&](int i, int j, float sum) {
    float even = 0, odd = 0;
    for (int k = 0; k < 32; k += 2) {
      even = __builtin_fmaf(x.a[i][k], x.b[j][k], even);
      odd = __builtin_fmaf(x.a[i][k + 1], x.b[j][k + 1], odd);
    }
    return sum + (even + odd);
  });
  _mm_setcsr(mode);
}
template <typename Byte>
void amx_bytes(int c, int a, int b) {
  const AmxOperands<uint32_t, 4> x(
      a, b, [](const uint8_t* p) { return static_cast<uint32_t>(int32_t{static_cast<Byte>(*p)}); });
  amx_dot<uint32_t>(c, a, b, [&](int i, int j, uint32_t sum) {
    for (int k = 0; k < 64; ++k) sum += x.a[i][k] * x.b[j][k];
    return sum;
  });
}

}  // namespace

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_dpbuud
#undef _tile_dpbssd
#define _tile_loadconfig amx_configure
#define _tile_release() (amx_tiles().configured = false)
#define _tile_zero amx_zero
#define _tile_loadd amx_load
#define _tile_stored amx_store
#define _tile_dpbf16ps amx_bf16ps
#define _tile_dpbuud amx_bytes<uint8_t>
#define _tile_dpbssd amx_bytes<int8_t>
