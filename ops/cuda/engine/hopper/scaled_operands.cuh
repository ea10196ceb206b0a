// The scales of a tile of a scaled product, and what such a kernel's operands and C are.
//
// The scales of a block of K come to shared memory as its stage does: a warp beside the producers
// copies them (fill), and the barrier of the stage waits for its copies too. Scales that hold for
// all of K come with the last block. There is one place more than stages, since a consumer gives a
// stage back when its products have ended, and uses the scales after that, but before it gives back
// the next one.
//
//     shared memory: [PLACES] P's rows, Q's columns or one for all
#pragma once

#include "cuda/engine/hopper/scales_to_copy.cuh"
#include "cuda/engine/hopper/tiles.h"
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/parts/launch/fault.cuh"
#include "cuda/parts/launch/hopper_arguments.h"
#include "cuda/parts/pipeline/ring.cuh"
#include "cuda/parts/schedule/grouped_schedule.cuh"
#include "cuda/parts/schedule/hopper_schedule.cuh"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/wgmma.cuh"

namespace tiled {

// A kernel's T where P and Q are of 8 bits with scales and C is of `C`, or fp32.
template <typename P, typename Q, typename C>
struct Fp8Scaled {
  uint8_t bits;
};

template <typename T>
constexpr bool IS_SCALED = false;
template <typename P, typename Q, typename C>
constexpr bool IS_SCALED<Fp8Scaled<P, Q, C>> = true;

// A kernel's T: what wgmma multiplies and sums in, what C has, and what the kernel is launched
// with.
template <typename T>
struct TypesOf {
  using Operands = T;
  using Sum = float;
  using Result = T;
  using Arguments = HopperArguments;
};
template <typename P, typename Q, typename C>
struct TypesOf<Fp8Scaled<P, Q, C>> {
  using Operands = ptx::Fp8<P, Q>;
  using Sum = float;
  using Result = C;
  using Arguments = ScaledArguments;
};
template <typename T>
using ResultOf = typename TypesOf<T>::Result;
template <typename T>
using ArgumentsOf = typename TypesOf<T>::Arguments;

// A product without scales has nothing to keep.
template <typename T, typename Tile>
struct TileScales {
  static constexpr uint32_t ARRIVALS = 0, BYTES = 0;
  template <typename Arguments>
  __device__ __forceinline__ TileScales(const Arguments&, int, uint32_t) {}
  template <typename Kernel>
  static __device__ __forceinline__ void fill(const Kernel&) {}
  __device__ __forceinline__ void skip(int) {}
};

template <typename P, typename Q, typename C, typename Tile>
class TileScales<Fp8Scaled<P, Q, C>, Tile> {
  static constexpr int STAGES = Tile::SCALED_STAGES, PLACES = STAGES + 1;
  static constexpr uint32_t PLACE_BYTES = (Tile::BLOCK_P + Tile::BLOCK_Q) * 4;

 public:
  using Places = Ring<PLACES>;
  static constexpr int STRIPS = Tile::GROUP_P / 64;
  static constexpr uint32_t ARRIVALS = 32;  // at a stage's barrier: the lanes of a warp
  static constexpr uint32_t BYTES = PLACES * PLACE_BYTES;

  // `shared`: where BYTES of shared memory begin. `row`: where the consumer's rows begin in the
  // tile.
  __device__ __forceinline__ TileScales(const ScaledArguments& args, int row, uint32_t shared)
      : args_(args) {
    const int thread = threadIdx.x % 128, lane = thread % 32;
    rows_at_ = shared + (row + thread / 32 * 16 + lane / 4) * 4;
    columns_at_ = shared + (Tile::BLOCK_P + (args.one_q ? 0 : lane % 4 * 2)) * 4;
  }

  // The work of the warp that copies scales.
  template <typename Kernel>
  static __device__ __forceinline__ void fill(const Kernel& kernel) {
    const auto units = kernel.units();
    const ScaledArguments& args = kernel.args;
    const uint32_t lane = threadIdx.x % 32, shared = kernel.base + Kernel::SCALES_AT + lane * 4;
    static_assert(Kernel::TURNS == 1, "steps come in the order of units");
    Ring<STAGES> ring;
    Places places;
    for (uint32_t i = units.first; i < units.end; i += units.stride) {
      const auto unit = units.at(i);
      units.give_back(i);
      if (i == units.first) wait_for_kernels_before();
      const int64_t block = first_block(args, unit);
      RowsToCopy<Tile::BLOCK_P> p(args.p_scales, unit.p, args.p, unit.batch, block);
      // A cluster's tile may begin beyond C, and has no scales then.
      RowsToCopy<Tile::BLOCK_Q> q(args.q_scales, unit.q,
                                  args.one_q ? min(unit.q + 1, args.q) : args.q, unit.batch, block);
      for (int step = unit.first; step < unit.last; ++step, ring.advance(), places.advance()) {
        maybe_delay();
        if constexpr (FAULT != Fault::NoEmptyWait)
          ptx::mbarrier_wait(kernel.empty(ring.stage), ring.parity ^ 1);
        if (args.blockwise || step + 1 == unit.last) {
          const uint32_t at = shared + places.stage * PLACE_BYTES;
          p.copy_block(at);
          q.copy_block(at + Tile::BLOCK_P * 4);
        }
        ptx::cp_async_arrive(kernel.full(ring.stage));
      }
    }
  }

  // The tail of a unit where the next group's K follows it. Copies have zeros there.
  __device__ __forceinline__ Tail tail_of(const GroupedUnit& unit) const {
    const bool is_read_in_place =
        unit.group_begin % 16 == 0 && (args_.has_p_place || args_.has_q_place);
    return is_read_in_place ? unit.tail : Tail{};
  }

  // Where the next block's scales stand, and so many steps further.
  __device__ __forceinline__ Places places() const { return places_; }
  __device__ __forceinline__ void skip(int steps) { places_.skip(steps); }

  // The factor of a block's sums before they are added to the totals: their row's factor,
  // in which a single scale of Q is, or that and their column's.
  enum class Factor { One, Row, RowAndColumn };
  template <Factor FACTOR>
  using Of = std::integral_constant<Factor, FACTOR>;

  // visit() with the launch's as a constant: a question in every block of K stands between its
  // products and the next one's. Tiles of two strips have no scales of blocks
  // (docs/decisions/052).
  template <typename Visit>
  __device__ __forceinline__ void with_factor(Visit visit) const {
    if (STRIPS > 1 || !args_.blockwise)
      visit(Of<Factor::One>());
    else if (args_.one_q)
      visit(Of<Factor::Row>());
    else
      visit(Of<Factor::RowAndColumn>());
  }

  // The factors of a strip's sums, in each of the thread's two rows; where columns have
  // scales of their own, without these.
  struct Factors {
    float rows[2];
  };
  // The factors of the block of K whose scales are in this place. Where no scale changes along K
  // there are none.
  template <Factor FACTOR>
  __device__ __forceinline__ Factors block_factors(Of<FACTOR>, uint32_t place, int strip) const {
    if constexpr (FACTOR == Factor::One)
      return {};
    else
      return factors(FACTOR == Factor::Row, place, strip);
  }

  // A strip's totals and the sums of the block whose scales stand in this place.
  template <Factor FACTOR, int REGISTERS>
  __device__ __forceinline__ void promote(Of<FACTOR>, float (&totals)[REGISTERS],
                                          const float (&sums)[REGISTERS], Factors factors,
                                          uint32_t place) const {
    if constexpr (FACTOR == Factor::One) {
#pragma unroll
      for (int i = 0; i < REGISTERS; ++i) totals[i] = __fadd_rn(totals[i], sums[i]);
    } else if constexpr (FACTOR == Factor::Row) {
#pragma unroll
      for (int i = 0; i < REGISTERS; ++i)
        totals[i] = __fmaf_rn(factors.rows[i / 2 % 2], sums[i], totals[i]);
    } else {
      for_each_column<REGISTERS>(place, [&](int i, float q) {
        totals[i] = __fmaf_rn(__fmul_rn(factors.rows[i / 2 % 2], q), sums[i], totals[i]);
      });
    }
  }

  // Totals that no block has scaled are scaled, if there was a block; and -0, which one may have
  // become by underflow, becomes +0. After skip() of the last block.
  template <int REGISTERS>
  __device__ __forceinline__ void finish(float (&d)[STRIPS][REGISTERS], bool has_blocks) const {
    if (args_.blockwise || !has_blocks) {
#pragma unroll
      for (int strip = 0; strip < STRIPS; ++strip)
#pragma unroll
        for (int i = 0; i < REGISTERS; ++i) d[strip][i] = __fadd_rn(d[strip][i], 0.f);
      return;
    }
    const uint32_t place = (places_.stage == 0 ? PLACES : places_.stage) - 1;
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
      const Factors factors = this->factors(args_.one_q, place, strip);
      const auto scale = [&](int i, float s) {
        d[strip][i] = __fadd_rn(__fmul_rn(s, d[strip][i]), 0.f);
      };
      if (args_.one_q) {
#pragma unroll
        for (int i = 0; i < REGISTERS; ++i) scale(i, factors.rows[i / 2 % 2]);
      } else {
        for_each_column<REGISTERS>(
            place, [&](int i, float q) { scale(i, __fmul_rn(factors.rows[i / 2 % 2], q)); });
      }
    }
  }

 private:
  // The number of a unit's first block: a group's of K is not the matrix's.
  static __device__ __forceinline__ int64_t first_block(const ScaledArguments&, const Unit&) {
    return 0;
  }
  static __device__ __forceinline__ int64_t first_block(const ScaledArguments& args,
                                                        const GroupedUnit& unit) {
    return unit.k / SCALE_BLOCK - (args.dense_blocks ? unit.batch : 0);
  }

  __device__ __forceinline__ Factors factors(bool has_one_q, uint32_t place, int strip) const {
    const uint32_t at = place * PLACE_BYTES, row = rows_at_ + at + strip * (64 * 4);
    const float first = ptx::load_shared_f32(row), second = ptx::load_shared_f32(row + 8 * 4);
    if (!has_one_q) return {first, second};
    const float q = ptx::load_shared_f32(columns_at_ + at);
    return {__fmul_rn(first, q), __fmul_rn(second, q)};
  }

  // visit(i, scale) for every accumulator of a strip: its column's.
  template <int REGISTERS, typename Visit>
  __device__ __forceinline__ void for_each_column(uint32_t place, Visit visit) const {
    const uint32_t at = columns_at_ + place * PLACE_BYTES;
#pragma unroll
    for (int j = 0; j < REGISTERS / 4; ++j) {
      const float2 q = ptx::load_shared_v2(at + j * 32);
#pragma unroll
      for (int i = 0; i < 4; ++i) visit(4 * j + i, i % 2 ? q.y : q.x);
    }
  }

  const ScaledArguments& args_;
  uint32_t rows_at_, columns_at_;  // of the thread's first row and column, in the first place
  Places places_;
};

}  // namespace tiled
