// fp16x3 from compute capability 8.0 on, by cp.async, ldmatrix and mma.sync: the same products in
// the same order as fp16x3.cu, and on 9.0 the same bits.
//
//     a stage: 64 of K       P hi [BLOCK_P][64]   P lo   Q hi [BLOCK_Q][64]   Q lo      swizzled
//
//     a warp's 32 rows of P, all of the stage, in registers: hi and lo
//     for each 16 columns of Q, hi and lo:
//         for each 16 of K:  main += Ph Qh    cross += Ph Ql    cross += Pl Qh    mma.sync, from
//         zero sum += main + 2^-11 cross                                               fp32, to
//         nearest
//
// Main and cross products are needed for 64 of K only. So here they are those of a few columns at a
// time, and a thread's registers hold one whole set of accumulators, not three.
// Preconditions: both operands' planes along k, as split.cu writes them, at multiples of 16 bytes;
// compute capability 8.0; K is not 0. P is A and Q is B.
// Bound by mma.sync, and beside it by what shared memory gives to fragments.
#include "cuda/engine/fp16x3/fp16x3_store.cuh"
#include "cuda/engine/fp16x3/groups.cuh"
#include "cuda/parts/arithmetic/thread_tile.cuh"
#include "cuda/parts/launch/fault.cuh"
#include "cuda/parts/pipeline/async_operand.cuh"
#include "cuda/parts/schedule/raster.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/opaque.cuh"

namespace tiled {

// The parts that a warp multiplies in one step.
template <typename Tile>
struct Fp16x3Parts {
  using P = AsyncOperand<Tile, __half, Tile::BLOCK_P, Tile::WARP_P, false, /*IS_B=*/false>;
  using Q = AsyncOperand<Tile, __half, Tile::BLOCK_Q, Tile::WARP_Q, false, /*IS_B=*/true>;
  static constexpr int ROWS = Tile::WARP_P / 16;     // of tiles
  static constexpr int COLUMNS = Tile::WARP_Q / 16;  // of pairs of tiles of 8 columns
  static constexpr int STEPS = Tile::BLOCK_K / 16;

  uint32_t rows[2][ROWS][STEPS][4];  // [hi, lo][tile][step][word of mma.sync]
  uint32_t columns[2][STEPS][2][2];  // of a pair: [hi, lo][step][tile][word of mma.sync]

  __device__ __forceinline__ void load_rows(uint32_t lane) {
#pragma unroll
    for (int plane = 0; plane < 2; ++plane)
#pragma unroll
      for (int i = 0; i < ROWS; ++i)
#pragma unroll
        for (int k = 0; k < STEPS; ++k) P::load(rows[plane][i][k], lane + plane * P::BYTES, i, k);
  }

  __device__ __forceinline__ void load_columns(uint32_t lane, int pair, int k) {
#pragma unroll
    for (int plane = 0; plane < 2; ++plane) {
      uint32_t two[4];
      Q::load(two, lane + plane * Q::BYTES, pair, k);
#pragma unroll
      for (int v = 0; v < 4; ++v) columns[plane][k][v / 2][v % 2] = two[v];
    }
  }

  // The terms of a pair of tiles of columns, to the sums. The next pair takes its place step by
  // step.
  template <int TILES>
  __device__ __forceinline__ void multiply(float (&sums)[ROWS][TILES][4], uint32_t lane, int pair) {
    float main[ROWS][2][4] = {}, cross[ROWS][2][4] = {};
    const auto add_products = [&](float (&to)[ROWS][2][4], int p, int q, int k) {
#pragma unroll
      for (int i = 0; i < ROWS; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) ptx::mma(__half(), to[i][j], rows[p][i][k], columns[q][k][j]);
    };
#pragma unroll
    for (int k = 0; k < STEPS; ++k) {
      add_products(main, 0, 0, k);
      add_products(cross, 0, 1, k);
      add_products(cross, 1, 0, k);
      if (pair + 1 < COLUMNS) load_columns(lane, pair + 1, k);
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          float& sum = sums[i][2 * pair + j][v];
          sum = __fadd_rn(sum, __fmaf_rn(cross[i][j][v], 0x1p-11f, main[i][j][v]));
        }
  }
};

// A tile of C.
struct Fp16x3Place {
  int p, q, rows, columns;  // of which so many exist
  int entry;
};

template <typename Tile, typename Where>
__device__ __forceinline__ void compute_fp16x3(const Fp16x3AsyncArguments& args,
                                               uint32_t shared_base, const Fp16x3Place& place,
                                               const Where& where) {
  using Parts = Fp16x3Parts<Tile>;
  using P = typename Parts::P;
  using Q = typename Parts::Q;
  constexpr int BLOCK_K = Tile::BLOCK_K, STAGES = Tile::STAGES;
  constexpr uint32_t STAGE_BYTES = Tile::STAGE_BYTES, Q_AT = 2 * P::BYTES;
  const HopperArguments& grid = args.product.grid;
  const int entry = place.entry, rows = place.rows, columns = place.columns;
  int p0 = place.p, q0 = place.q;
  const bool is_whole = rows == Tile::BLOCK_P && columns == Tile::BLOCK_Q;
  const int warp = threadIdx.x / 32;
  const int warp_p = warp / Tile::WARPS_Q * Tile::WARP_P;
  const int warp_q = warp % Tile::WARPS_Q * Tile::WARP_Q;
  const uint32_t p_lane = shared_base + P::lane_at(warp_p);
  const uint32_t q_lane = shared_base + Q_AT + Q::lane_at(warp_q);
  const auto p_strides = [&]() -> RowsByK { return {args.p_pitch, 1}; };
  const auto q_strides = [&]() -> RowsByK { return {args.q_pitch, 1}; };
  const int64_t segments = segment_count(where.k());
  float sums[Parts::ROWS][2 * Parts::COLUMNS][4];
#pragma unroll 1
  for (int64_t segment = 0; segment < segments; ++segment) {
    clear(sums);
    ptx::opaque(p0, q0);  // addresses are computed anew: kept, they would take registers
    const int64_t begin = segment_begin(segment);
    const int length = static_cast<int>(segment_end(segment, where.k()) - begin);
    const __half* const p = args.p + int64_t{2} * entry * grid.p_batch * args.p_plane +
                            p0 * args.p_pitch + where.first_k() + begin;
    const __half* const q = args.q + int64_t{2} * entry * grid.q_batch * args.q_plane +
                            q0 * args.q_pitch + where.first_k() + begin;
    P p_planes[2] = {P(p, p_strides()), P(p + args.p_plane, p_strides())};
    Q q_planes[2] = {Q(q, q_strides()), Q(q + args.q_plane, q_strides())};

    int to_copy = length;  // values of k whose copy has not been started
    const auto copy_next = [&](uint32_t stage) {
      const uint32_t p_tile = shared_base + stage, q_tile = p_tile + Q_AT;
      if (is_whole && to_copy >= BLOCK_K) {
#pragma unroll
        for (int plane = 0; plane < 2; ++plane) {
#pragma unroll
          for (int i = 0; i < P::COPIES; ++i)
            p_planes[plane].copy_whole(p_tile + plane * P::BYTES, i, p_strides());
#pragma unroll
          for (int i = 0; i < Q::COPIES; ++i)
            q_planes[plane].copy_whole(q_tile + plane * Q::BYTES, i, q_strides());
        }
      } else if (to_copy > 0) {
#pragma unroll
        for (int plane = 0; plane < 2; ++plane) {  // whose rows end with whole cache lines
          p_planes[plane].copy(p_tile + plane * P::BYTES, rows, to_copy, p_strides(),
                               p + plane * args.p_plane + rows * args.p_pitch);
          q_planes[plane].copy(q_tile + plane * Q::BYTES, columns, to_copy, q_strides(),
                               q + plane * args.q_plane + columns * args.q_pitch);
        }
      }
      to_copy -= BLOCK_K;
      ptx::cp_async_commit_group();
    };
#pragma unroll 1
    for (int stage = 0; stage < STAGES - 1; ++stage) copy_next(stage * STAGE_BYTES);

    uint32_t read = 0, write = (STAGES - 1) * STAGE_BYTES;  // stages, as bytes
    const auto next = [](uint32_t stage) {
      return stage == (STAGES - 1) * STAGE_BYTES ? 0 : stage + STAGE_BYTES;
    };
    const int steps = (length + BLOCK_K - 1) / BLOCK_K;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      // So that this stage is filled and seen by all, and the one before may be filled again.
      if constexpr (FAULT != Fault::NoFullWait) ptx::cp_async_wait_group<STAGES - 2>();
      maybe_delay();
      if constexpr (FAULT != Fault::NoEmptyWait) __syncthreads();
      copy_next(write);
      Parts parts;
      parts.load_rows(p_lane + read);
#pragma unroll
      for (int k = 0; k < Parts::STEPS; ++k) parts.load_columns(q_lane + read, 0, k);
#pragma unroll
      for (int pair = 0; pair < Parts::COLUMNS; ++pair) parts.multiply(sums, q_lane + read, pair);
      read = next(read), write = next(write);
    }
    __syncthreads();  // before the next segment fills the first stage, or C takes its place
    add_segment<Tile::THREADS, 4>(grid.totals, in_a_row(sums), segment == 0,
                                  segment + 1 == segments);
  }
  go_round<8 * Parts::COLUMNS>(in_a_row(sums), [&](int i, const auto& of_rows) {
    store_fp16x3_sums(args.product, shared_base + warp * FP16X3_STORE_BYTES, of_rows,
                      p0 + warp_p + 16 * i, q0 + warp_q, entry, where);
  });
  __syncthreads();  // before the next tile's planes come to the same place
}

template <typename Tile>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    fp16x3_async(const __grid_constant__ Fp16x3AsyncArguments args) {
  constexpr int64_t RASTER_GROUP = Tile::RASTER_ROWS / Tile::BLOCK_P;  // rows of tiles
  const HopperArguments& grid = args.product.grid;
  extern __shared__ __align__(1024) char shared[];
  const uint32_t shared_base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  int64_t tile_p, tile_q;
  tile_of_block<RASTER_GROUP>(blockIdx.x, grid.clusters_p, grid.clusters_q, tile_p, tile_q);
  const int p = static_cast<int>(tile_p) * Tile::BLOCK_P;
  const int q = static_cast<int>(tile_q) * Tile::BLOCK_Q;
  const int rows = min(grid.p - p, Tile::BLOCK_P), columns = min(grid.q - q, Tile::BLOCK_Q);
  for (int entry = blockIdx.y; entry < grid.batch; entry += gridDim.y)
    compute_fp16x3<Tile>(args, shared_base, {p, q, rows, columns, entry}, AllOfC{args.product});
}

// The units of GroupedTurns, for a block alone.
struct OneBlock {
  const HopperArguments& args;
  uint32_t rank, first, stride;
};

template <typename Tile>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    fp16x3_async_of_groups(const __grid_constant__ Fp16x3AsyncArguments args) {
  extern __shared__ __align__(1024) char shared[];
  const uint32_t shared_base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const HopperArguments& grid = args.product.grid;
  const OneBlock schedule = {grid, 0, blockIdx.x, gridDim.x};
  const PlanesTurns<OneBlock, Tile> units(schedule, args.product.coarse);
  for (uint32_t i = units.first; i < units.end; i += units.stride) {
    const PlanesUnit unit = units.at(i);
    if (unit.is_blank)
      clear_rows<Tile::BLOCK_P, Tile::BLOCK_Q, Tile::THREADS>(grid, unit.p, unit.q);
    else if (!unit.is_left)
      compute_fp16x3<Tile>(args, shared_base,
                           {unit.p, unit.q, min(unit.p_end - unit.p, Tile::BLOCK_P),
                            min(unit.q_end - unit.q, Tile::BLOCK_Q), unit.batch},
                           GroupOfC{args.product, unit});
  }
}

template <typename... Tiles>
static Kernel<Fp16x3AsyncArguments> function_of(TileList<Tiles...>, int tile, bool of_groups) {
  static constexpr Kernel<Fp16x3AsyncArguments> FUNCTIONS[] = {&fp16x3_async<Tiles>...};
  static constexpr Kernel<Fp16x3AsyncArguments> OF_GROUPS[] = {&fp16x3_async_of_groups<Tiles>...};
  return of_groups ? OF_GROUPS[tile] : FUNCTIONS[tile];
}

Kernel<Fp16x3AsyncArguments> fp16x3_async_kernel(int tile, bool of_groups) {
  return function_of(Fp16x3AsyncTiles(), tile, of_groups);
}

}  // namespace tiled
