// The kernels of rung fp16x3 that go through shared memory have these in common: stages, roles and
// the way of a finished tile to C. Those of hopper; fp16x3.cu and direct.cu add their consumers.
#pragma once

#include <cuda_fp16.h>

#include "cuda/engine/fp16x3/fp16x3.h"
#include "cuda/engine/fp16x3/fp16x3_store.cuh"
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/parts/pipeline/operand_tile.cuh"
#include "cuda/parts/pipeline/stage_ring.cuh"
#include "cuda/parts/schedule/hopper_schedule.cuh"
#include "cuda/ptx/shared.cuh"

namespace tiled {

// Two planes of an operand in a stage: [hi, lo][rows][64 of k].
template <int ROWS, int SHARE, bool MN_MAJOR>
struct Planes {
  using Plane = OperandTile<__half, ROWS, SHARE, MN_MAJOR>;
  static constexpr int BYTES = 2 * Plane::BYTES;

  static __device__ __forceinline__ auto part(int blocks, int rank) {
    return Plane::part(blocks, rank);
  }
  static __device__ __forceinline__ void load(const typename Plane::Part& part, uint32_t shared,
                                              const CUtensorMap* map, int row, int k, int batch,
                                              uint32_t barrier) {
#pragma unroll
    for (int plane = 0; plane < 2; ++plane)
      Plane::load(part, shared + plane * Plane::BYTES, map, row, k, 2 * batch + plane, barrier);
  }
};

// Where a unit's K begins in the planes.
__device__ __forceinline__ int first_k_of(const Unit&) { return 0; }

// P and Q: an operand's share of a stage and how it is loaded, as Planes.
template <typename Tile_, typename P_, typename Q_>
struct Fp16x3 : StageRing<Tile_::STAGES> {
  using Tile = Tile_;
  using P = P_;
  using Q = Q_;
  static_assert(P::BYTES + Q::BYTES == Tile::STAGE_BYTES);
  static constexpr int STAGES = Tile::STAGES;
  using Stages = StageRing<STAGES>;
  using Stages::base;
  static constexpr int REGISTERS = Tile::BLOCK_Q / 2;  // of one set of accumulators
  using Set = float[REGISTERS];

  // Elements of C of one thread.
  static constexpr int SUMS = Tile::BLOCK_P * Tile::BLOCK_Q / (128 * Tile::CONSUMERS);
  using Sums = float[SUMS];

  // Shared memory, bytes from its begin: [STAGES][P | Q], what consumers exchange, a place for each
  // of their warps to store from, the barriers.
  static constexpr uint32_t Q_AT = P::BYTES;
  static constexpr uint32_t EXCHANGE_AT = STAGES * Tile::STAGE_BYTES;
  static constexpr uint32_t STAGING_AT = EXCHANGE_AT + Tile::EXCHANGE_BYTES;
  static constexpr uint32_t BARRIERS_AT = STAGING_AT + Tile::STAGING_BYTES;
  static constexpr uint32_t CUT_AT = BARRIERS_AT + Stages::BARRIER_BYTES;  // [3], of stream-K
  static constexpr uint32_t GIVEN_AT = CUT_AT + 3 * 8;  // [2][4], warp i's terms lie there

  const Fp16x3Arguments& args;
  Schedule<Tile, Tile::BLOCK_K> schedule;

  __device__ __forceinline__ Fp16x3(const Fp16x3Arguments& a, uint8_t* memory)
      : Stages(a.grid, memory, BARRIERS_AT), args(a), schedule(a.grid) {}

  __device__ __forceinline__ uint32_t given(uint32_t consumer) const {
    return base + GIVEN_AT + (4 * consumer + threadIdx.x % 128 / 32) * 8;
  }

  __device__ __forceinline__ void initialise_barriers() const {
    this->initialise(1, 4 * Tile::READERS, [&] {
      if constexpr (Tile::EXCHANGE_BYTES > 0)
        for (int i = 0; i < 8; ++i) ptx::mbarrier_init(base + GIVEN_AT + i * 8, 32);
    });
  }

  // Turns: the cluster's units, WholeTurns or StreamKTurns.
  template <typename Turns>
  __device__ __forceinline__ void produce(const Turns& units) {
    const HopperArguments& grid = args.grid;
    const auto p_part = P::part(grid.cluster_q, schedule.rank);
    const auto q_part = Q::part(grid.cluster_p, schedule.rank);
    StageProducer<STAGES> stages(*this);
    for (uint32_t i = units.first; i < units.end; i += units.stride) {
      const auto unit = units.at(i);
      stages.fill(unit.first, unit.last, Tile::STAGE_BYTES, [&](uint32_t s, int step) {
        const uint32_t stage = base + s * Tile::STAGE_BYTES, f = this->full(s);
        const int k = first_k_of(unit) + step * Tile::BLOCK_K;
        P::load(p_part, stage, &grid.p_map, unit.p, k, unit.batch * grid.p_batch, f);
        Q::load(q_part, stage + Q_AT, &grid.q_map, unit.q, k, unit.batch * grid.q_batch, f);
      });
    }
    stages.wait_for_readers();
  }

  // This thread's totals, in the workspace.
  __device__ __forceinline__ float4* total_of(int consumer) const {
    return reinterpret_cast<float4*>(args.grid.totals) +
           (int64_t{blockIdx.x} * Tile::CONSUMERS + consumer) * (SUMS / 4 * 128) +
           threadIdx.x % 128;
  }

  // total = total + sum, in this thread's place in the workspace; both are left with it.
  __device__ __forceinline__ void add_to_total(Sums& sum, float4* total, bool is_first) {
#pragma unroll
    for (int j = 0; j < SUMS / 4; ++j) {
      const float4 t = is_first ? make_float4(0, 0, 0, 0) : __ldcg(total + j * 128);
      float* v = &sum[4 * j];
      v[0] = t.x + v[0], v[1] = t.y + v[1], v[2] = t.z + v[2], v[3] = t.w + v[3];
      __stcg(total + j * 128, make_float4(v[0], v[1], v[2], v[3]));
    }
  }

  // C from the sums of 64 rows from (p, q) on.
  __device__ __forceinline__ void store(const Sums& sum, int p, int q, int batch) const {
    store(sum, p, q, batch, AllOfC{args});
  }
  template <typename Where>
  __device__ __forceinline__ void store(const Sums& sum, int p, int q, int batch,
                                        const Where& where) const {
    const uint32_t warp = threadIdx.x / 32 - 4;  // of the consumers'
    store_fp16x3_sums(args, base + STAGING_AT + warp * FP16X3_STORE_BYTES, sum,
                      p + static_cast<int>(warp) % 4 * STORE_ROWS, q, batch, where);
  }
};

// Kernel: a Fp16x3 with consume(units, number of the consumer). The units of its cluster are those
// that turns_of(kernel) says.
template <typename Kernel, typename TurnsOf>
__device__ __forceinline__ void run_fp16x3(const Fp16x3Arguments& args, uint8_t* memory,
                                           TurnsOf turns_of) {
  using Tile = typename Kernel::Tile;
  Kernel kernel(args, memory);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&args.grid.p_map);
    ptx::prefetch_tensormap(&args.grid.q_map);
  }
  kernel.initialise_barriers();
  let_the_next_start();
  wait_for_kernels_before();
  const auto units = turns_of(kernel);
  const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::PRODUCER_REGISTERS>();
    const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
    if (warp == 0) kernel.produce(units);
    run_handoff_warp(units, warp);
  } else {
    ptx::setmaxnreg_inc<Tile::CONSUMER_REGISTERS>();
    kernel.consume(units, warpgroup - 1);
  }
}

}  // namespace tiled
