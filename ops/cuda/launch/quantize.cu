// A tensor to fp8 by blocks of 128, and its transpose, in one pass over it.
//
//     a block of threads takes tiles of 128 x 128, one after the other; a warp 16 rows of each, a
//     lane 4 neighbours of a row
//
//           128 columns
//         +--------------+   a row's largest is its warp's, which has an instruction for it;
//     16  | lane: 4 of a |   a column's, which the transpose wants, passes through shared memory;
//    rows | row, in      |   the tile stays in registers, 64 elements a thread
//         | registers    |
//         +--------------+   the transpose goes through shared memory as bytes
//
// Every element is read once, and written once or twice. While a tile is computed the next one is
// on its way to shared memory, where each thread has a place for what it reads: so memory is never
// idle, and no thread waits for another's copies. Sizes of elements are compared as integers, of
// which NaN is the largest; a lane divides for a row, not every lane for all.
#include <cuda_fp8.h>

#include <algorithm>
#include <cstddef>

#include "cuda/launch/quantize.h"
#include "cuda/parts/dynamic_shared.h"
#include "cuda/parts/element.cuh"
#include "cuda/ptx/cp_async.cuh"

namespace tiled {
namespace {

constexpr int SIDE = 128;
constexpr int WARPS = 8, LANES = 32;
constexpr int ROWS = SIDE / WARPS;    // of a warp
constexpr int VECTOR = SIDE / LANES;  // elements of a lane's row
constexpr int PITCH = SIDE + VECTOR;  // bytes of a row of the transpose in shared memory

struct alignas(4) Fp8x4 {
  uint8_t bytes[VECTOR];
};

// The bits of a number's size.
__device__ __forceinline__ uint32_t size_of_float(float x) {
  return __float_as_uint(x) & 0x7fffffffu;
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

__device__ __forceinline__ Fp8x4 to_fp8(float a, float b, float c, float d,
                                        __nv_fp8_interpretation_t kind) {
  const uint16_t low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, kind);
  const uint16_t high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, kind);
  const uint32_t four = low | uint32_t{high} << 16;
  return reinterpret_cast<const Fp8x4&>(four);
}

template <typename T>
struct alignas(VECTOR * sizeof(T)) Four {
  T elements[VECTOR];
};

// A block's shared memory.
template <typename T>
struct Shared {
  uint32_t of_warps[WARPS][SIDE];  // largest of a warp's rows, by columns
  alignas(16) uint8_t turned[SIDE * PITCH];
  alignas(16) Four<T> next[ROWS][WARPS * LANES];  // the next tile's, each thread's own
};

// A tile of the tensor, and a thread's place there.
struct Place {
  int64_t entry, block_x, block_y, row0, column0;
  bool is_whole;
  __device__ __forceinline__ Place(const Quantization& p, int64_t tile, int64_t row_blocks,
                                   int64_t k_blocks) {
    entry = tile / (k_blocks * row_blocks);
    block_x = tile % k_blocks, block_y = tile / k_blocks % row_blocks;
    row0 = block_y * SIDE + threadIdx.x / LANES * ROWS;
    column0 = block_x * SIDE + threadIdx.x % LANES * VECTOR;
    is_whole = (block_y + 1) * SIDE <= p.rows && (block_x + 1) * SIDE <= p.columns;
  }
  template <typename T>
  __device__ __forceinline__ const T* data(const Quantization& p) const {
    return static_cast<const T*>(p.x) + entry * p.entry_stride + row0 * p.row_stride + column0;
  }
};

// Begins the copies of a thread's fours.
template <typename T>
__device__ __forceinline__ void begin_copies(const T* from, int64_t row_stride, Shared<T>& shared) {
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(&shared.next[0][threadIdx.x]));
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    const uint32_t at = to + i * static_cast<uint32_t>(sizeof(shared.next[0]));
    if constexpr (sizeof(Four<T>) == 16)
      ptx::cp_async_16(at, from + i * row_stride);
    else
      ptx::cp_async_8(at, from + i * row_stride);
  }
}

// A lane's elements of its warp's rows, as they are: all loads are on their way before the first is
// needed. A tile at the edge, or at other addresses, is read by elements, with zeros beyond the
// end.
template <typename T>
__device__ __forceinline__ void load_rows(const T* from, int64_t row_stride, bool by_fours,
                                          int64_t rows, int64_t columns, Four<T> (&x)[ROWS]) {
  if (by_fours) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) x[i] = *reinterpret_cast<const Four<T>*>(from + i * row_stride);
    return;
  }
#pragma unroll
  for (int i = 0; i < ROWS; ++i)
#pragma unroll
    for (int j = 0; j < VECTOR; ++j)
      x[i].elements[j] = i < rows && j < columns ? from[i * row_stride + j] : T(0.f);
}

__device__ __forceinline__ void store_row(uint8_t* to, Fp8x4 row, int64_t count, bool vectors) {
  if (vectors && count >= VECTOR) {
    *reinterpret_cast<Fp8x4*>(to) = row;
  } else {
#pragma unroll
    for (int j = 0; j < VECTOR; ++j)
      if (j < count) to[j] = row.bytes[j];
  }
}

// A tile, of which the thread has x.
template <typename T>
__device__ __forceinline__ void quantize_tile(const Quantization& p, const Place& place,
                                              const Four<T> (&x)[ROWS], int64_t row_blocks,
                                              int64_t k_blocks, Shared<T>& shared) {
  const auto& [entry, block_x, block_y, row0, column0, is_whole] = place;
  auto& of_warps = shared.of_warps;
  auto& turned = shared.turned;
  const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  const float most = largest_of(p.to);
  const auto kind = p.to == DType::Float8E4M3FN ? __NV_E4M3 : __NV_E5M2;
  const auto value = [&](int i, int j) { return static_cast<float>(widen(x[i].elements[j])); };

  uint32_t of_columns[VECTOR] = {}, of_row = 0;  // of_row: lane i has row i's
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    uint32_t largest = 0;
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) {
      const uint32_t size = size_of_float(value(i, j));
      largest = max(largest, size);
      of_columns[j] = max(of_columns[j], size);
    }
    if (p.square) continue;
    largest = largest_of_warp(largest);
    if (lane == i) of_row = largest;
  }
  if (p.square || p.data_t != nullptr) {
    using Four = uint32_t[VECTOR];
    reinterpret_cast<uint4&>(of_warps[warp][lane * VECTOR]) =
        make_uint4(of_columns[0], of_columns[1], of_columns[2], of_columns[3]);
    __syncthreads();
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      const uint4 four = reinterpret_cast<const uint4&>(of_warps[w][lane * VECTOR]);
      const auto& of_warp = reinterpret_cast<const Four&>(four);
#pragma unroll
      for (int j = 0; j < VECTOR; ++j) of_columns[j] = max(of_columns[j], of_warp[j]);
    }
  }
  float inverse_of_row, inverse_of_column[VECTOR];
  if (p.square) {
    uint32_t largest = max(max(of_columns[0], of_columns[1]), max(of_columns[2], of_columns[3]));
    const float scale = scale_of(__uint_as_float(largest_of_warp(largest)), most);
    inverse_of_row = 1 / scale;
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) inverse_of_column[j] = inverse_of_row;
    if (threadIdx.x == 0) p.scale[(entry * row_blocks + block_y) * k_blocks + block_x] = scale;
  } else {
    const float scale = scale_of(__uint_as_float(of_row), most);
    inverse_of_row = 1 / scale;
    if (lane < ROWS && row0 + lane < p.rows)
      p.scale[(entry * k_blocks + block_x) * p.rows + row0 + lane] = scale;
  }

  auto* data = static_cast<uint8_t*>(p.data) + entry * p.rows * p.columns;
  const bool aligned = p.columns % VECTOR == 0;
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    if (row0 + i >= p.rows) continue;
    const float inverse = p.square ? inverse_of_row : __shfl_sync(0xffffffff, inverse_of_row, i);
    const Fp8x4 row = to_fp8(value(i, 0) * inverse, value(i, 1) * inverse, value(i, 2) * inverse,
                             value(i, 3) * inverse, kind);
    store_row(data + (row0 + i) * p.columns + column0, row, p.columns - column0, aligned);
  }
  if (p.data_t == nullptr) return;

#pragma unroll
  for (int j = 0; j < VECTOR; ++j) {
    float scale = 0;
    if (!p.square) {
      scale = scale_of(__uint_as_float(of_columns[j]), most);
      inverse_of_column[j] = 1 / scale;
    }
    const float inverse = inverse_of_column[j];
    uint8_t* column = turned + (lane * VECTOR + j) * PITCH + warp * ROWS;
#pragma unroll
    for (int i = 0; i < ROWS; i += VECTOR) {
      *reinterpret_cast<Fp8x4*>(column + i) =
          to_fp8(value(i, j) * inverse, value(i + 1, j) * inverse, value(i + 2, j) * inverse,
                 value(i + 3, j) * inverse, kind);
    }
    if (!p.square && warp == 0 && column0 + j < p.columns)
      p.scale_t[(entry * row_blocks + block_y) * p.columns + column0 + j] = scale;
  }
  __syncthreads();
  auto* data_t = static_cast<uint8_t*>(p.data_t) + entry * p.rows * p.columns;
  const int64_t at = block_y * SIDE + lane * VECTOR;
  for (int i = warp; i < SIDE && block_x * SIDE + i < p.columns; i += WARPS)
    store_row(data_t + (block_x * SIDE + i) * p.rows + at,
              *reinterpret_cast<const Fp8x4*>(turned + i * PITCH + lane * VECTOR), p.rows - at,
              p.rows % VECTOR == 0);
}

// `count` tiles for each block. vectors: a thread may read fours at once. ahead: there is room in
// shared memory for the next tile's.
template <typename T>
__global__ void __launch_bounds__(WARPS* LANES)
    quantize(const __grid_constant__ Quantization p, int64_t count, bool vectors, bool ahead) {
  extern __shared__ __align__(16) uint8_t memory[];
  auto& shared = reinterpret_cast<Shared<T>&>(memory);
  const int64_t k_blocks = (p.columns + SIDE - 1) / SIDE, row_blocks = (p.rows + SIDE - 1) / SIDE;
  const int64_t tiles = p.entries * row_blocks * k_blocks, first = int64_t{blockIdx.x} * count;
  const int64_t end = min(first + count, tiles);
  const auto place_of = [&](int64_t tile) { return Place(p, tile, row_blocks, k_blocks); };
  const auto comes_ahead = [&](const Place& place) { return ahead && vectors && place.is_whole; };
  const auto begin = [&](int64_t tile) {
    const Place place = place_of(tile);
    if (comes_ahead(place)) begin_copies(place.data<T>(p), p.row_stride, shared);
    ptx::cp_async_commit_group();
  };
  begin(first);
  for (int64_t tile = first; tile < end; ++tile) {
    const Place place = place_of(tile);
    Four<T> x[ROWS];
    ptx::cp_async_wait_group<0>();
    if (comes_ahead(place)) {
#pragma unroll
      for (int i = 0; i < ROWS; ++i) x[i] = shared.next[i][threadIdx.x];
    } else {
      load_rows(place.data<T>(p), p.row_stride, vectors && place.is_whole, p.rows - place.row0,
                p.columns - place.column0, x);
    }
    if (tile + 1 < end) begin(tile + 1);
    // All have read what the tile before left in shared memory; rows by themselves leave nothing.
    if (tile != first && (p.square || p.data_t != nullptr)) __syncthreads();
    quantize_tile(p, place, x, row_blocks, k_blocks, shared);
  }
}

template <typename T>
cudaError_t launch_of(const Quantization& p, cudaStream_t stream) {
  const int64_t tiles = p.entries * ((p.rows + SIDE - 1) / SIDE) * ((p.columns + SIDE - 1) / SIDE);
  const bool vectors = reinterpret_cast<uintptr_t>(p.x) % (VECTOR * sizeof(T)) == 0 &&
                       p.row_stride % VECTOR == 0 && p.entry_stride % VECTOR == 0;
  int device = 0, multiprocessors = 0, most_shared = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  cudaDeviceGetAttribute(&most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  // Two blocks fit a multiprocessor by their registers, and all of them go on until the last tile.
  const int64_t places = 2 * int64_t{multiprocessors}, count = (tiles + places - 1) / places;
  const bool ahead = count > 1 && static_cast<int>(sizeof(Shared<T>)) <= most_shared;
  const int bytes = static_cast<int>(ahead ? sizeof(Shared<T>) : offsetof(Shared<T>, next));
  const auto kernel = &quantize<T>;
  if (const cudaError_t error = allow_shared(reinterpret_cast<const void*>(kernel), bytes);
      error != cudaSuccess)
    return error;
  const auto blocks = static_cast<unsigned>((tiles + count - 1) / count);
  kernel<<<blocks, WARPS * LANES, bytes, stream>>>(p, count, vectors, ahead);
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
