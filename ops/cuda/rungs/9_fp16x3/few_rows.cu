// fp16x3 where A has few rows, or B few columns (X): the same bits as fp16x3.cu, but the large
// operand W is read once, as it lies, and its planes never reach memory.
//
//     block: 32 rows of W (columns of B, or rows of A), all of K; warp w: chunks of 64 of K
//     w, w + warps, ..., of which a lane holds 64 elements of W
//
//     1. of each chunk: W in fp16 parts, main and cross products with X (write_four in split.cu),
//        and their sum main + 2^-11 cross, one term of an element, into the chunk's slot
//     2. the terms, chunk by chunk, k ascending
//
// A row's scale is known only at its end, so a chunk is scaled by its own largest element instead
// and its terms are scaled back. Scales are powers of two: where neither parts nor sums are
// subnormal under the row's, each scale gives the same bits. Only chunks with a part that is, even
// the lower part of an element whose upper part takes nearly all of it, are taken once more, by the
// scales of whole rows; where K is too deep for a block's slots, all are.
//
// Inside of 16 of K the order is free, so that lanes load four neighbours. Bound by the memory that
// W takes.
#include <cuda_fp16.h>

#include <type_traits>

#include "core/segments.h"
#include "cuda/parts/finish.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/rungs/9_fp16x3/few_rows_scale.cuh"
#include "cuda/rungs/9_fp16x3/guard_marks.cuh"

namespace tiled {
namespace {

constexpr int ROWS = FEW_ROWS_TILE.block_p;  // of W, a block; a lane has four of them
constexpr int CHUNK = FEW_ROWS_CHUNK;        // of K
constexpr int STEPS = CHUNK / 16;
static_assert(ROWS == 32 && CHUNK == 64 && SEGMENT_K % CHUNK == 0);

// In front of the terms.
struct Head {
  uint32_t most[ROWS];  // of the magnitudes of a row
  unsigned long long lost[ROWS];
  RowScale x_scales[FEW_ROWS];
};
static_assert(sizeof(Head) == FEW_ROWS_HEAD);

// A lane's elements, four rows by STEPS times four neighbours in k: row r is 8 r + g of the block,
// or, where W's rows lie beside each other, 4 g + r, which are one load.
using Chunk = float[4][STEPS][4];
// The same in fp16 parts as mma has them, [hi, lo][rows 0 and 1, or 2 and 3][step].
using Fragments = uint32_t[2][2][STEPS][4];

template <bool BESIDE>
__device__ __forceinline__ int row_of(int r) {
  const int g = threadIdx.x % 32 / 4;
  return BESIDE ? 4 * g + r : 8 * r + g;
}

// What a block reads of W: from its first row, of which `rows` exist, in one batch entry.
struct Rows {
  const float* w;
  int64_t rows;
};

template <bool BESIDE>
__device__ __forceinline__ void load(Chunk& v, const FewRowsArguments& args, const Rows& of,
                                     int64_t chunk) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int64_t k = chunk * CHUNK + 4 * t;
  if (args.vectors && of.rows >= ROWS && (chunk + 1) * CHUNK <= args.k) {
#pragma unroll
    for (int i = 0; i < 4 * STEPS; ++i) {
      const float* at = BESIDE ? of.w + (k + i / 4 * 16 + i % 4) * args.w_k + 4 * g
                               : of.w + row_of<BESIDE>(i / STEPS) * args.w_row + k + i % STEPS * 16;
      const float4 x = __ldcs(reinterpret_cast<const float4*>(at));
      if constexpr (BESIDE) {
        v[0][i / 4][i % 4] = x.x, v[1][i / 4][i % 4] = x.y;
        v[2][i / 4][i % 4] = x.z, v[3][i / 4][i % 4] = x.w;
      } else {
        float (&to)[4] = v[i / STEPS][i % STEPS];
        to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
      }
    }
    return;
  }
#pragma unroll
  for (int s = 0; s < STEPS; ++s)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int64_t at = k + 16 * s + j, row = row_of<BESIDE>(r);
        v[r][s][j] = row < of.rows && at < args.k ? of.w[row * args.w_row + at * args.w_k] : 0;
      }
}

// sure_exponent() of a lane's four rows, in bytes.
template <bool BESIDE>
__device__ __forceinline__ uint32_t sure_exponents(const Head& head) {
  uint32_t packed = 0;
#pragma unroll
  for (int r = 0; r < 4; ++r) packed |= sure_exponent(head.most[row_of<BESIDE>(r)]) << 8 * r;
  return packed;
}

// Terms of a chunk, [x][ROWS and some more, so that lanes meet different banks].
constexpr int PITCH = FEW_ROWS_PITCH;

template <bool W_IS_A, bool BESIDE>
__device__ __forceinline__ void multiply(float* terms, const Fragments& w, const float (&back)[4],
                                         const FewRowsArguments& args, const uint4* x,
                                         int64_t chunk) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int tiles = static_cast<int>(args.x_rows + 7) / 8;
  x += chunk * STEPS * tiles * 32 + lane;
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile, x += 32) {
    uint4 parts[STEPS];
#pragma unroll
    for (int s = 0; s < STEPS; ++s)
      parts[s] = 8 * tile + g < args.x_rows ? __ldg(x + s * tiles * 32) : make_uint4(0, 0, 0, 0);
    float main[2][4] = {}, cross[2][4] = {};
#pragma unroll
    for (int s = 0; s < STEPS; ++s)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t hi[2] = {parts[s].x, parts[s].y}, lo[2] = {parts[s].z, parts[s].w};
        ptx::mma(__half(), main[i], w[0][i][s], hi);
        // A's upper part first, as everywhere.
        if constexpr (W_IS_A) {
          ptx::mma(__half(), cross[i], w[0][i][s], lo);
          ptx::mma(__half(), cross[i], w[1][i][s], hi);
        } else {
          ptx::mma(__half(), cross[i], w[1][i][s], hi);
          ptx::mma(__half(), cross[i], w[0][i][s], lo);
        }
      }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int column = 8 * tile + 2 * t + j;
      if (column >= args.x_rows) continue;
      float term[4];
#pragma unroll
      for (int r = 0; r < 4; ++r)
        term[r] =
            __fmaf_rn(cross[r / 2][r % 2 * 2 + j], 0x1p-11f, main[r / 2][r % 2 * 2 + j]) * back[r];
      if constexpr (BESIDE) {
        *reinterpret_cast<float4*>(terms + column * PITCH + 4 * g) =
            make_float4(term[0], term[1], term[2], term[3]);
      } else {
#pragma unroll
        for (int r = 0; r < 4; ++r) terms[column * PITCH + 8 * r + g] = term[r];
      }
    }
  }
}

// C from an element's sum. What the guard computes again is not stored where there is an epilogue:
// C may be what it reads.
__device__ __forceinline__ void finish_and_store(const FewRowsArguments& args, float sum,
                                                 bool unsure, int64_t entry, int64_t m, int64_t n) {
  const int64_t at = entry * args.c_batch + m * args.c_m + n * args.c_n;
  if (!args.finishes) {
    args.c[at] = sum;
  } else if (!unsure) {
    args.c[at] = finish<float>(args.epilogue, sum, entry, m, n);
  }
}

}  // namespace

template <bool W_IS_A, bool BESIDE>
__global__ void __launch_bounds__(FEW_ROWS_TILE.threads)
    fp16x3_few_rows(const __grid_constant__ FewRowsArguments args) {
  extern __shared__ __align__(16) uint8_t memory[];
  Head& head = *reinterpret_cast<Head*>(memory);
  uint32_t* const leasts = reinterpret_cast<uint32_t*>(memory + sizeof(Head));  // [slot][lane]
  float* const terms = reinterpret_cast<float*>(leasts + args.slots * 32);      // [slot][x][PITCH]
  float* const sums = terms + args.slots * args.x_rows * PITCH;  // [x][sum, total][ROWS]
  ptx::griddepcontrol_launch_dependents();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const int64_t w0 = int64_t{blockIdx.x} * ROWS;
  const int chunks = static_cast<int>((args.k + CHUNK - 1) / CHUNK);
  const bool all_fit = args.slots >= chunks;
  bool is_first = true;

  for (int64_t entry = blockIdx.y; entry < args.batch; entry += gridDim.y) {
    const Rows of = {args.w + entry * args.w_batch + w0 * args.w_row, args.w_rows - w0};
    const uint4* x = static_cast<const uint4*>(args.x) + entry * args.x_batch;
    if (threadIdx.x < ROWS) head.most[threadIdx.x] = 0, head.lost[threadIdx.x] = 0;
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
        for (; chunk < until; ++chunk, term += args.x_rows * PITCH) sum = __fadd_rn(sum, *term);
      }
    };

    uint32_t most[4] = {};  // of this lane's share of its rows
    const auto pass = [&](auto by_own_scales) {
      constexpr bool OWN = decltype(by_own_scales)::value;
      const uint32_t sure = OWN ? 0 : sure_exponents<BESIDE>(head);
      for (int begin = 0; begin < chunks; begin += args.slots) {
        const int end = min(chunks, begin + args.slots);
        for (int chunk = begin + warp; chunk < end; chunk += warps) {
          const int slot = chunk - begin;
          uint32_t& least = leasts[slot * 32 + lane];
          if (!OWN && all_fit && !__any_sync(~0u, __vcmpltu4(least, sure))) continue;
          Chunk v;
          load<BESIDE>(v, args, of, chunk);
          Fragments parts;
          float back[4];
          uint32_t leasts = 0;  // what sure_exponents() is compared with, of the four rows
#pragma unroll
          for (int r = 0; r < 4; ++r) {
            const auto split_row = [&](auto split_two) {
#pragma unroll
              for (int s = 0; s < STEPS; ++s)
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                  const PairParts pair = split_two(v[r][s][2 * j], v[r][s][2 * j + 1]);
                  parts[0][r / 2][s][r % 2 + 2 * j] = reinterpret_cast<const uint32_t&>(pair.hi);
                  parts[1][r / 2][s][r % 2 + 2 * j] = reinterpret_cast<const uint32_t&>(pair.lo);
                }
            };
            if constexpr (OWN) {
              Range range;
#pragma unroll
              for (int s = 0; s < STEPS; ++s)
#pragma unroll
                for (int j = 0; j < 4; ++j) range.include(v[r][s][j]);
              uint32_t of_chunk = range.most;
              of_chunk = max(of_chunk, __shfl_xor_sync(~0u, of_chunk, 1));
              of_chunk = max(of_chunk, __shfl_xor_sync(~0u, of_chunk, 2));
              most[r] = max(most[r], of_chunk);
              const OwnScale own(of_chunk);
              back[r] = own.back;
              split_row(
                  [&](float x, float y) { return split_plain(x * own.factor, y * own.factor); });
              uint32_t of_lower = max(own.exponent, SURE_BINADES - 2) - (SURE_BINADES - 2);
              if (__any_sync(~0u, may_be_small(range, own))) {
                LeastLower lower;
#pragma unroll
                for (int i = 0; i < 2 * STEPS; ++i)
                  lower.include(parts[1][r / 2][i / 2][r % 2 + 2 * (i % 2)]);
                // Where the row's scale is the chunk's, any lower part is sure.
                of_lower = max(lower.exponent(own.exponent),
                               max(own.exponent, SURE_BINADES) - SURE_BINADES);
              }
              leasts |= min(least_exponent(range), of_lower) << 8 * r;
            } else {
              const int row = row_of<BESIDE>(r);
              const Scale scale(head.most[row]);
              back[r] = is_moderate(scale) ? __int_as_float((127 - scale.exponent) << 23) : 1;
              uint32_t lost = 0;  // by sixteen elements
              split_row([&](float x, float y) {
                return split_pair<false>(x, y, scale, scale, lost, lost);
              });
              if (lost != 0) atomicAdd(&head.lost[row], static_cast<unsigned long long>(lost));
            }
          }
          // W is the caller's; X, and all memory to write, are the kernel's before.
          if (is_first) ptx::griddepcontrol_wait();
          is_first = false;
          // Where slots are used again, of all that a lane had in this one.
          if (OWN) least = __vminu4(begin == 0 ? ~0u : least, leasts);
          multiply<W_IS_A, BESIDE>(terms + slot * args.x_rows * PITCH, parts, back, args, x, chunk);
        }
        if (all_fit) break;
        __syncthreads();
        for (int e = threadIdx.x; e / ROWS < args.x_rows; e += blockDim.x) {
          float* of_element = sums + e / ROWS * 2 * ROWS + e % ROWS;
          float sum = begin == 0 ? 0 : of_element[0], total = begin == 0 ? 0 : of_element[ROWS];
          add_up(e, begin, end, sum, total);
          of_element[0] = sum, of_element[ROWS] = total;
        }
        __syncthreads();
      }
    };
    pass(std::true_type());
    if (is_first) ptx::griddepcontrol_wait();
    is_first = false;

    if (lane % 4 == 0)
#pragma unroll
      for (int r = 0; r < 4; ++r) atomicMax(&head.most[row_of<BESIDE>(r)], most[r]);
    if (threadIdx.x < args.x_rows)
      head.x_scales[threadIdx.x] = args.x_scales[entry * args.x_scales_batch + threadIdx.x];
    __syncthreads();
    uint32_t unsure = 0;
    const uint32_t sure = sure_exponents<BESIDE>(head);
    for (int slot = warp; slot < min(args.slots, chunks); slot += warps)
      unsure |= __vcmpltu4(leasts[slot * 32 + lane], sure);
    if (__syncthreads_or(unsure != 0)) {
      pass(std::false_type());
      __syncthreads();
    }

    for (int e = threadIdx.x; e / ROWS < args.x_rows; e += blockDim.x) {
      const int of_x = e / ROWS, of_w = e % ROWS;
      const bool exists = of_w < of.rows;
      const Scale scale(head.most[of_w]);
      const RowScale x_scale = head.x_scales[of_x], w_scale = scale.result(head.lost[of_w]);
      const float* of_element = sums + of_x * 2 * ROWS + of_w;
      float sum = all_fit ? 0 : of_element[0], total = all_fit ? 0 : of_element[ROWS];
      if (all_fit) add_up(e, 0, chunks, sum, total);
      total = __fadd_rn(total, sum);
      const int by = is_moderate(scale) ? 0 : w_scale.exponent;
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
    __syncthreads();
  }
}

const void* fp16x3_few_rows_kernel(bool w_is_a, bool beside) {
  if (w_is_a)
    return beside ? reinterpret_cast<const void*>(&fp16x3_few_rows<true, true>)
                  : reinterpret_cast<const void*>(&fp16x3_few_rows<true, false>);
  return beside ? reinterpret_cast<const void*>(&fp16x3_few_rows<false, true>)
                : reinterpret_cast<const void*>(&fp16x3_few_rows<false, false>);
}

}  // namespace tiled
