// fp16x3 where A has few rows, or B few columns (X): the same bits as fp16x3.cu, but the large
// operand W is read once, as it lies, and its planes never reach memory.
//
//     cluster: 32 rows of W (columns of B, or rows of A), all of K, by chunks of 64 of K
//     block r of c: chunks r, r + c, ..., and of these warp w has the w-th, (w + warps)-th, ...;
//     a lane holds 64 elements of W
//
//     1. of each chunk: W in fp16 parts, main and cross products with X (write_four in split.cu),
//        and their sum main + 2^-11 cross, one term of an element, into the chunk's slot: row x of
//        X has its slots in block x mod c
//     2. the terms, chunk by chunk, k ascending
//
// A row's scale is known only at its end, so a chunk is scaled by its own largest element instead
// and its terms are scaled back. Scales are powers of two: where neither parts nor sums are
// subnormal under the row's, each scale gives the same bits. Only chunks with a part that is, even
// the lower part of an element whose upper part takes nearly all of it, are taken once more, by the
// scales of whole rows; where K is too deep for the slots, all are.
//
// Inside of 16 of K the order is free, so that lanes load four neighbours. Bound by the memory that
// W takes.
#include <cuda_fp16.h>

#include <type_traits>

#include "core/segments.h"
#include "cuda/engine/fp16x3/few_rows_cluster.cuh"
#include "cuda/engine/fp16x3/guard_marks.cuh"
#include "cuda/parts/epilogue/finish.cuh"
#include "cuda/parts/launch/early_start.cuh"

namespace tiled {
namespace {

// C from an element's sum. What the guard computes again is not stored where there is an epilogue:
// C may be what it reads.
__device__ __forceinline__ void finish_and_store(const Fp16x3FewRowsArguments& args, float sum,
                                                 bool unsure, int64_t entry, int64_t m, int64_t n) {
  const int64_t at = entry * args.c_batch + m * args.c_m + n * args.c_n;
  if (!args.finishes) {
    args.c[at] = sum;
  } else if (!unsure) {
    args.c[at] = finish<float>(args.epilogue, sum, entry, m, n);
  }
}

}  // namespace

// SHARES: a cluster has several blocks.
template <bool W_IS_A, bool BESIDE, bool SHARES>
__global__ void __launch_bounds__(FEW_ROWS_THREADS)
    fp16x3_few_rows(const __grid_constant__ Fp16x3FewRowsArguments args) {
  extern __shared__ __align__(16) uint8_t memory[];
  Head& head = *reinterpret_cast<Head*>(memory);
  uint32_t* const leasts = reinterpret_cast<uint32_t*>(  // [slot][lane]
      memory + (SHARES ? FEW_ROWS_HEAD : FEW_ROWS_HEAD_ALONE));
  float* const terms = reinterpret_cast<float*>(leasts + args.slots * 32);
  let_the_next_start();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const Cluster<SHARES> cluster(args.cluster);
  const int64_t w0 = int64_t{blockIdx.x / cluster.blocks()} * ROWS;
  const int chunks = static_cast<int>((args.k + CHUNK - 1) / CHUNK);
  const int slots = args.slots * cluster.blocks();  // of terms
  const bool all_fit = slots >= chunks;
  const int x_rows = static_cast<int>(args.x_rows), x_step = (x_rows + 7) / 8 * STEPS * 32;
  // Rows of X: the most that a block of the cluster has, and those of this block.
  const int share = (x_rows + cluster.blocks() - 1) / cluster.blocks();
  const int own_rows = cluster.share_of(x_rows);
  const int slot_size = share * PITCH;            // terms are [slot][own x][PITCH],
  float* const sums = terms + slots * slot_size;  // sums [own x][sum, total][ROWS]
  const RowsOfTerms<SHARES> of_x(head, cluster, terms, x_rows);
  // Only where a block has started may others write to its shared memory.
  if (SHARES) ptx::cluster_arrive_relaxed();
  bool begun = false;
  const auto begin_to_write = [&] {
    if (begun) return;
    begun = true;
    // W is the caller's; X, and all memory to write, are the kernel's before.
    wait_for_kernels_before();
    if (SHARES) ptx::cluster_wait();
  };

  for (int entry = blockIdx.y; entry < args.batch; entry += gridDim.y) {
    const int rows = static_cast<int>(min(args.w_rows - w0, int64_t{ROWS}));
    const Share of = {args.w + entry * args.w_batch + (w0 + row_of<BESIDE>(0)) * args.w_row +
                          lane % 4 * 4 * args.w_k,
                      rows, args.vectors && rows == ROWS ? static_cast<int>(args.k / CHUNK) : 0};
    if (threadIdx.x < ROWS)
      head.most[threadIdx.x] = 0, head.least[threadIdx.x] = 255, head.lost[threadIdx.x] = 0;
    __syncthreads();

    // The terms of chunks from `begin` to `end`, which are in the slots, onto those of element e
    // from `begin` on.
    const auto add_up = [&](int e, int begin, int end, float& sum, float& total) {
      constexpr int OF_SEGMENT = SEGMENT_K / CHUNK;
      const float* term = terms + e / ROWS * PITCH + e % ROWS;
      for (int chunk = begin; chunk < end;) {
        if (chunk > 0 && chunk % OF_SEGMENT == 0 && args.k >= DEEP_K)
          total = __fadd_rn(total, sum), sum = 0;
        const int until = min(end, (chunk / OF_SEGMENT + 1) * OF_SEGMENT);
#pragma unroll 16
        for (; chunk < until; ++chunk, term += slot_size) sum = __fadd_rn(sum, *term);
      }
    };

    uint32_t most[2] = {};        // upper halves, of rows 0 and 1, and of 2 and 3
    uint32_t least_of_all = ~0u;  // of what this lane has found, in bytes
    // By the scales of chunks, and, where these will not do, again by those of rows.
    const auto pass = [&](auto second) {
      constexpr bool again = decltype(second)::value;
      for (int begin = 0; begin < chunks; begin += slots) {
        const int end = min(chunks, begin + slots);
        for (int own = warp;; own += warps) {
          const int slot = own * cluster.blocks() + cluster.rank, chunk = begin + slot;
          if (chunk >= end) break;
          uint32_t& least = leasts[own * 32 + lane];
          if (again && all_fit && !__any_sync(~0u, __vcmpltu4(least, sure_exponents<BESIDE>(head))))
            continue;
          Chunk v;
          load<BESIDE>(v, args, of, chunk);
          UpperHalvesRange of_chunk[2];
          measure(of_chunk, v);
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            most[i] = most_of(most[i], of_chunk[i].most);
            of_chunk[i].most = again ? most[i] : of_chunk[i].most;
          }
          const TwoScales scales[2] = {TwoScales(of_chunk[0].most), TwoScales(of_chunk[1].most)};
          float factor[4], back[4];
#pragma unroll
          for (int r = 0; r < 4; ++r)
            factor[r] = scales[r / 2].factor(r % 2), back[r] = scales[r / 2].back(r % 2);
          uint32_t found = unseen_exponents(scales[0], scales[1]), of_elements = 0;
          bool look = false;
          if (__any_sync(~0u, again || has_below<LOOK_BINADES>(of_chunk[0].least, scales[0]) ||
                                  has_below<LOOK_BINADES>(of_chunk[1].least, scales[1]))) {
            if (again) {
              if (__any_sync(~0u, has_below<SURE_BINADES>(of_chunk[0].least, scales[0]) ||
                                      has_below<SURE_BINADES>(of_chunk[1].least, scales[1]) ||
                                      __vcmpeq4(sure_exponents<BESIDE>(head), ~0u) != 0))
                count_lost<BESIDE>(v, factor, back, head);
            } else {
              look = least_elements<BESIDE>(found, of_elements, v, back, head);
              look = __any_sync(~0u, look);
            }
          }
          Fragments parts;
          split_chunk(parts, v, factor);
          if (look) found = least_parts(parts, of_elements, back);
          begin_to_write();
          // Where slots are used again, of all that a lane had in this one.
          if (!again) least = begin == 0 ? found : __vminu4(least, found);
          if (!again) least_of_all = __vminu4(least_of_all, found);
          multiply<W_IS_A, BESIDE>(of_x, slot * slot_size, parts, back, x_rows,
                                   static_cast<const uint4*>(args.x) + entry * args.x_batch +
                                       int64_t{chunk} * x_step + lane);
        }
        if (all_fit) break;
        begin_to_write();
        cluster.sync();
        for (int e = threadIdx.x; e / ROWS < own_rows; e += blockDim.x) {
          float* of_element = sums + e / ROWS * 2 * ROWS + e % ROWS;
          float sum = begin == 0 ? 0 : of_element[0], total = begin == 0 ? 0 : of_element[ROWS];
          add_up(e, begin, end, sum, total);
          of_element[0] = sum, of_element[ROWS] = total;
        }
        cluster.sync();
      }
    };
    pass(std::false_type());
    begin_to_write();

#pragma unroll
    for (int by = 1; by <= 2; by *= 2)
      least_of_all = __vminu4(least_of_all, __shfl_xor_sync(~0u, least_of_all, by));
    if (lane % 4 == 0)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int row = row_of<BESIDE>(r);
        atomicMax(&head.most[row], r % 2 == 0 ? most[r / 2] << 16 : most[r / 2] & 0xffff0000);
        atomicMin(&head.least[row], least_of_all >> 8 * r & 0xff);
      }
    if (threadIdx.x < x_rows)
      head.x_scales[threadIdx.x] = args.x_scales[entry * args.x_scales_batch + threadIdx.x];
    __syncthreads();
    exchange_extents(head, cluster);
    // All blocks of the cluster know the same, and so decide the same.
    const bool unsure =
        threadIdx.x < ROWS && head.least[threadIdx.x] < sure_exponent(head.most[threadIdx.x]);
    if (__syncthreads_or(unsure)) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        most[i] = __byte_perm(head.most[row_of<BESIDE>(2 * i)],
                              head.most[row_of<BESIDE>(2 * i + 1)], 0x7632);
      pass(std::true_type());
      exchange_losses(head, cluster);
    }

    for (int e = threadIdx.x; e / ROWS < own_rows; e += blockDim.x) {
      const int of_x = e / ROWS * cluster.blocks() + cluster.rank, of_w = e % ROWS;
      const bool exists = of_w < rows;
      const Scale scale(head.most[of_w]);
      const RowScale x_scale = head.x_scales[of_x], w_scale = scale.result(head.lost[of_w]);
      const float* of_element = sums + e / ROWS * 2 * ROWS + of_w;
      float sum = all_fit ? 0 : of_element[0], total = all_fit ? 0 : of_element[ROWS];
      if (all_fit) add_up(e, 0, chunks, sum, total);
      total = __fadd_rn(total, sum);
      const int by = is_moderate(head.most[of_w]) ? 0 : w_scale.exponent;
      const float c = __fadd_rn(ldexpf(total, -x_scale.exponent - by), 0);  // zeros are positive
      const bool again =
          exists && is_unsure(x_scale.lost + w_scale.lost, x_scale.exponent + w_scale.exponent, c,
                              args.tolerance);
      if (exists)
        finish_and_store(args, c, again, entry, W_IS_A ? w0 + of_w : of_x,
                         W_IS_A ? of_x : w0 + of_w);
      // A warp has one of X's rows, and half of a square's words for it.
      const uint32_t word = __ballot_sync(~0u, again);
      const uint32_t square = square_of(args.guard, entry, of_x, w0);
      if (lane == 0) {
        *reinterpret_cast<uint32_t*>(marks_at(args.guard, square, of_x, w0)) = word;
        if (word != 0) list_square(args.guard, square, of_x, w0, ROWS / MARKED_COLUMNS);
      }
    }
    if (entry + gridDim.y < args.batch) cluster.sync();
  }
}

template <bool SHARES>
Kernel<Fp16x3FewRowsArguments> kernel_of(bool w_is_a, bool beside) {
  if (w_is_a)
    return beside ? &fp16x3_few_rows<true, true, SHARES> : &fp16x3_few_rows<true, false, SHARES>;
  return beside ? &fp16x3_few_rows<false, true, SHARES> : &fp16x3_few_rows<false, false, SHARES>;
}

Kernel<Fp16x3FewRowsArguments> fp16x3_few_rows_kernel(bool w_is_a, bool beside, bool shares) {
  return shares ? kernel_of<true>(w_is_a, beside) : kernel_of<false>(w_is_a, beside);
}

}  // namespace tiled
