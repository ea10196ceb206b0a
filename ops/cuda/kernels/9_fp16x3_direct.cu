// fp16x3 where C is narrow: P, the large operand, comes as it lies, in fp32. The consumers take it
// from the stage, cut it in its fp16 parts in registers, and wgmma reads them there: no planes of P
// are written and read again, but each tile cuts P anew. The same bits as 9_fp16x3.cu.
//
// While the tensor cores multiply one stage, the consumer prepares the registers of the next.
// Preconditions: P's scales (launch_measure), Q's planes along k, in the order of k that Fp32Rows
// names; TMA can read P. Bound by the bytes of P and Q that a multiprocessor takes in.
#include "cuda/kernels/fp16_parts.cuh"
#include "cuda/kernels/fp16x3.cuh"
#include "cuda/kernels/fp32_rows.cuh"
#include "cuda/ptx/wgmma_registers.cuh"

namespace tiled {
namespace {

template <typename Tile, bool P_MN_MAJOR>
using DirectKernel = Fp16x3<Tile, Fp32Rows<P_MN_MAJOR>, Planes<64, 64, /*MN_MAJOR=*/false>>;

template <typename Tile, bool P_MN_MAJOR, bool EXCHANGED>
struct OfFp32 : DirectKernel<Tile, P_MN_MAJOR> {
  using Base = DirectKernel<Tile, P_MN_MAJOR>;
  using Q = typename Base::Q::Plane;
  using Set = typename Base::Set;
  using Base::args, Base::base, Base::full, Base::schedule;
  static constexpr int STAGES = Base::STAGES, REGISTERS = Base::REGISTERS, STEPS = Q::STEPS;
  using Fragments = uint32_t[STEPS][4];
  struct Parts {
    Fragments hi, lo;
  };
  // 2^e of this thread's two rows, as two factors: e reaches from -113 to 163.
  struct Factors {
    float first[2], second[2];
  };

  using Base::Base;

  __device__ __forceinline__ Factors factors_of(const Unit& unit) const {
    const int thread = threadIdx.x % 128, row = unit.p + thread / 32 * 16 + thread % 32 / 4;
    Factors factors;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int exponent =
          args.p_scales[unit.batch * args.p_scales_batch + min(row + 8 * i, args.grid.p - 1)]
              .exponent;
      const int half = exponent / 2;
      factors.first[i] = __int_as_float((127 + half) << 23);
      factors.second[i] = __int_as_float((127 + exponent - half) << 23);
    }
    return factors;
  }

  // This thread's part of P in a stage, 16 of k. A row with NaN or Inf has no scale, and the guard
  // computes all of it again.
  __device__ __forceinline__ void prepare(Parts& parts, int step, const Fp32Rows<P_MN_MAJOR>& rows,
                                          const Factors& factors, uint32_t stage) {
    float v[2][4];
    rows.take(v, base + stage * Tile::STAGE_BYTES, step);
#pragma unroll
    for (int row = 0; row < 2; ++row)
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const float first = factors.first[row], second = factors.second[row];
        const PairParts x =
            split_plain(v[row][2 * pair] * first * second, v[row][2 * pair + 1] * first * second);
        parts.hi[step][2 * pair + row] = reinterpret_cast<const uint32_t&>(x.hi);
        parts.lo[step][2 * pair + row] = reinterpret_cast<const uint32_t&>(x.lo);
      }
  }

  // The products of 16 of k.
  __device__ __forceinline__ void issue(Set& main, Set& cross, const Parts& parts, int k,
                                        uint32_t stage) {
    const uint32_t q_at = base + stage * Tile::STAGE_BYTES + Base::Q_AT + Q::offset(0, k);
    const uint64_t hi = ptx::descriptor(Q::LAYOUT, q_at);
    const uint64_t lo = ptx::descriptor(Q::LAYOUT, q_at + Q::BYTES);
    ptx::wgmma_64x64x16_from_registers(main, parts.hi[k], hi, k != 0);
    // In A's and B's order also where P is B: the same bits either way.
    if constexpr (EXCHANGED) {
      ptx::wgmma_64x64x16_from_registers(cross, parts.lo[k], hi, k != 0);
      ptx::wgmma_64x64x16_from_registers(cross, parts.hi[k], lo, true);
    } else {
      ptx::wgmma_64x64x16_from_registers(cross, parts.hi[k], lo, k != 0);
      ptx::wgmma_64x64x16_from_registers(cross, parts.lo[k], hi, true);
    }
  }

  __device__ __forceinline__ void consume(int) {
    const Fp32Rows<P_MN_MAJOR> rows;
    float4* const total = this->total_of(0);
    Ring<STAGES> ring;
    for (uint32_t i = schedule.first; i < schedule.count; i += schedule.stride) {
      const Unit unit = schedule.at(i);
      const Factors factors = factors_of(unit);
      Set main, cross, sum;
      Parts even, odd;
      ptx::mbarrier_wait(full(ring.stage), ring.parity);
#pragma unroll
      for (int k = 0; k < STEPS; ++k) prepare(even, k, rows, factors, ring.stage);
      for (int piece = 0; piece < unit.pieces; ++piece) {
#pragma unroll
        for (int j = 0; j < REGISTERS; ++j) sum[j] = 0;
        const int end = unit.end(piece);
        // One step: its products run while the registers of the next one, `after`, are prepared.
        const auto advance = [&](const Parts& parts, Parts& after, int step) {
          const uint32_t stage = ring.stage;
          ptx::wgmma_fence();
#pragma unroll
          for (int k = 0; k < STEPS; ++k) issue(main, cross, parts, k, stage);
          ptx::wgmma_commit_group();
          ring.advance();
          if (step + 1 < unit.last) {
            ptx::mbarrier_wait(full(ring.stage), ring.parity);
#pragma unroll
            for (int k = 0; k < STEPS; ++k) prepare(after, k, rows, factors, ring.stage);
          }
          ptx::wgmma_wait_group<0>();
          this->release(stage);
#pragma unroll
          for (int j = 0; j < REGISTERS; ++j)
            sum[j] = __fadd_rn(sum[j], __fmaf_rn(cross[j], 0x1p-11f, main[j]));
        };
        int step = unit.begin(piece);
        // A piece that is not the last has an even number of steps, so that each begins with even.
        for (; step + 1 < end; step += 2) {
          advance(even, odd, step);
          advance(odd, even, step + 1);
        }
        if (step < end) advance(even, odd, step);
        if (unit.pieces > 1) this->add_to_total(sum, total, piece == 0);
      }
      this->store(sum, unit.p, unit.q, unit.batch, threadIdx.x % 128);
    }
  }
};
static_assert(SEGMENT_K / 64 % 2 == 0, "pieces begin with even registers");

}  // namespace

template <typename Tile, bool P_MN_MAJOR, bool EXCHANGED>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    fp16x3_direct(const __grid_constant__ Fp16x3Arguments args) {
  extern __shared__ __align__(1024) uint8_t memory[];
  run_fp16x3<OfFp32<Tile, P_MN_MAJOR, EXCHANGED>>(args, memory);
}

template <bool P_MN_MAJOR, bool EXCHANGED, typename... Tiles>
static const void* function_of(TileList<Tiles...>, int tile) {
  static const void* const functions[] = {
      reinterpret_cast<const void*>(&fp16x3_direct<Tiles, P_MN_MAJOR, EXCHANGED>)...};
  return functions[tile - Fp16x3PlaneTiles::COUNT];
}

const void* fp16x3_direct_kernel(int tile, bool p_mn_major, bool exchanged) {
  const Fp16x3DirectTiles tiles;
  if (p_mn_major)
    return exchanged ? function_of<true, true>(tiles, tile) : function_of<true, false>(tiles, tile);
  return exchanged ? function_of<false, true>(tiles, tile) : function_of<false, false>(tiles, tile);
}

}  // namespace tiled
