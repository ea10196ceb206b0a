// fp16x3 where C is narrow or small: P, one operand, comes as it lies, in fp32. The consumers take
// it from the stage, cut it in its fp16 parts in registers, and wgmma reads them there: no planes
// of P are written and read again, but each tile cuts P anew. The same bits as fp16x3.cu.
//
// Two consumers take the steps in turn: one prepares registers while the tensor cores multiply the
// other's. They exchange halves of their terms, so that each adds up half of the columns, k
// ascending.
//
// Preconditions: P's scales (split.cu, SplitForm::Nothing), Q's planes along k, in the order of k
// that Fp32Rows names; TMA can read P. Bound by the bytes of P and Q that a multiprocessor takes
// in.
#include "cuda/engine/fp16x3/fp16_parts.cuh"
#include "cuda/engine/fp16x3/fp16x3.cuh"
#include "cuda/engine/fp16x3/fp32_rows.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/wgmma_registers.cuh"

namespace tiled {
namespace {

template <typename Tile, bool P_MN_MAJOR>
using DirectKernel =
    Fp16x3<Tile, Fp32Rows<P_MN_MAJOR>, Planes<Tile::BLOCK_Q, Tile::BLOCK_Q, /*MN_MAJOR=*/false>>;

template <typename Tile, bool P_MN_MAJOR, bool EXCHANGED>
struct OfFp32 : DirectKernel<Tile, P_MN_MAJOR> {
  using Base = DirectKernel<Tile, P_MN_MAJOR>;
  using Q = typename Base::Q::Plane;
  using Set = typename Base::Set;
  using Sums = typename Base::Sums;
  using Base::args, Base::base, Base::full;
  static constexpr int STAGES = Base::STAGES, REGISTERS = Base::REGISTERS, STEPS = Q::STEPS;
  static constexpr int SUMS = Base::SUMS;
  static_assert(2 * SUMS == REGISTERS && Tile::CONSUMERS == 2);
  // The halves that are exchanged: [consumer that gives][SUMS / 4][128 threads][4].
  static constexpr uint32_t HALF_BYTES = SUMS * 128 * 4;
  static_assert(2 * HALF_BYTES == Tile::EXCHANGE_BYTES);
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
    ptx::wgmma_from_registers(main, parts.hi[k], hi, k != 0);
    // In A's and B's order also where P is B: the same bits either way.
    if constexpr (EXCHANGED) {
      ptx::wgmma_from_registers(cross, parts.lo[k], hi, k != 0);
      ptx::wgmma_from_registers(cross, parts.hi[k], lo, true);
    } else {
      ptx::wgmma_from_registers(cross, parts.hi[k], lo, k != 0);
      ptx::wgmma_from_registers(cross, parts.lo[k], hi, true);
    }
  }

  // Consumer c adds up half c of the columns, k ascending, of terms that both have in turn. So of
  // each term it gives the other half to the same thread of the other consumer.
  __device__ __forceinline__ uint32_t half_of(int giver) const {
    return base + Base::EXCHANGE_AT + giver * HALF_BYTES + threadIdx.x % 128 * 16;
  }

  // The giver's word says that its half is there; and that it has taken what it was given before,
  // so that this may be overwritten.
  __device__ __forceinline__ void take(Sums& sum, int giver, uint32_t& parity) const {
    ptx::mbarrier_wait(this->given(giver), parity);
    parity ^= 1;
    const uint32_t from = half_of(giver);
#pragma unroll
    for (int j = 0; j < SUMS; j += 4) {
      const uint4 x = ptx::load_shared_v4(from + j * 512);
      sum[j] = __fadd_rn(sum[j], __uint_as_float(x.x));
      sum[j + 1] = __fadd_rn(sum[j + 1], __uint_as_float(x.y));
      sum[j + 2] = __fadd_rn(sum[j + 2], __uint_as_float(x.z));
      sum[j + 3] = __fadd_rn(sum[j + 3], __uint_as_float(x.w));
    }
  }

  // Every thread gives its word for itself: what it has read is read, what it has written is seen.
  template <int KEPT>
  __device__ __forceinline__ void keep_and_give(Sums& sum, const Set& term, int giver) const {
    constexpr int GIVEN = SUMS - KEPT;
#pragma unroll
    for (int j = 0; j < SUMS; j += 4) {
      const float* x = &term[GIVEN + j];
      ptx::store_shared_v4(half_of(giver) + j * 512,
                           make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]),
                                      __float_as_uint(x[2]), __float_as_uint(x[3])));
    }
    ptx::mbarrier_arrive(this->given(giver));
#pragma unroll
    for (int j = 0; j < SUMS; ++j) sum[j] = __fadd_rn(sum[j], term[KEPT + j]);
  }

  template <typename Turns>
  __device__ __forceinline__ void consume(const Turns& units, int consumer) {
    const int other = 1 - consumer;
    const Fp32Rows<P_MN_MAJOR> rows;
    float4* const total = this->total_of(consumer);
    const typename Base::StageRelease release(*this);
    Ring<STAGES> ring;
    ring.skip(consumer);
    uint32_t parity = 0;   // of what it is given
    int ahead = consumer;  // steps until its next one
    for (uint32_t i = units.first; i < units.end; i += units.stride) {
      const Unit unit = units.at(i);
      const Factors factors = factors_of(unit);
      Set main, cross;
      ptx::declare_accumulators(main);
      ptx::declare_accumulators(cross);
      Sums sum;
      int step = unit.first + ahead;
      for (int piece = 0; piece < unit.pieces; ++piece) {
#pragma unroll
        for (int j = 0; j < SUMS; ++j) sum[j] = 0;
        const int begin = unit.begin(piece), end = unit.end(piece);
        for (; step < end; step += 2, ring.skip(2)) {
          Parts parts;
          this->wait_full(ring.stage, ring.parity);
#pragma unroll
          for (int k = 0; k < STEPS; ++k) prepare(parts, k, rows, factors, ring.stage);
          ptx::wgmma_fence();
#pragma unroll
          for (int k = 0; k < STEPS; ++k) issue(main, cross, parts, k, ring.stage);
          ptx::wgmma_commit_group();
          if (step > begin) take(sum, other, parity);
          ptx::wgmma_wait_group<0>();
          ptx::finish_accumulators(main);
          ptx::finish_accumulators(cross);
          release.arrive(ring.stage);
          Set term;
#pragma unroll
          for (int j = 0; j < REGISTERS; ++j) term[j] = __fmaf_rn(cross[j], 0x1p-11f, main[j]);
          if (consumer == 0)
            keep_and_give<0>(sum, term, consumer);
          else
            keep_and_give<SUMS>(sum, term, consumer);
        }
        if (step == end) take(sum, other, parity);  // the last term is the other's
        if (unit.pieces > 1) this->add_to_total(sum, total, piece == 0);
      }
      ahead = step - unit.last;
      this->store(sum, unit.p, unit.q + Tile::BLOCK_Q / 2 * consumer, unit.batch);
    }
  }
};

}  // namespace

template <typename Tile, bool P_MN_MAJOR, bool EXCHANGED>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    fp16x3_direct(const __grid_constant__ Fp16x3Arguments args) {
  extern __shared__ __align__(1024) uint8_t memory[];
  using Kernel = OfFp32<Tile, P_MN_MAJOR, EXCHANGED>;
  run_fp16x3<Kernel>(args, memory,
                     [](const Kernel& kernel) { return WholeTurns(kernel.schedule); });
}

template <bool P_MN_MAJOR, bool EXCHANGED, typename... Tiles>
static Kernel<Fp16x3Arguments> function_of(TileList<Tiles...>, int tile) {
  static const Kernel<Fp16x3Arguments> functions[] = {
      &fp16x3_direct<Tiles, P_MN_MAJOR, EXCHANGED>...};
  return functions[tile - Fp16x3PlaneTiles::COUNT];
}

Kernel<Fp16x3Arguments> fp16x3_direct_kernel(int tile, bool p_mn_major, bool swap_ab) {
  const Fp16x3DirectTiles tiles;
  if (p_mn_major)
    return swap_ab ? function_of<true, true>(tiles, tile) : function_of<true, false>(tiles, tile);
  return swap_ab ? function_of<false, true>(tiles, tile) : function_of<false, false>(tiles, tile);
}

}  // namespace tiled
