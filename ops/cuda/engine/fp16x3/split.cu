// An fp32 operand in two fp16 planes, for fp16x3.cu. For every row of A and column of B:
//
//     e  with max |x| 2^e in [2^14, 2^15)
//     hi = fp16(x 2^e)      lo = fp16((x 2^e - hi) 2^11)       both to nearest
//
// hi and lo together keep 22 to 23 bits of x down to 2^-28 of the maximum. What smaller elements
// lose is added up, in whole units of 2^-44 so that the order does not matter; the guard looks at
// it. A row with NaN or Inf has no scale: its planes are zero and its loss is infinite.
//
// A scale for each 64 of k would be known as soon as those are read, and reach further; but scaling
// every term anew costs the product more than the split could gain (docs/fp16x3.md).
//
// Planes may have another order of k (SplitForm), and few_rows.cu has fragments of 16 bytes,
// [k / 16][row / 8][row % 8][k % 16 / 4] [hi, lo][4 of k], with zeros up to the end of a chunk.
//
// Here a block takes a row: it finds the maximum first, and reads again, mostly from the L1 and L2
// caches, what does not fit in its registers. Bound by memory. Rows that lie beside each other go
// through split_beside.cu. Either takes groups that share out K too, one for each entry.
#include <cuda_fp16.h>

#include <type_traits>

#include "cuda/engine/fp16x3/call.h"
#include "cuda/engine/fp16x3/split.cuh"
#include "cuda/parts/arithmetic/warp_reduce.cuh"

namespace tiled {
namespace {

constexpr int MOST_THREADS = SPLIT_THREADS;
constexpr int VECTORS = SPLIT_VECTORS;

// A thread's elements of a chunk of a row: vector i begins at element (i blockDim + thread) 4.
using Chunk = float[VECTORS][4];

__device__ __forceinline__ void load_chunk(Chunk& x, const float* from, int64_t first, int64_t size,
                                           bool vectors, const SplitArguments& args) {
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) {
    const int64_t k = first + (i * blockDim.x + threadIdx.x) * 4;
    if (vectors && k + 4 <= size) {
      const float4 v = *reinterpret_cast<const float4*>(from + k);
      x[i][0] = v.x, x[i][1] = v.y, x[i][2] = v.z, x[i][3] = v.w;
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) x[i][j] = k + j < size ? from[(k + j) * args.from_k] : 0;
    }
  }
}

// Four neighbours in k, from `k` on. Permuted: 0 1 4 5 8 9 12 13 2 3 6 7 10 11 14 15 of each 16, so
// that what one lane of wgmma holds are neighbours in the other operand.
template <SplitForm FORM>
__device__ __forceinline__ void write(const SplitArguments& args, int64_t entry, int64_t to_entry,
                                      int64_t row, int64_t k, const PairParts (&parts)[2]) {
  __half* const of_row = args.to + to_entry + row * args.to_pitch;
  if constexpr (FORM == SplitForm::AlongK) {
    write_four(of_row + k, parts[0].hi, parts[1].hi);
    write_four(of_row + args.plane + k, parts[0].lo, parts[1].lo);
  } else if constexpr (FORM == SplitForm::Permuted) {
    __half2* to = reinterpret_cast<__half2*>(of_row + k / 16 * 16 + k % 16 / 2);
    to[0] = parts[0].hi, to[4] = parts[1].hi;
    to += args.plane / 2;
    to[0] = parts[0].lo, to[4] = parts[1].lo;
  } else if constexpr (FORM == SplitForm::Fragments) {
    const int64_t tile = k / 16 * args.tiles + row / 8, lane = row % 8 * 4 + k % 16 / 4;
    __half* to = args.to + entry * args.fragments + (tile * 32 + lane) * 8;
    write_four(to, parts[0].hi, parts[1].hi);
    write_four(to + 4, parts[0].lo, parts[1].lo);
  }
}

template <SplitForm FORM, bool OF_GROUPS = false>
__global__ void __launch_bounds__(MOST_THREADS, FORM == SplitForm::Nothing ? 4 : 3)
    split_along_k(const SplitArguments args) {
  begin(args);
  __shared__ uint32_t maxima[MOST_THREADS / 32];
  __shared__ unsigned long long losses[MOST_THREADS / 32];
  clear(args);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const int chunk = blockDim.x * VECTORS * 4;  // elements
  // With zeros beyond K: planes are read by whole 16, fragments by whole chunks, groups by 64.
  constexpr int WHOLE = OF_GROUPS                      ? 64
                        : FORM == SplitForm::Permuted  ? 16
                        : FORM == SplitForm::Fragments ? FEW_ROWS_CHUNK
                                                       : 1;
  for (int64_t entry = blockIdx.y; entry < args.batch; entry += gridDim.y) {
    const int64_t row = blockIdx.x;
    const SplitEntry part = split_entry<OF_GROUPS>(args, entry);
    const bool vectors = args.vectors && (!OF_GROUPS || part.from % 4 == 0);
    const int64_t end_k = (part.k + WHOLE - 1) / WHOLE * WHOLE;
    const float* from = args.from + part.from + row * args.from_row;
    Chunk x;
    MagnitudeRange range;
#pragma unroll 1
    for (int64_t first = 0; first < part.k; first += chunk) {
      load_chunk(x, from, first, part.k, vectors, args);
#pragma unroll
      for (int i = 0; i < VECTORS; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) range.include(x[i][j]);
    }
    const uint32_t most = warp_max(range.most);
    if (lane == 0) maxima[warp] = most;
    __syncthreads();
    range.most = warp_max(lane < warps ? maxima[lane] : 0);
    const Scale scale(range.most);
    unsigned long long lost = 0;  // by this warp's elements
    const auto write_all = [&](auto plain) {
#pragma unroll 1
      for (int64_t first = 0; first < part.k; first += chunk) {
        if (part.k > chunk) load_chunk(x, from, first, part.k, vectors, args);
        uint32_t units = 0;
        if constexpr (FORM == SplitForm::Nothing) {
#pragma unroll
          for (int i = 0; i < VECTORS; ++i) units += scale.lost(x[i]);
        } else {
#pragma unroll
          for (int i = 0; i < VECTORS; ++i) {
            const int64_t k = first + (i * blockDim.x + threadIdx.x) * 4;
            if (k >= end_k) continue;
            PairParts parts[2];  // beyond K they are zeros, and the pitch has room for them
#pragma unroll
            for (int j = 0; j < 2; ++j)
              parts[j] = split_pair<decltype(plain)::value>(x[i][2 * j], x[i][2 * j + 1], scale,
                                                            scale, units, units);
            write<FORM>(args, entry, part.to, row, k, parts);
          }
        }
        if (!decltype(plain)::value) lost += warp_sum(units);
      }
    };
    if (!__all_sync(~0u, scale.is_plain(range.least)))
      write_all(std::false_type());
    else if (FORM != SplitForm::Nothing)
      write_all(std::true_type());
    if (lane == 0) losses[warp] = lost;
    __syncthreads();
    if (threadIdx.x == 0) {
      lost = 0;
      for (int w = 0; w < warps; ++w) lost += losses[w];
      args.scales[entry * args.rows + row] = scale.result(lost);
    }
    __syncthreads();
  }
  end(args);
}

Kernel<SplitArguments> kernel_of(const SplitJob& job) {
  if (job.is_beside()) return split_beside_kernel(job.form, job.of_groups);
  if (job.of_groups) return &split_along_k<SplitForm::AlongK, true>;
  switch (job.form) {
    case SplitForm::Nothing: return &split_along_k<SplitForm::Nothing>;
    case SplitForm::Permuted: return &split_along_k<SplitForm::Permuted>;
    case SplitForm::Fragments: return &split_along_k<SplitForm::Fragments>;
    default: return &split_along_k<SplitForm::AlongK>;
  }
}

SplitArguments split_arguments(const Call& call, bool of_q) {
  const SplitJob job = split_job(call.problem, call.plan.way.as<Fp16x3Plan>(), of_q);
  const Side &from = job.from, &to = job.to;
  SplitArguments args{};
  args.from = static_cast<const float*>(from.data);
  args.to = call.at<__half>(of_q ? Area::Q : Area::P);
  args.scales = call.at<RowScale>(of_q ? Area::ScalesQ : Area::ScalesP);
  args.ranges = call.at<MagnitudeRange>(of_q ? Area::RangesQ : Area::RangesP);
  args.panels = call.at<SplitPanel>(of_q ? Area::PanelsQ : Area::PanelsP);
  args.rows = from.rows, args.k = from.k, args.batch = job.batch;
  args.from_row = from.row_stride, args.from_k = from.k_stride, args.from_batch = from.batch_stride;
  args.to_pitch = to.k_stride == 1 ? to.row_stride : to.k_stride;
  args.plane = to.batch_stride, args.to_k = to.k_stride;
  if (job.of_groups) args.groups = call.problem.groups;
  args.tiles = few_rows_tiles(from.rows);
  args.fragments = few_rows_bytes(from.rows, from.k) / 2;
  args.vectors = from.alignment == 16 && (from.k_stride == 1 || job.is_beside());
  if (job.is_beside()) args.shares = split_shares(job);
  return args;
}

}  // namespace

cudaError_t launch_split(const Call& call, const Step& step) {
  const bool of_q = step.key & OF_Q;
  SplitArguments args = split_arguments(call, of_q && !(step.key & OF_P));
  if (step.key & CLEARS) {
    args.zeros = call.at<uint32_t>(Area::Guard);
    args.zero_count = (call.plan.at(Area::Squares) - call.plan.at(Area::Guard)) / 4;
  }
  args.beside = step.key & BESIDE;
  const SplitJob job = split_job(call.problem, call.plan.way.as<Fp16x3Plan>(), of_q);
  if (step.key & MEASURES) {
    const int64_t blocks = panels_of(args.rows, args.batch) * args.shares.measurers;
    const MeasureArguments both = {args, split_arguments(call, of_q), blocks};
    return launch_early(measure_kernel(job.of_groups), step, call.stream, both);
  }
  return launch_early(kernel_of(job), step, call.stream, args);
}

}  // namespace tiled
