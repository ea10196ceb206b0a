// fp16x3 with at most 16 rows of A, or columns of B, on mma.sync: the same bits as 9_fp16x3.cu in
// one pass over the large operand W, whose planes never reach memory.
//
//     block: 8 rows of W (columns of B, or rows of A), all of K; warp w: chunks of 64 of K
//     w, w + 16, ..., the first two of which stay in registers
//
//     1. the largest |W| of each row: the scales
//     2. of each chunk: W in fp16 parts, main and cross products with the planes of X (9_split.cu)
//     3. through shared memory: sum += main + 2^-11 cross, chunk by chunk, k ascending
//
// Lane l holds 4 neighbours in k of row l / 4 for each 16 of K, and X likewise: inside of one 16
// the order is free, so that both are loaded by 16 and 8 bytes. K above 2048 is read twice. Bound
// by the memory that W takes; at 0.25 to 0.9 of cuBLAS's fp32 so far, the first pass not yet beside
// the second of another block.
#include <cuda_fp16.h>

#include <algorithm>

#include "cuda/fp16x3.h"
#include "cuda/kernels/fp16_parts.cuh"
#include "cuda/launch_early.h"
#include "cuda/plan.h"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/mma.cuh"
#include "segments.h"

namespace tiled {
namespace {

constexpr int WARPS = 16;
constexpr int ROWS = 8;        // of W, a block
constexpr int FEW = FEW_ROWS;  // of X
constexpr int CHUNK = 64;      // of K
constexpr int HELD = 2;        // chunks of a warp in registers
constexpr int STEPS = CHUNK / 16;
using Chunk = float[STEPS][4];
static_assert(WARPS * 32 == FEW_ROWS_TILE.threads && ROWS == FEW_ROWS_TILE.block_p);

struct Shared {
  float terms[2][WARPS][FEW][ROWS];  // main + 2^-11 cross of a round's chunks
  uint32_t maxima[WARPS][ROWS];
  unsigned long long lost[ROWS];
  RowScale scales[ROWS];
};
static_assert(sizeof(Shared) == FEW_ROWS_TILE.shared_bytes);

// A lane's part of chunk `chunk` of its row.
__device__ __forceinline__ void load(Chunk& v, const FewRowsArguments& args, const float* row,
                                     int64_t chunk, bool exists) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int s = 0; s < STEPS; ++s) {
    const int64_t k = chunk * CHUNK + 16 * s + 4 * t;
    if (args.vectors && exists && k + 4 <= args.k) {
      const float4 x = __ldcs(reinterpret_cast<const float4*>(row + k));
      v[s][0] = x.x, v[s][1] = x.y, v[s][2] = x.z, v[s][3] = x.w;
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) v[s][j] = exists && k + j < args.k ? row[(k + j) * args.w_k] : 0;
    }
  }
}

__device__ __forceinline__ void include(Range& range, const Chunk& v) {
#pragma unroll
  for (int s = 0; s < STEPS; ++s)
#pragma unroll
    for (int j = 0; j < 4; ++j) range.include(v[s][j]);
}

// The products of one chunk, into terms.
template <bool W_IS_A, bool PLAIN>
__device__ __forceinline__ uint32_t multiply(float (&terms)[FEW][ROWS], const Chunk& v,
                                             const Scale& scale, const FewRowsArguments& args,
                                             const __half* x, int64_t chunk) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  float main[4] = {}, cross[4] = {};
  uint32_t lost = 0;
#pragma unroll
  for (int s = 0; s < STEPS; ++s) {
    const int64_t k = chunk * CHUNK + 16 * s + 4 * t;
    uint32_t w_hi[2], w_lo[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const PairParts parts =
          split_pair<PLAIN>(v[s][2 * j], v[s][2 * j + 1], scale, scale, lost, lost);
      w_hi[j] = reinterpret_cast<const uint32_t&>(parts.hi);
      w_lo[j] = reinterpret_cast<const uint32_t&>(parts.lo);
    }
    uint32_t x_parts[2][4];  // hi and lo; rows g and g + 8
#pragma unroll
    for (int plane = 0; plane < 2; ++plane)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint2 words = make_uint2(0, 0);
        if (g + 8 * half < args.x_rows && k < args.k)
          words = __ldg(reinterpret_cast<const uint2*>(x + plane * args.x_plane +
                                                       (g + 8 * half) * args.x_pitch + k));
        x_parts[plane][half] = words.x, x_parts[plane][2 + half] = words.y;
      }
    ptx::mma(__half(), main, x_parts[0], w_hi);
    // A's upper part first, as everywhere.
    if constexpr (W_IS_A) {
      ptx::mma(__half(), cross, x_parts[1], w_hi);
      ptx::mma(__half(), cross, x_parts[0], w_lo);
    } else {
      ptx::mma(__half(), cross, x_parts[0], w_lo);
      ptx::mma(__half(), cross, x_parts[1], w_hi);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    terms[g + i / 2 * 8][2 * t + i % 2] = __fmaf_rn(cross[i], 0x1p-11f, main[i]);
  return lost;
}

}  // namespace

template <bool W_IS_A>
__global__ void __launch_bounds__(WARPS * 32)
    fp16x3_few_rows(const __grid_constant__ FewRowsArguments args) {
  extern __shared__ __align__(16) uint8_t memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  ptx::griddepcontrol_launch_dependents();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4;
  const int64_t w0 = int64_t{blockIdx.x} * ROWS;
  const bool exists = w0 + g < args.w_rows;
  const int64_t chunks = (args.k + CHUNK - 1) / CHUNK, rounds = (chunks + WARPS - 1) / WARPS;
  bool is_first = true;
  for (int64_t entry = blockIdx.y; entry < args.batch; entry += gridDim.y) {
    const float* row = args.w + entry * args.w_batch + (w0 + g) * args.w_row;
    const __half* x = static_cast<const __half*>(args.x) + entry * args.x_batch;
    if (threadIdx.x < ROWS) shared.lost[threadIdx.x] = 0;
    // The last chunks first: those read last are in the L2 cache when the products begin.
    Range range;
    for (int64_t i = rounds - 1; i >= HELD; --i) {
      Chunk v;
      load(v, args, row, warp + WARPS * i, exists);
      include(range, v);
    }
    Chunk held[HELD];
#pragma unroll
    for (int i = 0; i < HELD; ++i) load(held[i], args, row, warp + WARPS * i, exists);
#pragma unroll
    for (int i = 0; i < HELD; ++i) include(range, held[i]);
    uint32_t most = range.most;
    most = max(most, __shfl_xor_sync(~0u, most, 1));
    most = max(most, __shfl_xor_sync(~0u, most, 2));
    if (lane % 4 == 0) shared.maxima[warp][g] = most;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < WARPS; ++w) most = max(most, shared.maxima[w][g]);
    const Scale scale(most);
    const bool plain = __all_sync(~0u, scale.is_plain(range.least));
    // W is the caller's; X's planes, and memory to write, are the kernel's before.
    if (is_first) ptx::griddepcontrol_wait();
    is_first = false;

    uint32_t lost = 0;
    float sum = 0, total = 0;  // of this thread's element
    const int of_x = threadIdx.x / ROWS, of_w = threadIdx.x % ROWS;
    const auto round = [&](int64_t i, const Chunk& v) {
      auto& terms = shared.terms[i % 2];
      const int64_t chunk = warp + WARPS * i;
      if (chunk < chunks)
        lost += plain ? multiply<W_IS_A, true>(terms[warp], v, scale, args, x, chunk)
                      : multiply<W_IS_A, false>(terms[warp], v, scale, args, x, chunk);
      __syncthreads();
      if (of_x >= FEW) return;
      if (i > 0 && i * WARPS * CHUNK % SEGMENT_K == 0 && args.k >= DEEP_K)
        total = __fadd_rn(total, sum), sum = 0;
      const int64_t there = min(chunks - i * WARPS, int64_t{WARPS});
#pragma unroll
      for (int w = 0; w < WARPS; ++w)
        if (w < there) sum = __fadd_rn(sum, terms[w][of_x][of_w]);
    };
#pragma unroll
    for (int i = 0; i < HELD; ++i)
      if (i < rounds) round(i, held[i]);
    for (int64_t i = HELD; i < rounds; ++i) {
      Chunk v;
      load(v, args, row, warp + WARPS * i, exists);
      round(i, v);
    }
    total = __fadd_rn(total, sum);

    lost += __shfl_xor_sync(~0u, lost, 1);
    lost += __shfl_xor_sync(~0u, lost, 2);
    if (lane % 4 == 0 && lost != 0)
      atomicAdd(&shared.lost[g], static_cast<unsigned long long>(lost));
    __syncthreads();
    if (warp == 0 && lane % 4 == 0) shared.scales[g] = scale.result(shared.lost[g]);
    __syncthreads();
    if (threadIdx.x < ROWS && w0 + threadIdx.x < args.w_rows)
      args.w_scales[entry * args.w_scales_batch + w0 + threadIdx.x] = shared.scales[threadIdx.x];
    if (of_x < args.x_rows && w0 + of_w < args.w_rows) {
      const RowScale of_row = args.x_scales[entry * args.x_scales_batch + of_x];
      const RowScale of_column = shared.scales[of_w];
      const int exponent = of_row.exponent + of_column.exponent;
      const float c = __fadd_rn(ldexpf(total, -exponent), 0);  // zeros are positive
      args.c[entry * args.c_batch + (w0 + of_w) * args.c_w + of_x * args.c_x] = c;
      if (lost_is_seen(of_row.lost + of_column.lost, exponent, c, args.tolerance)) {
        const uint32_t y = static_cast<uint32_t>(w0 / GUARD_SQUARE);
        list_square(args.guard, static_cast<uint32_t>(entry), W_IS_A ? y : 0, W_IS_A ? 0 : y);
      }
    }
    __syncthreads();
  }
}

const void* fp16x3_few_rows_kernel(bool w_is_a) {
  return w_is_a ? reinterpret_cast<const void*>(&fp16x3_few_rows<true>)
                : reinterpret_cast<const void*>(&fp16x3_few_rows<false>);
}

cudaError_t launch_few_rows(const FewRowsArguments& args, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(blocks_over(args.w_rows, ROWS)),
                  static_cast<unsigned>(std::min(args.batch, MAX_GRID_Y)));
  return launch_early(fp16x3_few_rows_kernel(args.w_is_a), grid, WARPS * 32, sizeof(Shared),
                      /*cluster=*/0, stream, const_cast<FewRowsArguments*>(&args));
}

}  // namespace tiled
