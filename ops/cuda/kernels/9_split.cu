// An fp32 operand in two fp16 planes, for 9_fp16x3.cu. For every row of A and column of B:
//
//     e  with max |x| 2^e in [2^14, 2^15)
//     hi = fp16(x 2^e)      lo = fp16((x 2^e - hi) 2^11)       both to nearest
//
// hi and lo together keep 22 to 23 bits of x down to 2^-28 of the maximum. What smaller elements
// lose is added up, in whole units of 2^-44 so that the order does not matter; the guard looks at
// it. A row with NaN or Inf has no scale: its planes are zero and its loss is infinite.
//
// Four forms: planes; planes in the order of k that 9_fp16x3_direct.cu takes its other operand in;
// for 9_few_rows.cu fragments as its lanes load them, 16 bytes each,
// [k / 16][row / 8][row % 8][k % 16 / 4] [hi, lo][4 of k], with zeros up to the end of a chunk; and
// nothing, which leaves the scales.
//
// Two ways to read: a block for each row that lies along k; or, where rows lie beside each other, a
// cluster of blocks for 64 of them, which share out k. Both find the maximum first and read again
// what does not fit in registers, mostly from the L2 cache. Bound by memory.
#include <cooperative_groups.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <type_traits>

#include "cuda/fp16x3.h"
#include "cuda/kernels/fp16_parts.cuh"
#include "cuda/launch_early.h"
#include "cuda/plan.h"
#include "cuda/ptx/cluster.cuh"

namespace tiled {
namespace {

struct SplitArguments {
  const float* from;
  __half* to;  // hi, lo is `plane` elements on; or fragments; or null
  RowScale* scales;
  int64_t rows, k, batch;
  int64_t from_row, from_k, from_batch;  // strides, elements
  int64_t to_pitch, plane;               // elements: from row to row of the copy, hi to lo
  int64_t tiles, fragments;              // of eight rows; elements of an entry
  uint32_t* zeros;                       // cleared on the way
  int64_t zero_count;
  bool vectors;  // aligned to 16 bytes (along k) or 8 (beside each other)
  bool beside;   // the other operand's split is still running
};

// The second operand's split runs beside the first's. So the first lets it start only once all that
// came before has ended, and it waits for the first before it ends itself.
__device__ __forceinline__ void begin(const SplitArguments& args) {
  if (!args.beside) ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
}
__device__ __forceinline__ void end(const SplitArguments& args) {
  if (args.beside) ptx::griddepcontrol_wait();
}

__device__ __forceinline__ void clear(const SplitArguments& args) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  if (blockIdx.y == 0)
    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.zero_count;
         i += threads)
      args.zeros[i] = 0;
}

__device__ __forceinline__ void write_two(__half* to, __half2 low, __half2 high) {
  *reinterpret_cast<uint2*>(to) =
      make_uint2(reinterpret_cast<const uint32_t&>(low), reinterpret_cast<const uint32_t&>(high));
}

constexpr int ROW_THREADS = 128;
constexpr int ROW_VECTORS = 8;                            // of four elements, in registers
constexpr int ROW_CHUNK = ROW_THREADS * ROW_VECTORS * 4;  // elements

// A thread's elements of a chunk of a row: vector i begins at element (i ROW_THREADS + thread) 4.
__device__ __forceinline__ void load_chunk(float (&x)[ROW_VECTORS][4], const float* from,
                                           int64_t first, const SplitArguments& args) {
#pragma unroll
  for (int i = 0; i < ROW_VECTORS; ++i) {
    const int64_t k = first + (i * ROW_THREADS + threadIdx.x) * 4;
    if (args.vectors && k + 4 <= args.k) {
      const float4 v = *reinterpret_cast<const float4*>(from + k);
      x[i][0] = v.x, x[i][1] = v.y, x[i][2] = v.z, x[i][3] = v.w;
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) x[i][j] = k + j < args.k ? from[(k + j) * args.from_k] : 0;
    }
  }
}

enum class Form { Planes, Permuted, Fragments, Nothing };

// Four neighbours in k, from `k` on. Permuted: 0 1 4 5 8 9 12 13 2 3 6 7 10 11 14 15 of each 16, so
// that what one lane of wgmma holds are neighbours in the other operand.
template <Form FORM>
__device__ __forceinline__ void write_four(const SplitArguments& args, int64_t entry, int64_t row,
                                           int64_t k, const PairParts (&parts)[2]) {
  __half* const of_row = args.to + 2 * entry * args.plane + row * args.to_pitch;
  if constexpr (FORM == Form::Planes) {
    write_two(of_row + k, parts[0].hi, parts[1].hi);
    write_two(of_row + args.plane + k, parts[0].lo, parts[1].lo);
  } else if constexpr (FORM == Form::Permuted) {
    __half2* to = reinterpret_cast<__half2*>(of_row + k / 16 * 16 + k % 16 / 2);
    to[0] = parts[0].hi, to[4] = parts[1].hi;
    to += args.plane / 2;
    to[0] = parts[0].lo, to[4] = parts[1].lo;
  } else if constexpr (FORM == Form::Fragments) {
    const int64_t tile = k / 16 * args.tiles + row / 8, lane = row % 8 * 4 + k % 16 / 4;
    __half* to = args.to + entry * args.fragments + (tile * 32 + lane) * 8;
    write_two(to, parts[0].hi, parts[1].hi);
    write_two(to + 4, parts[0].lo, parts[1].lo);
  }
}

template <Form FORM>
__global__ void __launch_bounds__(ROW_THREADS) split_along_k(const SplitArguments args) {
  begin(args);
  __shared__ uint32_t maxima[ROW_THREADS / 32];
  __shared__ unsigned long long losses[ROW_THREADS / 32];
  clear(args);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int64_t entry = blockIdx.y; entry < args.batch; entry += gridDim.y) {
    const int64_t row = blockIdx.x;
    const float* from = args.from + entry * args.from_batch + row * args.from_row;
    // With zeros beyond K: planes are read by whole 16, fragments by whole chunks.
    constexpr int WHOLE = FORM == Form::Permuted    ? 16
                          : FORM == Form::Fragments ? FEW_ROWS_CHUNK
                                                    : 1;
    const int64_t end_k = (args.k + WHOLE - 1) / WHOLE * WHOLE;
    float x[ROW_VECTORS][4];
    Range range;
    for (int64_t first = 0; first < args.k; first += ROW_CHUNK) {
      load_chunk(x, from, first, args);
#pragma unroll
      for (int i = 0; i < ROW_VECTORS; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) range.include(x[i][j]);
    }
    uint32_t most = __reduce_max_sync(~0u, range.most);
    if (lane == 0) maxima[warp] = most;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < ROW_THREADS / 32; ++w) most = max(most, maxima[w]);
    const Scale scale(most);
    unsigned long long lost = 0;
    const auto write = [&](auto plain) {
      for (int64_t first = 0; first < args.k; first += ROW_CHUNK) {
        if (args.k > ROW_CHUNK) load_chunk(x, from, first, args);
#pragma unroll
        for (int i = 0; i < ROW_VECTORS; ++i) {
          const int64_t k = first + (i * ROW_THREADS + threadIdx.x) * 4;
          if (k >= end_k) continue;
          uint32_t units = 0;
          PairParts parts[2];  // beyond K they are zeros, and the pitch has room for them
#pragma unroll
          for (int j = 0; j < 2; ++j)
            parts[j] = split_pair<decltype(plain)::value>(x[i][2 * j], x[i][2 * j + 1], scale,
                                                          scale, units, units);
          lost += units;
          write_four<FORM>(args, entry, row, k, parts);
        }
      }
    };
    if (!__all_sync(~0u, scale.is_plain(range.least)))
      write(std::false_type());
    else if (FORM != Form::Nothing)
      write(std::true_type());
    if (__any_sync(~0u, lost != 0))
      for (int step = 16; step > 0; step /= 2) lost += __shfl_xor_sync(~0u, lost, step);
    if (lane == 0) losses[warp] = lost;
    __syncthreads();
    if (threadIdx.x == 0) {
      lost = 0;
      for (int w = 0; w < ROW_THREADS / 32; ++w) lost += losses[w];
      args.scales[entry * args.rows + row] = scale.result(lost);
    }
    __syncthreads();
  }
  end(args);
}

constexpr int SIDE_WARPS = 8;
constexpr int SIDE_ROWS = 64;    // of a cluster, two a lane
constexpr int SIDE_CLUSTER = 8;  // blocks that share out k
constexpr int SIDE_STEP = SIDE_CLUSTER * SIDE_WARPS;
constexpr int SIDE_CHUNK = 16;  // pairs of elements in registers

__global__ void __launch_bounds__(SIDE_WARPS * 32, 2)
    split_side_by_side(const SplitArguments args) {
  namespace cg = cooperative_groups;
  begin(args);
  __shared__ uint32_t maxima[SIDE_ROWS];  // of this block's share of k
  __shared__ unsigned long long losses[SIDE_ROWS];
  clear(args);
  const cg::cluster_group cluster = cg::this_cluster();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t row = int64_t{blockIdx.x} / SIDE_CLUSTER * SIDE_ROWS + 2 * lane;
  const int64_t begin = int64_t{cluster.block_rank()} * SIDE_WARPS + warp;
  const bool both = args.vectors && row + 1 < args.rows;
  for (int64_t entry = blockIdx.y; entry < args.batch; entry += gridDim.y) {
    const float* from = args.from + entry * args.from_batch + row;
    __half* to = args.to + 2 * entry * args.plane + row;
    float2 x[SIDE_CHUNK];  // k = first + i SIDE_STEP
    const auto load = [&](int64_t first) {
      const float* at = from + first * args.from_k;
#pragma unroll
      for (int i = 0; i < SIDE_CHUNK; ++i, at += SIDE_STEP * args.from_k) {
        x[i] = make_float2(0, 0);
        if (first + i * SIDE_STEP >= args.k) continue;
        if (both) {
          x[i] = *reinterpret_cast<const float2*>(at);
        } else {
          if (row < args.rows) x[i].x = at[0];
          if (row + 1 < args.rows) x[i].y = at[1];
        }
      }
    };
    if (threadIdx.x < SIDE_ROWS) maxima[threadIdx.x] = 0, losses[threadIdx.x] = 0;
    __syncthreads();
    Range ranges[2];
    for (int64_t first = begin; first < args.k; first += SIDE_CHUNK * SIDE_STEP) {
      load(first);
#pragma unroll
      for (int i = 0; i < SIDE_CHUNK; ++i) {
        ranges[0].include(x[i].x);
        ranges[1].include(x[i].y);
      }
    }
    for (int i = 0; i < 2; ++i) atomicMax(&maxima[2 * lane + i], ranges[i].most);
    cluster.sync();
    uint32_t most[2] = {0, 0};
#pragma unroll
    for (int block = 0; block < SIDE_CLUSTER; ++block) {
      const uint2 of_block =
          *reinterpret_cast<const uint2*>(cluster.map_shared_rank(maxima, block) + 2 * lane);
      most[0] = max(most[0], of_block.x), most[1] = max(most[1], of_block.y);
    }
    const Scale scales[2] = {Scale(most[0]), Scale(most[1])};
    uint32_t lost[2] = {0, 0};
    const auto write = [&](auto plain) {
      for (int64_t first = begin; first < args.k; first += SIDE_CHUNK * SIDE_STEP) {
        if (args.k > SIDE_CHUNK * SIDE_STEP) load(first);
        __half* at = to + first * args.to_pitch;
#pragma unroll
        for (int i = 0; i < SIDE_CHUNK; ++i, at += SIDE_STEP * args.to_pitch) {
          if (first + i * SIDE_STEP >= args.k || row >= args.rows) continue;
          const PairParts parts = split_pair<decltype(plain)::value>(x[i].x, x[i].y, scales[0],
                                                                     scales[1], lost[0], lost[1]);
          if (args.to == nullptr) continue;
          *reinterpret_cast<__half2*>(at) = parts.hi;
          *reinterpret_cast<__half2*>(at + args.plane) = parts.lo;
        }
      }
    };
    if (!__all_sync(~0u,
                    scales[0].is_plain(ranges[0].least) && scales[1].is_plain(ranges[1].least)))
      write(std::false_type());
    else if (args.to != nullptr)
      write(std::true_type());
    for (int i = 0; i < 2; ++i)
      if (lost[i] != 0) atomicAdd(&losses[2 * lane + i], static_cast<unsigned long long>(lost[i]));
    cluster.sync();
    if (cluster.block_rank() == 0 && warp == 0)
      for (int i = 0; i < 2; ++i) {
        unsigned long long all = 0;
#pragma unroll
        for (int block = 0; block < SIDE_CLUSTER; ++block)
          all += cluster.map_shared_rank(losses, block)[2 * lane + i];
        if (row + i < args.rows) args.scales[entry * args.rows + row + i] = scales[i].result(all);
      }
    cluster.sync();  // nobody clears or leaves while others read
  }
  end(args);
}

SplitArguments arguments(const Side& from, void* to, int64_t batch, RowScale* scales,
                         uint32_t* zeros, int64_t zero_count) {
  SplitArguments args{};
  args.from = static_cast<const float*>(from.data);
  args.to = static_cast<__half*>(to);
  args.scales = scales;
  args.rows = from.rows, args.k = from.k, args.batch = batch;
  args.from_row = from.row_stride, args.from_k = from.k_stride, args.from_batch = from.batch_stride;
  args.zeros = zeros, args.zero_count = zero_count;
  return args;
}

dim3 grid_over(int64_t blocks, int64_t batch) {
  return dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(std::min(batch, MAX_GRID_Y)));
}

template <Form FORM>
cudaError_t launch_along_k(const SplitArguments& args, cudaStream_t stream) {
  return launch_early(reinterpret_cast<const void*>(&split_along_k<FORM>),
                      grid_over(args.rows, args.batch), ROW_THREADS, /*shared=*/0, /*cluster=*/0,
                      stream, const_cast<SplitArguments*>(&args));
}

cudaError_t launch_side_by_side(const SplitArguments& args, cudaStream_t stream) {
  return launch_early(reinterpret_cast<const void*>(&split_side_by_side),
                      grid_over(blocks_over(args.rows, SIDE_ROWS) * SIDE_CLUSTER, args.batch),
                      SIDE_WARPS * 32, /*shared=*/0, SIDE_CLUSTER, stream,
                      const_cast<SplitArguments*>(&args));
}

}  // namespace

cudaError_t launch_split(const Side& from, const Side& to, int64_t batch, RowScale* scales,
                         uint32_t* zeros, int64_t zero_count, SplitOptions options,
                         cudaStream_t stream) {
  const bool along_k = to.k_stride == 1;
  SplitArguments args =
      arguments(from, const_cast<void*>(to.data), batch, scales, zeros, zero_count);
  args.to_pitch = along_k ? to.row_stride : to.k_stride;
  args.plane = to.batch_stride;
  args.beside = options.beside;
  args.vectors = along_k ? from.k_stride == 1 && from.alignment == 16 : from.alignment >= 8;
  if (!along_k) return launch_side_by_side(args, stream);
  return options.permuted ? launch_along_k<Form::Permuted>(args, stream)
                          : launch_along_k<Form::Planes>(args, stream);
}

cudaError_t launch_split_fragments(const Side& from, void* to, int64_t batch, RowScale* scales,
                                   uint32_t* zeros, int64_t zero_count, cudaStream_t stream) {
  SplitArguments args = arguments(from, to, batch, scales, zeros, zero_count);
  args.tiles = few_rows_tiles(from.rows);
  args.fragments = few_rows_bytes(from.rows, from.k) / 2;
  args.vectors = from.k_stride == 1 && from.alignment == 16;
  return launch_along_k<Form::Fragments>(args, stream);
}

cudaError_t launch_measure(const Side& from, int64_t batch, RowScale* scales, uint32_t* zeros,
                           int64_t zero_count, cudaStream_t stream) {
  SplitArguments args = arguments(from, nullptr, batch, scales, zeros, zero_count);
  const bool beside = is_mn_major(from);
  args.vectors = from.alignment >= (beside ? 8 : 16) && (beside || from.k_stride == 1);
  return beside ? launch_side_by_side(args, stream) : launch_along_k<Form::Nothing>(args, stream);
}

}  // namespace tiled
