// Rung 9, fp16x3: fp32 accuracy from fp16 tensor cores. Each operand is cut in two fp16 parts,
// x 2^e = hi + lo 2^-11 (9_split.cu), and three of the four products are kept:
//
//     A B ~ hi hi + 2^-11 (hi lo + lo hi)         (Ootomo and Yokota, arXiv 2203.03341)
//
//     for each 64 of K:   main  = Ah Bh                       wgmma, from zero
//                         cross = Ah Bl + Al Bh               wgmma, from zero
//                         sum  += main + 2^-11 cross          fp32, rounded to nearest
//
// The tensor core truncates its sums, which adds up over K: hence the fresh accumulators for every
// 64. Roles, stages and grid are those of rung 7. While one consumer adds up, the other multiplies:
// each gives the other its turn shortly before its own products are done.
// Preconditions: planes as 9_split.cu writes them; K is not 0.
// Bound by the power limit at large sizes: 3.9 to 4.6 times cuBLAS's fp32 from 4096 on, on an H200,
// split and guard included.
#include <cuda_fp16.h>

#include "cuda/fp16x3.h"
#include "cuda/kernels/hopper_schedule.cuh"
#include "cuda/kernels/operand_tile.cuh"
#include "cuda/ptx/cluster.cuh"

namespace tiled {

template <typename Tile, bool P_MN_MAJOR, bool Q_MN_MAJOR>
struct Fp16x3 {
  using P = OperandTile<__half, Tile::BLOCK_P, 64, P_MN_MAJOR>;
  using Q = OperandTile<__half, Tile::BLOCK_Q, Tile::BLOCK_Q, Q_MN_MAJOR>;
  static constexpr int STAGES = Tile::STAGES;
  static constexpr int REGISTERS = Tile::BLOCK_Q / 2;  // of one set of accumulators
  using Set = float[REGISTERS];

  // Shared memory, bytes from its begin: [STAGES][P hi | P lo | Q hi | Q lo], then the barriers.
  static constexpr uint32_t Q_AT = 2 * P::BYTES;
  static constexpr uint32_t FULL_AT = STAGES * Tile::STAGE_BYTES;  // [STAGES]
  static constexpr uint32_t EMPTY_AT = FULL_AT + STAGES * 8;       // [STAGES]
  static constexpr uint32_t TURN_AT = EMPTY_AT + STAGES * 8;       // [2], consumer i may issue

  const Fp16x3Arguments& args;
  uint32_t base;  // of memory, in the shared window
  Schedule<Tile, Tile::BLOCK_K> schedule;
  uint32_t blocks;  // of the cluster

  __device__ __forceinline__ Fp16x3(const Fp16x3Arguments& a, uint8_t* memory)
      : args(a),
        base(ptx::shared_address(memory)),
        schedule(a.grid),
        blocks(a.grid.cluster_p * a.grid.cluster_q) {}

  __device__ __forceinline__ uint32_t full(uint32_t stage) const {
    return base + FULL_AT + stage * 8;
  }
  __device__ __forceinline__ uint32_t empty(uint32_t stage) const {
    return base + EMPTY_AT + stage * 8;
  }
  __device__ __forceinline__ uint32_t turn(uint32_t consumer) const {
    return base + TURN_AT + consumer * 8;
  }

  __device__ __forceinline__ void synchronise() const {
    if (blocks == 1)
      __syncthreads();
    else
      ptx::cluster_sync_relaxed();
  }

  __device__ __forceinline__ void initialise_barriers() {
    if (threadIdx.x == 0) {
      for (int s = 0; s < STAGES; ++s) {
        ptx::mbarrier_init(full(s), 1);
        ptx::mbarrier_init(empty(s), 4 * Tile::CONSUMERS * blocks);  // each warp that reads it
      }
      for (int consumer = 0; consumer < 2; ++consumer) ptx::mbarrier_init(turn(consumer), 4);
      ptx::fence_mbarrier_init();
    }
    synchronise();
  }

  __device__ __forceinline__ void produce() {
    const HopperArguments& grid = args.grid;
    const bool issues = ptx::elect_sync();
    const auto p_part = P::part(grid.cluster_q, schedule.rank);
    const auto q_part = Q::part(grid.cluster_p, schedule.rank);
    Ring<STAGES> ring;
    for (uint32_t i = schedule.first; i < schedule.count; i += schedule.stride) {
      const Unit unit = schedule.at(i);
      const int p_entry = 2 * unit.batch * grid.p_batch, q_entry = 2 * unit.batch * grid.q_batch;
      for (int step = unit.first; step < unit.last; ++step, ring.advance()) {
        const uint32_t stage = base + ring.stage * Tile::STAGE_BYTES, f = full(ring.stage);
        ptx::mbarrier_wait(empty(ring.stage), ring.parity ^ 1);
        if (!issues) continue;
        ptx::mbarrier_arrive_expect_tx(f, Tile::STAGE_BYTES);
        const int k = step * Tile::BLOCK_K;
#pragma unroll
        for (int plane = 0; plane < 2; ++plane) {
          P::load(p_part, stage + plane * P::BYTES, &grid.p_map, unit.p, k, p_entry + plane, f);
          Q::load(q_part, stage + Q_AT + plane * Q::BYTES, &grid.q_map, unit.q, k, q_entry + plane,
                  f);
        }
      }
    }
  }

  // A warp's word that it has read a stage, to every block that fills it.
  __device__ __forceinline__ void release(uint32_t stage) {
    const uint32_t lane = threadIdx.x % 32;
    if (blocks == 1) {
      if (lane == 0) ptx::mbarrier_arrive(empty(stage));
    } else if (lane < blocks) {
      ptx::mbarrier_arrive_cluster(empty(stage), lane);
    }
  }

  __device__ __forceinline__ void multiply(Set& d, uint64_t p, uint64_t q, bool accumulate) {
    ptx::Wgmma<__half, Tile::BLOCK_Q>::template run<P_MN_MAJOR, Q_MN_MAJOR>(d, p, q, accumulate);
  }

  __device__ __forceinline__ void consume(int consumer) {
    const int thread = threadIdx.x % 128;
    const uint32_t row = 64 * consumer;
    const uint32_t p_at = base + P::offset(row, 0), q_at = base + Q_AT;
    // The cross products come in A's and B's order also where P is B: the same bits either way.
    const uint32_t p_first = args.exchanged ? P::BYTES >> 4 : 0;
    const uint32_t p_second = (P::BYTES >> 4) - p_first;
    const uint32_t q_first = args.exchanged ? 0 : Q::BYTES >> 4;
    const uint32_t q_second = (Q::BYTES >> 4) - q_first;
    float4* total = reinterpret_cast<float4*>(args.grid.totals) +
                    (int64_t{blockIdx.x} * Tile::CONSUMERS + consumer) * (REGISTERS / 4 * 128) +
                    thread;
    Ring<STAGES> ring;
    uint32_t waits = 0;
    for (uint32_t i = schedule.first; i < schedule.count; i += schedule.stride) {
      const Unit unit = schedule.at(i);
      Set main, cross, sum;
      for (int piece = 0; piece < unit.pieces; ++piece) {
#pragma unroll
        for (int j = 0; j < REGISTERS; ++j) sum[j] = 0;
        const int end = unit.end(piece);
        for (int step = unit.begin(piece); step < end; ++step, ring.advance()) {
          const uint32_t offset = ring.stage * Tile::STAGE_BYTES;
          const uint64_t p = ptx::descriptor(P::LAYOUT, p_at + offset);
          const uint64_t q = ptx::descriptor(Q::LAYOUT, q_at + offset);
          ptx::mbarrier_wait(full(ring.stage), ring.parity);
          if constexpr (Tile::CONSUMERS == 2) {
            // Consumer 1 after consumer 0, which follows consumer 1's step before.
            if (consumer == 1 || waits != 0)
              ptx::mbarrier_wait(turn(consumer), (waits - (consumer == 0)) % 2);
            ++waits;
          }
          ptx::wgmma_fence();
#pragma unroll
          for (int k = 0; k < P::STEPS; ++k) {
            const uint64_t pk = p + (P::offset(0, k) >> 4), qk = q + (Q::offset(0, k) >> 4);
            multiply(main, pk, qk, k != 0);
            multiply(cross, pk + p_first, qk + q_first, k != 0);
            multiply(cross, pk + p_second, qk + q_second, true);
            if (k >= P::STEPS - 2) ptx::wgmma_commit_group();
          }
          if constexpr (Tile::CONSUMERS == 2) {
            // The last quarter of the products covers the other's way to the tensor cores.
            ptx::wgmma_wait_group<1>();
            if (thread % 32 == 0) ptx::mbarrier_arrive(turn(1 - consumer));
          }
          ptx::wgmma_wait_group<0>();
          release(ring.stage);
#pragma unroll
          for (int j = 0; j < REGISTERS; ++j)
            sum[j] = __fadd_rn(sum[j], __fmaf_rn(cross[j], 0x1p-11f, main[j]));
        }
        if (unit.pieces > 1) add_to_total(sum, total, piece == 0);
      }
      store(sum, unit.p + row, unit.q, unit.batch, thread);
    }
  }

  // total = total + sum, in this thread's place in the workspace; both are left with it.
  __device__ __forceinline__ void add_to_total(Set& sum, float4* total, bool is_first) {
#pragma unroll
    for (int j = 0; j < REGISTERS / 4; ++j) {
      const float4 t = is_first ? make_float4(0, 0, 0, 0) : __ldcg(total + j * 128);
      float* v = &sum[4 * j];
      v[0] = t.x + v[0], v[1] = t.y + v[1], v[2] = t.z + v[2], v[3] = t.w + v[3];
      __stcg(total + j * 128, make_float4(v[0], v[1], v[2], v[3]));
    }
  }

  // C = sum / 2^scale, a zero being positive; squares with an element that lost too much are listed
  // for the guard.
  __device__ __forceinline__ void store(const Set& sum, int p0, int q0, int batch, int thread) {
    const HopperArguments& grid = args.grid;
    const int row = p0 + thread / 32 * 16 + thread % 32 / 4, column = q0 + thread % 4 * 2;
    const RowScale* p_scales = args.p_scales + batch * args.p_scales_batch;
    const RowScale* q_scales = args.q_scales + batch * args.q_scales_batch;
    float* c = static_cast<float*>(grid.c) + batch * grid.c_batch;
    const bool pairs = grid.c_q == 1 && grid.c_p % 2 == 0 && grid.c_batch % 2 == 0 &&
                       reinterpret_cast<uintptr_t>(grid.c) % 8 == 0;
    RowScale rows[2], columns[REGISTERS / 2];  // all under way together; beyond the end any will do
#pragma unroll
    for (int half = 0; half < 2; ++half) rows[half] = p_scales[min(row + 8 * half, grid.p - 1)];
#pragma unroll
    for (int j = 0; j < REGISTERS / 2; ++j)
      columns[j] = q_scales[min(column + 8 * (j / 2) + j % 2, grid.q - 1)];
    // Nothing lost, and scales whose sum is that of a normal number: nearly always.
    bool is_plain = true;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      is_plain &= abs(rows[half].exponent) <= 60 && rows[half].lost == 0;
#pragma unroll
    for (int j = 0; j < REGISTERS / 2; ++j)
      is_plain &= abs(columns[j].exponent) <= 60 && columns[j].lost == 0;
    if (__all_sync(~0u, is_plain)) {
#pragma unroll
      for (int j = 0; j < REGISTERS / 4; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float values[2];
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int scale = rows[half].exponent + columns[2 * j + i].exponent;
            const float factor = __int_as_float((127 - scale) << 23);
            values[i] = __fadd_rn(__fmul_rn(sum[4 * j + 2 * half + i], factor), 0);
          }
          put(c, row + 8 * half, column + 8 * j, values, pairs);
        }
      return;
    }
    uint32_t seen = 0;  // bit for each 64 columns
#pragma unroll
    for (int j = 0; j < REGISTERS / 4; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float values[2];
        const int p = row + 8 * half, q = column + 8 * j;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const RowScale& of_q = columns[2 * j + i];
          const int scale = rows[half].exponent + of_q.exponent;
          values[i] = __fadd_rn(ldexpf(sum[4 * j + 2 * half + i], -scale), 0);
          if (p < grid.p && q + i < grid.q &&
              lost_is_seen(rows[half].lost + of_q.lost, scale, values[i], args.tolerance))
            seen |= 1u << (j / 8);
        }
        put(c, p, q, values, pairs);
      }
#pragma unroll
    for (int part = 0; part < Tile::BLOCK_Q / 64; ++part)
      if (__any_sync(~0u, seen & 1u << part) && thread % 32 == 0) {
        const uint32_t p = p0 / GUARD_SQUARE, q = q0 / GUARD_SQUARE + part;
        list_square(args.guard, batch, args.exchanged ? q : p, args.exchanged ? p : q);
      }
  }

  // Two neighbours along q.
  __device__ __forceinline__ void put(float* c, int p, int q, const float (&values)[2],
                                      bool pairs) {
    const HopperArguments& grid = args.grid;
    if (p >= grid.p) return;
    float* to = c + p * grid.c_p + q * grid.c_q;
    if (pairs && q + 1 < grid.q) {
      *reinterpret_cast<float2*>(to) = make_float2(values[0], values[1]);
    } else {
      if (q < grid.q) to[0] = values[0];
      if (q + 1 < grid.q) to[grid.c_q] = values[1];
    }
  }
};

template <typename Tile, bool P_MN_MAJOR, bool Q_MN_MAJOR>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    fp16x3(const __grid_constant__ Fp16x3Arguments args) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Fp16x3<Tile, P_MN_MAJOR, Q_MN_MAJOR> kernel(args, memory);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&args.grid.p_map);
    ptx::prefetch_tensormap(&args.grid.q_map);
  }
  kernel.initialise_barriers();
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
  const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::PRODUCER_REGISTERS>();
    if (__shfl_sync(~0u, threadIdx.x / 32, 0) == 0) kernel.produce();
  } else {
    ptx::setmaxnreg_inc<Tile::CONSUMER_REGISTERS>();
    kernel.consume(warpgroup - 1);
  }
  // No block leaves while others may still write to its shared memory or arrive at its barriers.
  kernel.synchronise();
}

template <bool P_MN_MAJOR, bool Q_MN_MAJOR, typename... Tiles>
static const void* function_of(TileList<Tiles...>, int tile) {
  static const void* const functions[] = {
      reinterpret_cast<const void*>(&fp16x3<Tiles, P_MN_MAJOR, Q_MN_MAJOR>)...};
  return functions[tile];
}

const void* fp16x3_kernel(int tile, bool p_mn_major, bool q_mn_major) {
  const Fp16x3Tiles tiles;
  if (p_mn_major)
    return q_mn_major ? function_of<true, true>(tiles, tile)
                      : function_of<true, false>(tiles, tile);
  return q_mn_major ? function_of<false, true>(tiles, tile)
                    : function_of<false, false>(tiles, tile);
}

}  // namespace tiled
