// A tensor to fp8 by blocks of 128, and its transpose, in one pass over it.
//
//     a block of threads takes a tile of 128 x 128; a warp 16 rows of it, a lane 4 neighbours of
//     each
//
//           128 columns
//         +--------------+   a row's largest is its warp's, which has an instruction for it;
//     16  | lane: 4 of a |   a column's, which the transpose wants, passes through shared memory;
//    rows | row, in      |   the tile stays in registers, 64 elements a thread
//         | registers    |
//         +--------------+   the transpose goes through shared memory as bytes
//
// Every element is read once, and written once or twice. The number of instructions bounds it
// (docs/decisions/047): sizes are compared as integers, of which NaN is the largest, two at a time
// where they have 16 bits; a lane divides for a row, not every lane for all; and what a call makes,
// and whether a tile is whole, is asked once and not for every row.
#include <cuda_fp8.h>

#include "cuda/launch/launch.h"
#include "cuda/parts/arithmetic/element.cuh"

namespace tiled {
namespace {

constexpr int SIDE = 128;
constexpr int WARPS = 8, LANES = 32;
constexpr int ROWS = SIDE / WARPS;    // of a warp
constexpr int VECTOR = SIDE / LANES;  // elements of a lane's row
constexpr int PITCH = SIDE + VECTOR;  // bytes of a row of the transpose in shared memory
// Blocks of a multiprocessor: while one computes, the loads of two others are on their way. For
// three the compiler spills some bytes.
constexpr int BLOCKS = 3;

// A lane's elements of a row, as they are.
template <typename T>
struct alignas(VECTOR * sizeof(T)) Four {
  T elements[VECTOR];
};

// The sizes of a four's numbers, as integers: two in a word where they have 16 bits.
template <typename T>
struct Sizes {
  static constexpr bool PAIRS = sizeof(T) == 2;
  static constexpr int WORDS = PAIRS ? 2 : 4;
  uint32_t words[WORDS] = {};

  static __device__ __forceinline__ Sizes of(const Four<T>& x) {
    const auto& bits = reinterpret_cast<const uint32_t (&)[WORDS]>(x);
    Sizes sizes;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) sizes.words[i] = bits[i] & (PAIRS ? 0x7fff7fffu : 0x7fffffffu);
    return sizes;
  }
  static __device__ __forceinline__ uint32_t larger(uint32_t x, uint32_t y) {
    return PAIRS ? __vmaxu2(x, y) : max(x, y);
  }
  __device__ __forceinline__ void take_larger(const Sizes& other) {
#pragma unroll
    for (int i = 0; i < WORDS; ++i) words[i] = larger(words[i], other.words[i]);
  }
  __device__ __forceinline__ uint32_t largest() const {
    uint32_t word = larger(words[0], words[1]);
    if constexpr (PAIRS)
      return max(word & 0xffff, word >> 16);
    else
      return max(word, max(words[2], words[3]));
  }
  __device__ __forceinline__ uint32_t at(int i) const {
    if constexpr (PAIRS)
      return words[i / 2] >> i % 2 * 16 & 0xffff;
    else
      return words[i];
  }
};

// The number that has this size.
template <typename T>
__device__ __forceinline__ float number_of(uint32_t size) {
  if constexpr (Sizes<T>::PAIRS) {
    const auto bits = static_cast<uint16_t>(size);
    return static_cast<float>(widen(reinterpret_cast<const T&>(bits)));
  } else {
    return __uint_as_float(size);
  }
}

// The largest of a warp, in all lanes.
__device__ __forceinline__ uint32_t largest_of_warp(uint32_t x) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffff, x);
#else
  for (int to = LANES / 2; to > 0; to /= 2) x = max(x, __shfl_xor_sync(0xffffffff, x, to));
  return x;
#endif
}

template <__nv_fp8_interpretation_t KIND>
constexpr float MOST = largest_of(KIND == __NV_E4M3 ? DType::Float8E4M3FN : DType::Float8E5M2);

// Four numbers in fp8, the first in the lowest byte.
template <__nv_fp8_interpretation_t KIND>
__device__ __forceinline__ uint32_t to_fp8(float a, float b, float c, float d) {
  const uint16_t low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, KIND);
  const uint16_t high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, KIND);
  return low | uint32_t{high} << 16;
}

// Four bytes of a row, of which `left` exist from here on. WHOLE: all do, at a multiple of four.
template <bool WHOLE>
__device__ __forceinline__ void store_four(uint8_t* to, uint32_t four, int64_t left, bool aligned) {
  if (WHOLE || (aligned && left >= VECTOR)) {
    *reinterpret_cast<uint32_t*>(to) = four;
  } else {
#pragma unroll
    for (int j = 0; j < VECTOR; ++j)
      if (j < left) to[j] = static_cast<uint8_t>(four >> 8 * j);
  }
}

template <typename T>
struct Shared {
  Sizes<T> of_warps[WARPS][LANES];  // largest of a warp's rows, by columns
  alignas(16) uint8_t turned[SIDE * PITCH];
};

// The results: rows with a scale for each of them, the transpose too, or either with one scale
// for a tile.
enum class Makes { Rows, RowsAndTranspose, Squares };

// A tile of the tensor.
struct Place {
  int64_t entry, block_x, block_y, k_blocks, row_blocks;  // the last two: of how many
};

// The tile's transpose, through shared memory. inverse: of a square's one scale.
template <typename T, __nv_fp8_interpretation_t KIND, bool SQUARE, bool WHOLE>
__device__ __forceinline__ void transpose_tile(const Quantization& p, const Place& place,
                                               const Four<T> (&x)[ROWS], const Sizes<T>& of_columns,
                                               float inverse, Shared<T>& shared) {
  const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  const int64_t column0 = place.block_x * SIDE + lane * VECTOR, columns = p.columns - column0;
  const auto value = [&](int i, int j) { return static_cast<float>(widen(x[i].elements[j])); };
#pragma unroll
  for (int j = 0; j < VECTOR; ++j) {
    float of_column = inverse;
    if constexpr (!SQUARE) {
      const float scale = scale_of(number_of<T>(of_columns.at(j)), MOST<KIND>);
      of_column = 1 / scale;
      if (warp == 0 && (WHOLE || j < columns))
        p.scale_t[(place.entry * place.row_blocks + place.block_y) * p.columns + column0 + j] =
            scale;
    }
    uint8_t* column = shared.turned + (lane * VECTOR + j) * PITCH + warp * ROWS;
#pragma unroll
    for (int i = 0; i < ROWS; i += VECTOR)
      *reinterpret_cast<uint32_t*>(column + i) =
          to_fp8<KIND>(value(i, j) * of_column, value(i + 1, j) * of_column,
                       value(i + 2, j) * of_column, value(i + 3, j) * of_column);
  }
  __syncthreads();
  // A warp writes 16 rows of the transpose.
  const int64_t first = place.block_x * SIDE + warp * ROWS,
                at = place.block_y * SIDE + lane * VECTOR;
  uint8_t* data_t =
      static_cast<uint8_t*>(p.data_t) + (place.entry * p.columns + first) * p.rows + at;
  const uint8_t* turned = shared.turned + warp * ROWS * PITCH + lane * VECTOR;
#pragma unroll
  for (int i = 0; i < ROWS; ++i, data_t += p.rows) {
    if (!WHOLE && first + i >= p.columns) break;
    store_four<WHOLE>(data_t, *reinterpret_cast<const uint32_t*>(turned + i * PITCH), p.rows - at,
                      p.rows % VECTOR == 0);
  }
}

// WHOLE: none of it is beyond the tensor's end, and fours of all its rows are at multiples of their
// size, here and in the result.
template <typename T, __nv_fp8_interpretation_t KIND, Makes MAKES, bool WHOLE>
__device__ __forceinline__ void quantize_tile(const Quantization& p, const Place& place,
                                              Shared<T>& shared) {
  constexpr bool SQUARE = MAKES == Makes::Squares;
  const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  const int64_t row0 = place.block_y * SIDE + warp * ROWS;
  const int64_t column0 = place.block_x * SIDE + lane * VECTOR;
  const int64_t rows = p.rows - row0, columns = p.columns - column0;  // that are left

  const T* from =
      static_cast<const T*>(p.x) + place.entry * p.entry_stride + row0 * p.row_stride + column0;
  Four<T> x[ROWS];  // all loads are on their way before the first is needed
#pragma unroll
  for (int i = 0; i < ROWS; ++i, from += p.row_stride) {
    if constexpr (WHOLE) {
      x[i] = *reinterpret_cast<const Four<T>*>(from);
    } else {
#pragma unroll
      for (int j = 0; j < VECTOR; ++j)
        x[i].elements[j] = i < rows && j < columns ? from[j] : T(0.f);
    }
  }
  const auto value = [&](int i, int j) { return static_cast<float>(widen(x[i].elements[j])); };

  Sizes<T> of_columns;
  uint32_t of_row = 0;  // lane i has row i's
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    const Sizes<T> sizes = Sizes<T>::of(x[i]);
    if constexpr (MAKES != Makes::Rows) of_columns.take_larger(sizes);
    if constexpr (!SQUARE) {
      const uint32_t largest = largest_of_warp(sizes.largest());
      if (lane == i) of_row = largest;
    }
  }
  if constexpr (MAKES != Makes::Rows) {
    shared.of_warps[warp][lane] = of_columns;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < WARPS; ++w) of_columns.take_larger(shared.of_warps[w][lane]);
  }
  float inverse = 0;  // of the tile, or lane i has row i's
  if constexpr (SQUARE) {
    const float scale = scale_of(number_of<T>(largest_of_warp(of_columns.largest())), MOST<KIND>);
    inverse = 1 / scale;
    if (threadIdx.x == 0)
      p.scale[(place.entry * place.row_blocks + place.block_y) * place.k_blocks + place.block_x] =
          scale;
  } else {
    const float scale = scale_of(number_of<T>(of_row), MOST<KIND>);
    inverse = 1 / scale;
    if (lane < ROWS && (WHOLE || lane < rows))
      p.scale[(place.entry * place.k_blocks + place.block_x) * p.rows + row0 + lane] = scale;
  }

  uint8_t* data =
      static_cast<uint8_t*>(p.data) + (place.entry * p.rows + row0) * p.columns + column0;
#pragma unroll
  for (int i = 0; i < ROWS; ++i, data += p.columns) {
    if (!WHOLE && i >= rows) break;
    const float of_this = SQUARE ? inverse : __shfl_sync(0xffffffff, inverse, i);
    const uint32_t four = to_fp8<KIND>(value(i, 0) * of_this, value(i, 1) * of_this,
                                       value(i, 2) * of_this, value(i, 3) * of_this);
    store_four<WHOLE>(data, four, columns, p.columns % VECTOR == 0);
  }
  if constexpr (MAKES != Makes::Rows)
    if (p.data_t != nullptr)
      transpose_tile<T, KIND, SQUARE, WHOLE>(p, place, x, of_columns, inverse, shared);
}

// vectors: fours of all rows are at multiples of their size.
template <typename T, __nv_fp8_interpretation_t KIND, Makes MAKES>
__global__ void __launch_bounds__(WARPS* LANES, BLOCKS)
    quantize(const __grid_constant__ Quantization p, bool vectors) {
  __shared__ Shared<T> shared;
  Place place;
  place.k_blocks = (p.columns + SIDE - 1) / SIDE, place.row_blocks = (p.rows + SIDE - 1) / SIDE;
  place.entry = blockIdx.x / (place.k_blocks * place.row_blocks);
  place.block_x = blockIdx.x % place.k_blocks;
  place.block_y = blockIdx.x / place.k_blocks % place.row_blocks;
  const bool is_whole =
      vectors && (place.block_y + 1) * SIDE <= p.rows && (place.block_x + 1) * SIDE <= p.columns;
  if (is_whole)
    quantize_tile<T, KIND, MAKES, true>(p, place, shared);
  else
    quantize_tile<T, KIND, MAKES, false>(p, place, shared);
}

template <typename T, __nv_fp8_interpretation_t KIND>
auto kernel_of(const Quantization& p) {
  if (p.square) return &quantize<T, KIND, Makes::Squares>;
  return p.data_t == nullptr ? &quantize<T, KIND, Makes::Rows>
                             : &quantize<T, KIND, Makes::RowsAndTranspose>;
}

template <typename T>
cudaError_t launch_of(const Quantization& p, cudaStream_t stream) {
  const int64_t tiles = p.entries * ((p.rows + SIDE - 1) / SIDE) * ((p.columns + SIDE - 1) / SIDE);
  const bool vectors = reinterpret_cast<uintptr_t>(p.x) % (VECTOR * sizeof(T)) == 0 &&
                       p.row_stride % VECTOR == 0 && p.entry_stride % VECTOR == 0 &&
                       p.columns % VECTOR == 0 && (p.data_t == nullptr || p.rows % VECTOR == 0);
  const auto kernel =
      p.to == DType::Float8E4M3FN ? kernel_of<T, __NV_E4M3>(p) : kernel_of<T, __NV_E5M2>(p);
  kernel<<<static_cast<unsigned>(tiles), WARPS * LANES, 0, stream>>>(p, vectors);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_quantize(const Quantization& p, cudaStream_t stream) {
  if (p.entries == 0 || p.rows == 0 || p.columns == 0) return cudaSuccess;
  switch (p.from) {
    case DType::Float32: return launch_of<float>(p, stream);
    case DType::Float16: return launch_of<__half>(p, stream);
    case DType::BFloat16: return launch_of<__nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace tiled
