// Rung async_mma. Tensor cores at nearly what mma.sync can do, on every GPU since Ampere. Operands
// come by cp.async, which passes no register, into a ring of stages with the layout of
// ldmatrix; fragments of 16 of k are loaded, and copies started, while those before are multiplied.
//
//     shared memory: a ring of STAGES          C: a warp owns 64 x 64 of it, 4 x 8 tiles of 16 x 8
//     +-------+-------+-------+-------+          +-----+-----+-----+-----+
//     |  A,B  |  A,B  |  A,B  |  A,B  |          | w0  | w1  | w2  | w3  |
//     +-------+-------+-------+-------+          +-----+-----+-----+-----+
//      read    next    then    being             | w4  | w5  | w6  | w7  |
//      now                     filled            +-----+-----+-----+-----+
//      -> ldmatrix             <- cp.async
//
// An operand is in a stage as in global memory: along k, or along m or n, from where ldmatrix
// transposes it (async_operand.cuh); tf32 and bytes along k. K ascends in steps of 32 bytes into an
// accumulator a segment, as in all rungs of its arithmetic; a deep K has totals in the workspace.
//
// Preconditions: fp16, bf16, fp32 as tf32, bytes; compute capability 8.0, or 7.5 and fp16; any
// strides (any_operand.cuh, word_operand.cuh), but of 16 bits A along m with B along k by swap_ab.
// Bound by shared memory: a warp's fragments of 64 x 64 take it two thirds of the time that their
// multiplications take an H200's tensor cores, the copies a fifth.
// Measured: 58 % of cuBLAS in bf16 on an H200.
#pragma once

#include <type_traits>

#include "core/segments.h"
#include "cuda/engine/async_mma/any_operand.cuh"
#include "cuda/engine/async_mma/fragments.cuh"
#include "cuda/engine/async_mma/kernels.h"
#include "cuda/engine/async_mma/store.cuh"
#include "cuda/engine/async_mma/tiles.h"
#include "cuda/engine/async_mma/word_operand.cuh"
#include "cuda/parts/arithmetic/thread_tile.cuh"
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/parts/launch/fault.cuh"
#include "cuda/parts/schedule/for_groups.cuh"
#include "cuda/parts/schedule/raster.cuh"
#include "cuda/parts/schedule/turn.cuh"

namespace tiled {

// The class that brings an operand.
template <typename Tile, typename T, int ROWS, int WARP_ROWS, bool ALONG_MN, bool IS_B>
using OperandOf = std::conditional_t<
    !Tile::ANY, AsyncOperand<Tile, T, ROWS, WARP_ROWS, ALONG_MN, IS_B>,
    std::conditional_t<sizeof(T) == 2, AnyOperand<Tile, T, ROWS, WARP_ROWS, ALONG_MN, IS_B>,
                       WordOperand<Tile, T, ROWS, WARP_ROWS, IS_B>>>;

// Tile `number` of a problem, and of its operands how the arguments say; `shared` is at a multiple
// of 1024 bytes.
template <typename Tile, typename T, bool A_ALONG_M, bool B_ALONG_N>
__device__ __forceinline__ void compute_by_mma(const Problem& problem,
                                               const AsyncMmaArguments& args, bool shares,
                                               uint32_t shared_base, int64_t number) {
  constexpr int BLOCK_M = Tile::BLOCK_M, BLOCK_N = Tile::BLOCK_N, STAGES = Tile::STAGES;
  constexpr bool ANY = Tile::ANY;
  constexpr int BLOCK_K = Tile::STEP_BYTES / sizeof(T), PARTS = Tile::STEP_BYTES / 32;
  constexpr int TILES_M = Tile::WARP_M / 16, TILES_N = Tile::WARP_N / 8;  // of a warp
  constexpr int64_t RASTER_GROUP = Tile::RASTER_ROWS / BLOCK_M;           // rows of tiles
  using A = OperandOf<Tile, T, BLOCK_M, Tile::WARP_M, A_ALONG_M, false>;
  using B = OperandOf<Tile, T, BLOCK_N, Tile::WARP_N, B_ALONG_N, true>;
  constexpr int COPIES = A::COPIES + B::COPIES, SHARES = (PARTS - 1) * TILES_M;  // of a step
  constexpr uint32_t B_AT = A::BYTES, STAGE_BYTES = Tile::STAGE_BYTES;

  const auto a_strides = [&]() -> RowsByK { return {problem.a.row_stride, problem.a.col_stride}; };
  const auto b_strides = [&]() -> RowsByK { return {problem.b.col_stride, problem.b.row_stride}; };

  int64_t tile_m, tile_n;
  tile_of_block<RASTER_GROUP>(number, (problem.m + BLOCK_M - 1) / BLOCK_M,
                              (problem.n + BLOCK_N - 1) / BLOCK_N, tile_m, tile_n);
  // Below 2^31: kept in 32 bits and widened at each use, the tile costs two registers less.
  int tile_row = static_cast<int>(tile_m), tile_column = static_cast<int>(tile_n);
  const auto row0 = [&] { return int64_t{tile_row} * BLOCK_M; };
  const auto column0 = [&] { return int64_t{tile_column} * BLOCK_N; };
  const int rows = static_cast<int>(min(problem.m - row0(), int64_t{BLOCK_M}));
  const int columns = static_cast<int>(min(problem.n - column0(), int64_t{BLOCK_N}));

  const int warp = threadIdx.x / 32;
  const int warp_m = warp / Tile::WARPS_N * Tile::WARP_M;
  const int warp_n = warp % Tile::WARPS_N * Tile::WARP_N;
  const uint32_t a_lane = shared_base + A::lane_at(warp_m);
  const uint32_t b_lane = shared_base + B_AT + B::lane_at(warp_n);

  for (int64_t turn = blockIdx.y; turn < turns_of(problem, shares, args.leaves);
       turn += gridDim.y) {
    const int64_t entry = entry_of(problem, shares, turn);
    Accumulator<T> chain[TILES_M][TILES_N][4];
#pragma unroll 1
    for (int64_t segment = first_segment_of(problem, shares, turn);; ++segment) {
      clear(chain);
      const Stretch stretch = stretch_of(problem, segment, args.leaves);
      const auto first_of = [&](const Operand& x) {
        return static_cast<const T*>(x.data) + entry * x.batch_stride;
      };
      const auto end_of = [&](const Operand& x, RowsByK strides, int64_t all_rows) {
        return first_of(x) + (all_rows - 1) * strides.row + (problem.k - 1) * strides.k + 1;
      };
      const auto tile_of = [&](const Operand& x, RowsByK strides, int64_t row) {
        return first_of(x) + row * strides.row + stretch.begin * strides.k;
      };
      A a(tile_of(problem.a, a_strides(), row0()), a_strides(), first_of(problem.a),
          end_of(problem.a, a_strides(), problem.m));
      B b(tile_of(problem.b, b_strides(), column0()), b_strides(), first_of(problem.b),
          end_of(problem.b, b_strides(), problem.n));
      const int length = static_cast<int>(stretch.end - stretch.begin);

      int to_copy = length;  // values of k whose copy has not been started
      const auto start_copies = [&](uint32_t stage) {
        if (to_copy <= 0) return;
        const uint32_t a_tile = shared_base + stage, b_tile = a_tile + B_AT;
        if constexpr (ANY) {
          a.start(a_tile, rows, to_copy, a_strides(), args.a);
          b.start(b_tile, columns, to_copy, b_strides(), args.b);
        } else {
          a.copy(a_tile, rows, to_copy, a_strides(), end_of(problem.a, a_strides(), problem.m));
          b.copy(b_tile, columns, to_copy, b_strides(), end_of(problem.b, b_strides(), problem.n));
        }
      };
      const bool is_whole = rows == BLOCK_M && columns == BLOCK_N;
      const int simple = min(A::simple_steps(rows, problem.m, length, a_strides()),
                             B::simple_steps(columns, problem.n, length, b_strides()));
      const auto copy_one = [&](bool whole, uint32_t stage, int i) {
        if (i < A::COPIES)
          a.copy_simply(whole, shared_base + stage, i, rows, a_strides());
        else
          b.copy_simply(whole, shared_base + stage + B_AT, i - A::COPIES, columns, b_strides());
      };
      const auto end_copies = [&](uint32_t stage) {
        if constexpr (ANY) {
          if (to_copy > 0) a.end(shared_base + stage, rows, to_copy, args.a);
          if (to_copy > 0) b.end(shared_base + stage + B_AT, columns, to_copy, args.b);
        }
        to_copy -= BLOCK_K;
        ptx::cp_async_commit_group();
      };
      // The next stage is filled and seen by all, and the one just read may be filled again.
      const auto change_stage = [] {
        if constexpr (FAULT != Fault::NoFullWait) ptx::cp_async_wait_group<STAGES - 2>();
        maybe_delay();
        if constexpr (FAULT != Fault::NoEmptyWait) __syncthreads();
      };
#pragma unroll 1
      for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage >= simple) start_copies(stage * STAGE_BYTES);
#pragma unroll
        for (int i = 0; stage < simple && i < COPIES; ++i)
          copy_one(is_whole, stage * STAGE_BYTES, i);
        end_copies(stage * STAGE_BYTES);
      }
      change_stage();

      uint32_t read = 0, write = (STAGES - 1) * STAGE_BYTES;  // stages, as bytes
      const auto next = [](uint32_t stage) {
        return stage == (STAGES - 1) * STAGE_BYTES ? 0 : stage + STAGE_BYTES;
      };
      Fragments<Tile, T, A, B> fragments;
      fragments.load_first(a_lane + read, b_lane + read);
      // `copy` starts a share of the copies, of SHARES a step, or all of them as the first.
      const auto run_step = [&](auto copy) {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
          if (part == PARTS - 1) {
            change_stage();
            read = next(read);
          }
          const int next_part = (part + 1) % PARTS;
#pragma unroll
          for (int i = 0; i < TILES_M; ++i) {
            fragments.load_b_beside_row(b_lane + read, i, next_part, (part + 1) % 2);
            fragments.multiply_row(chain[i], i, part % 2);
            fragments.load_a(a_lane + read, i, next_part);
            if (part < PARTS - 1) copy(part * TILES_M + i);
          }
          if (part == PARTS - 2) {
            end_copies(write);
            write = next(write);
          }
        }
      };
      int step = 0;
      const auto run_simple_steps = [&](bool whole) {
#pragma unroll 1
        for (; step < simple - (STAGES - 1); ++step)
          run_step([&](int share) {
#pragma unroll
            for (int i = share * COPIES / SHARES; i < (share + 1) * COPIES / SHARES; ++i)
              copy_one(whole, write, i);
          });
      };
      is_whole ? run_simple_steps(true) : run_simple_steps(false);
#pragma unroll 1
      for (; step * BLOCK_K < length; ++step)
        run_step([&](int share) {
          if (share == 0) start_copies(write);
        });
      __syncthreads();  // before the next segment or batch entry fills the first stage

      constexpr int VECTORS = TILES_M * TILES_N, IN_FLIGHT = VECTORS < 4 ? VECTORS : 4;
      const bool is_last = is_last_segment(problem, shares, segment);
      add_segment<Tile::THREADS, IN_FLIGHT>(args.totals, in_a_row(chain),
                                            is_first_segment(shares, segment), is_last);
      if (is_last) break;
    }
    ptx::opaque(tile_row, tile_column);  // addresses of C are computed now, as in store_tile
    if (shares) let_the_next_start();
    store_tile<Tile, T>(problem, {turn, row0(), column0(), rows, columns}, chain, shared_base,
                        warp_m, warp_n);
  }
}

template <typename Tile, typename T, bool A_ALONG_M, bool B_ALONG_N>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    async_mma(const __grid_constant__ AsyncMmaArguments args) {
  extern __shared__ __align__(1024) char shared[];
  compute_by_mma<Tile, T, A_ALONG_M, B_ALONG_N>(
      args.problem, args, args.split_k, static_cast<uint32_t>(__cvta_generic_to_shared(shared)),
      blockIdx.x);
}

template <typename Tile, typename T, bool A_ALONG_M, bool B_ALONG_N>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    async_mma_of_groups(const __grid_constant__ AsyncMmaArguments args) {
  extern __shared__ __align__(1024) char shared[];
  const auto shared_base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  for_tiles_of_groups<Tile::BLOCK_M, Tile::BLOCK_N>(
      args.problem, [&](const Problem& problem, int64_t number) {
        compute_by_mma<Tile, T, A_ALONG_M, B_ALONG_N>(problem, args, /*shares=*/false, shared_base,
                                                      number);
      });
}

// Groups begin anywhere, so that theirs are the tiles of any alignment.

}  // namespace tiled
