// fp16x3 where C is narrow: P, the large operand, comes as it lies, in fp32. The consumers take it
// from the stage, cut it in its fp16 parts in registers, and wgmma reads them there: no planes of P
// are written and read again, but each tile cuts P anew. The same bits as 9_fp16x3.cu.
//
// Two consumers take the steps in turn: one prepares registers while the tensor cores multiply the
// other's. They exchange halves of their terms, so that each adds up half of the columns, k
// ascending.
//
// P is read once, so that a row's scale is known only at its end. A step is cut by the largest
// element that its rows have shown so far, and its terms are scaled back: scales are powers of two,
// and where neither parts nor sums are subnormal, each gives the same bits. Mostly the scale so far
// is that of the whole row after a step or two, and then it is right for the smallest elements too.
// A unit with a row of which some elements were too small for a scale that was not the last is
// taken once more after all others, by the scales of whole rows; there its blocks load their stages
// each for itself, since others of the cluster may be done.
//
// Preconditions: Q's planes along k, in the order of k that Fp32Rows names; TMA can read P; K is
// below FP16X3_DIRECT_K. P's scales are written on the way. Bound by a consumer's way through a
// step: on an H200 some 950 cycles to prepare, and as many for twelve wgmma that wait for one
// another.
#include "cuda/kernels/fp16_parts.cuh"
#include "cuda/kernels/fp16x3.cuh"
#include "cuda/kernels/fp32_rows.cuh"
#include "cuda/ptx/shared.cuh"
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
  using Sums = typename Base::Sums;
  using Base::args, Base::base, Base::full, Base::schedule;
  static constexpr int STAGES = Base::STAGES, REGISTERS = Base::REGISTERS, STEPS = Q::STEPS;
  static constexpr int SUMS = Base::SUMS;
  static_assert(2 * SUMS == REGISTERS && Tile::CONSUMERS == 2);
  // What is exchanged: [consumer that gives] [SUMS / 4][128 threads][4], then [64 rows] Seen.
  static constexpr uint32_t TERM_BYTES = SUMS * 128 * 4;
  static constexpr uint32_t GIVEN_BYTES = TERM_BYTES + 64 * 16;
  static_assert(2 * GIVEN_BYTES == Tile::EXCHANGE_BYTES);
  // Behind the barriers: which units consumer 0's warps want to see again.
  static constexpr uint32_t AGAIN_AT = Base::GIVEN_AT + 8 * 8;
  static_assert(AGAIN_AT % 16 == 0 && AGAIN_AT + 16 == Tile::SHARED_BYTES);
  using Fragments = uint32_t[STEPS][4];
  struct Parts {
    Fragments hi, lo;
  };
  // What a consumer knows of a row, alike in the four lanes that share it: the largest magnitude,
  // also of the other's steps as far as it has heard; Range's `least` of its own elements, of those
  // cut by the scale that `most` gives, and of those cut by an earlier one; what these have lost.
  struct Seen {
    uint32_t most = 0, least = ~0u, earlier = ~0u, lost = 0;
  };
  // How this thread's two rows are scaled: 2^exponent, and the terms by `back`.
  struct Scales {
    int exponent[2];
    float back[2];
  };

  static constexpr bool BEGINS_EARLY = true;

  using Base::Base;

  // This thread's row i.
  __device__ __forceinline__ static int row_of(const Unit& unit, int i) {
    return unit.p + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + 8 * i;
  }
  __device__ __forceinline__ RowScale& scale_of(const Unit& unit, int i) const {
    return args.p_scales[unit.batch * args.p_scales_batch + min(row_of(unit, i), args.grid.p - 1)];
  }

  // This thread's part of P in a stage. `again`: by the exponents in `scales`, else by those that
  // `seen` and `theirs` give, left in `scales`. A row with NaN or Inf has no scale, and the guard
  // computes all of it again.
  __device__ __forceinline__ void prepare(Parts& parts, Scales& scales, Seen (&seen)[2],
                                          const Seen (&theirs)[2], const Fp32Rows<P_MN_MAJOR>& rows,
                                          uint32_t stage, bool again) {
    float v[STEPS][2][4];
#pragma unroll
    for (int k = 0; k < STEPS; ++k) rows.take(v[k], base + stage * Tile::STAGE_BYTES, k);
    Range ranges[2];
#pragma unroll
    for (int k = 0; k < STEPS; ++k)
#pragma unroll
      for (int j = 0; j < 8; ++j) ranges[j % 2].include(v[k][j % 2][j / 2]);
#pragma unroll
    for (int lanes = 1; lanes < 4; lanes *= 2)
#pragma unroll
      for (Range& range : ranges) {
        range.most = max(range.most, __shfl_xor_sync(~0u, range.most, lanes));
        range.least = min(range.least, __shfl_xor_sync(~0u, range.least, lanes));
      }
    float factor[2], rest[2];  // 2^e, which may need two factors where it is given
    bool loses = false;        // an element below 2^-14, scaled, may
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      Seen& s = seen[row];
      const uint32_t most = max(max(s.most, theirs[row].most), ranges[row].most);
      if ((most ^ s.most) >> 23 != 0) s.earlier = min(s.earlier, s.least), s.least = ~0u;
      s.most = most, s.least = min(s.least, ranges[row].least);
      if (!again) {
        const OwnScale own(most);
        scales.exponent[row] = own.exponent, scales.back[row] = own.back;
      }
      const int e = scales.exponent[row], half = again ? e / 2 : 0;
      factor[row] = power_of_two(e - half), rest[row] = power_of_two(half);
      loses |= ranges[row].least < static_cast<uint32_t>(max(113 - e, 0)) << 23;
    }
    if (__any_sync(~0u, loses)) {  // hardly ever
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        uint32_t lost = 0;
#pragma unroll
        for (int k = 0; k < STEPS; ++k)
#pragma unroll
          for (int j = 0; j < 4; ++j) lost += split(v[k][row][j], factor[row], rest[row]).lost;
#pragma unroll
        for (int lanes = 1; lanes < 4; lanes *= 2) lost += __shfl_xor_sync(~0u, lost, lanes);
        seen[row].lost += lost;
      }
    }
    if (again)
#pragma unroll
      for (int k = 0; k < STEPS; ++k)
#pragma unroll
        for (int j = 0; j < 8; ++j) v[k][j % 2][j / 2] *= rest[j % 2];
#pragma unroll
    for (int k = 0; k < STEPS; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = i % 2, pair = i / 2;
        const PairParts x =
            split_plain(v[k][row][2 * pair] * factor[row], v[k][row][2 * pair + 1] * factor[row]);
        parts.hi[k][i] = reinterpret_cast<const uint32_t&>(x.hi);
        parts.lo[k][i] = reinterpret_cast<const uint32_t&>(x.lo);
      }
  }

  // The scale of row i, from what both consumers know of it, to memory and to `exponent`; whether
  // the row's terms are as that scale gives them.
  __device__ __forceinline__ bool conclude(int& exponent, const Unit& unit, int i, const Seen& a,
                                           const Seen& b) const {
    const uint32_t most = max(a.most, b.most);
    uint32_t least = min(a.earlier, b.earlier);
    if ((most ^ a.most) >> 23 != 0) least = min(least, a.least);
    if ((most ^ b.most) >> 23 != 0) least = min(least, b.least);
    const Scale scale(most);
    exponent = scale.exponent;
    if (threadIdx.x % 4 == 0 && row_of(unit, i) < args.grid.p)
      scale_of(unit, i) = scale.result(a.lost + b.lost);
    const bool is_sure =
        is_moderate(scale) && (least == ~0u || ((least + 1) >> 23) + SURE_BINADES >= most >> 23);
    return is_sure || !scale.finite;
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

  // Consumer c adds up columns 32 c to 32 c + 31, k ascending, of terms that both have in turn. So
  // of each term it gives the other half to the same thread of the other consumer.
  __device__ __forceinline__ uint32_t exchanged(int giver) const {
    return base + Base::EXCHANGE_AT + giver * GIVEN_BYTES + threadIdx.x % 128 * 16;
  }
  // What the giver has seen of this thread's row i.
  __device__ __forceinline__ uint32_t seen_at(int giver, int i) const {
    const int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + 8 * i;
    return base + Base::EXCHANGE_AT + giver * GIVEN_BYTES + TERM_BYTES + row * 16;
  }

  // The giver's word says that its half is there; and that it has taken what it was given before,
  // so that this may be overwritten.
  __device__ __forceinline__ void take(Sums& sum, Seen (&theirs)[2], int giver,
                                       uint32_t& parity) const {
    ptx::mbarrier_wait(this->given(giver), parity);
    parity ^= 1;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint4 x = ptx::load_shared_v4(seen_at(giver, i));
      theirs[i].most = x.x, theirs[i].least = x.y, theirs[i].earlier = x.z, theirs[i].lost = x.w;
    }
    const uint32_t from = exchanged(giver);
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
  __device__ __forceinline__ void keep_and_give(Sums& sum, const Set& term, const Seen (&seen)[2],
                                                int giver) const {
    constexpr int GIVEN = SUMS - KEPT;
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (threadIdx.x % 4 == i)
        ptx::store_shared_v4(seen_at(giver, i), make_uint4(seen[i].most, seen[i].least,
                                                           seen[i].earlier, seen[i].lost));
#pragma unroll
    for (int j = 0; j < SUMS; j += 4) {
      const float* x = &term[GIVEN + j];
      ptx::store_shared_v4(exchanged(giver) + j * 512,
                           make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]),
                                      __float_as_uint(x[2]), __float_as_uint(x[3])));
    }
    ptx::mbarrier_arrive(this->given(giver));
#pragma unroll
    for (int j = 0; j < SUMS; ++j) sum[j] = __fadd_rn(sum[j], term[KEPT + j]);
  }

  // Of all the units that were to be seen again, once the first pass is over.
  __device__ __forceinline__ uint32_t to_see_again() const {
    ptx::barrier_sync(1, Tile::THREADS - 96);  // the producer is one warp
    const uint4 x = ptx::load_shared_v4(base + AGAIN_AT);
    return x.x | x.y | x.z | x.w;
  }

  // The first stages; how many. P is the caller's, and when the split of Q lets this kernel start,
  // all that came before has ended (9_split.cu): only Q is to be waited for.
  __device__ __forceinline__ int produce_first() const {
    const HopperArguments& grid = args.grid;
    const Unit unit = schedule.at(schedule.first);
    const int steps = min(STAGES, unit.last - unit.first);
    if (ptx::elect_sync()) {
      for (int i = 0; i < steps; ++i) {
        ptx::mbarrier_arrive_expect_tx(full(i), Tile::STAGE_BYTES);
        this->template load<typename Base::P, false>(
            base + i * Tile::STAGE_BYTES, grid.p_map, unit.p, (unit.first + i) * Tile::BLOCK_K,
            unit.batch * grid.p_batch, full(i), grid.cluster_q);
      }
      ptx::griddepcontrol_wait();
      for (int i = 0; i < steps; ++i)
        this->template load<typename Base::Q, false>(
            base + i * Tile::STAGE_BYTES + Base::Q_AT, grid.q_map, unit.q,
            (unit.first + i) * Tile::BLOCK_K, unit.batch * grid.q_batch, full(i), grid.cluster_p);
    }
    return steps;
  }

  __device__ __forceinline__ void produce() {
    Ring<STAGES> ring;
    const int begun = produce_first();
    ring.skip(begun);
    Base::template produce<false>(ring, ~0u, begun);
    Base::template produce<true>(ring, to_see_again());
  }

  __device__ __forceinline__ void consume(int consumer) {
    const int other = 1 - consumer;
    const Fp32Rows<P_MN_MAJOR> rows;
    float4* const total = this->total_of(consumer);
    Ring<STAGES> ring;
    ring.skip(consumer);
    uint32_t parity = 0;   // of what it is given
    int ahead = consumer;  // steps until its next one
    uint32_t chosen = ~0u;
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
      const bool again = pass == 1;
      uint32_t unsure = 0, ordinal = 0;  // units, as is_chosen has them
      for (uint32_t i = schedule.first; i < schedule.count; i += schedule.stride, ++ordinal) {
        if (!this->is_chosen(chosen, ordinal)) continue;
        const Unit unit = schedule.at(i);
        Scales scales;
        if (again)
#pragma unroll
          for (int row = 0; row < 2; ++row)
            scales.exponent[row] = scale_of(unit, row).exponent, scales.back[row] = 1;
        Seen seen[2], theirs[2];
        Set main, cross;
        Sums sum;
        int step = unit.first + ahead;
        for (int piece = 0; piece < unit.pieces; ++piece) {
#pragma unroll
          for (int j = 0; j < SUMS; ++j) sum[j] = 0;
          const int begin = unit.begin(piece), end = unit.end(piece);
          for (; step < end; step += 2, ring.skip(2)) {
            Parts parts;
            ptx::mbarrier_wait(full(ring.stage), ring.parity);
            prepare(parts, scales, seen, theirs, rows, ring.stage, again);
            ptx::wgmma_fence();
#pragma unroll
            for (int k = 0; k < STEPS; ++k) issue(main, cross, parts, k, ring.stage);
            ptx::wgmma_commit_group();
            if (step > begin) take(sum, theirs, other, parity);
            ptx::wgmma_wait_group<0>();
            this->release(ring.stage, again);
            Set term;
#pragma unroll
            for (int j = 0; j < REGISTERS; ++j)
              term[j] = __fmaf_rn(cross[j], 0x1p-11f, main[j]) * scales.back[j / 2 % 2];
            if (consumer == 0)
              keep_and_give<0>(sum, term, seen, consumer);
            else
              keep_and_give<SUMS>(sum, term, seen, consumer);
          }
          if (step == end) take(sum, theirs, other, parity);  // the last term is the other's
          if (unit.pieces > 1) this->add_to_total(sum, total, piece == 0);
        }
        ahead = step - unit.last;
        bool is_sure = true;
#pragma unroll
        for (int row = 0; row < 2; ++row)
          is_sure &= conclude(scales.exponent[row], unit, row, seen[row], theirs[row]);
        __syncwarp();  // store() reads what some lanes have just written
        if (!again && !__all_sync(~0u, is_sure)) {
          unsure |= 1u << ordinal % 32;
          continue;
        }
        if (!again)  // all terms are scaled back
#pragma unroll
          for (int j = 0; j < SUMS; ++j) sum[j] *= power_of_two(scales.exponent[j / 2 % 2]);
        if (unit.p + threadIdx.x % 128 / 32 * 16 < args.grid.p)
          this->store(sum, unit.p, unit.q + 32 * consumer, unit.batch);
      }
      if (again) break;
      if (consumer == 0 && threadIdx.x % 32 == 0)
        ptx::store_shared_u32(base + AGAIN_AT + threadIdx.x % 128 / 32 * 4, unsure);
      chosen = to_see_again();
    }
  }
};

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
