// A copy to shared memory of which not all need exist. cp.async fills up with zeros what it is told
// not to read, but its address has to be good for all of its bytes. Where they reach beyond the end
// of the matrix, which may be that of the memory, it is asked only for words that exist as a whole,
// and a thread stores the last itself. Whoever waits for the copies and then meets the others at a
// barrier sees both.
#pragma once

#include <vector_functions.h>

#include <cstdint>

#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/shared.cuh"

namespace tiled {

// A byte without its sign.
template <typename Byte>
__device__ __forceinline__ uint8_t bits_of(Byte byte) {
  return static_cast<uint8_t>(byte);
}

// The first `count` elements, fewer than a word has, as a word; the others are zero.
template <typename T>
__device__ __forceinline__ uint32_t word_of(const T* from, int count) {
  uint32_t word = 0;
  if constexpr (sizeof(T) == 2) {
    if (count > 0) word = reinterpret_cast<const uint16_t&>(*from);
  } else if constexpr (sizeof(T) == 1) {
#pragma unroll
    for (int i = 0; i < 3; ++i)
      if (i < count) word |= uint32_t{bits_of(from[i])} << 8 * i;
  }
  return word;
}

// BYTES from `from`, both at multiples of as many; the first `bytes` are read.
template <int BYTES>
__device__ __forceinline__ void copy_async(uint32_t shared, const void* from, int bytes) {
  if constexpr (BYTES == 16)
    ptx::cp_async_16(shared, from, bytes);
  else if constexpr (BYTES == 8)
    ptx::cp_async_8(shared, from, bytes);
  else
    ptx::cp_async_4(shared, from, bytes);
}

template <int BYTES>
__device__ __forceinline__ void clear_shared(uint32_t shared) {
  if constexpr (BYTES == 16)
    ptx::store_shared_v4(shared, make_uint4(0, 0, 0, 0));
  else {
#pragma unroll
    for (int i = 0; i < BYTES; i += 4) ptx::store_shared_u32(shared + i, 0);
  }
}

// BYTES of which only the first `count` elements exist, some but not all; the others become zero.
template <int BYTES, typename T>
__device__ __forceinline__ void copy_part(uint32_t shared, const T* from, int count) {
  constexpr int PER_WORD = 4 / sizeof(T);
#pragma unroll 1
  for (int i = 0; i < BYTES; i += 4, from += PER_WORD, count -= PER_WORD) {
    if (count >= PER_WORD)
      ptx::cp_async_4(shared + i, from);
    else
      ptx::store_shared_u32(shared + i, word_of(from, count));
  }
}

}  // namespace tiled
