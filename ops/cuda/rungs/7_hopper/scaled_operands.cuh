// The scales of a tile of a scaled product, and what such a kernel's operands and C are.
//
// Each lane has the scale of one of its warp's rows of P, and gets those of its own rows by a
// shuffle. Where the columns of Q have one scale each thread has that; else thread t of a consumer
// has column t's, and they meet in shared memory, as a step's are needed. What is needed for a step
// is loaded a step before.
#pragma once

#include "cuda/parts/hopper.h"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/prefetch.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/rungs/7_hopper/tiles.h"

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

// What wgmma multiplies, what C has, and what the kernel is launched with.
template <typename T>
struct TypesOf {
  using Result = T;
  using Arguments = HopperArguments;
};
template <typename P, typename Q, typename C>
struct TypesOf<Fp8Scaled<P, Q, C>> {
  using Operands = ptx::Fp8<P, Q>;
  using Result = C;
  using Arguments = ScaledArguments;
};
template <typename T>
using ResultOf = typename TypesOf<T>::Result;
template <typename T>
using ArgumentsOf = typename TypesOf<T>::Arguments;

// Of products without scales there is nothing to keep.
template <typename T, typename Tile>
struct TileScales {
  template <typename Arguments, typename Unit>
  __device__ __forceinline__ TileScales(const Arguments&, const Unit&, int, int, uint32_t, int) {}
  template <typename Unit>
  __device__ __forceinline__ void put_by(const Unit&) const {}
  template <typename Unit>
  __device__ __forceinline__ void take_back(Unit&) const {}
};

template <typename P, typename Q, typename C, typename Tile>
class TileScales<Fp8Scaled<P, Q, C>, Tile> {
 public:
  static constexpr int STRIPS = Tile::GROUP_P / 64, COLUMNS = Tile::GROUP_Q;
  static_assert(STRIPS <= 2 && COLUMNS <= 128, "a lane has one row, a thread one column");

  // A thread's share of a step's scales.
  struct Share {
    float p, q;
  };

  // `shared`: where all consumers have room for two steps' columns.
  template <typename Unit>
  __device__ __forceinline__ TileScales(const ScaledArguments& args, const Unit& unit, int row,
                                        int column, uint32_t shared, int consumer)
      : args_(args),
        shared_(shared + consumer * (SCALES_BYTES<Tile> / Tile::CONSUMERS)),
        barrier_(1 + consumer) {
    const int thread = threadIdx.x % 128, lane = thread % 32;
    const int p = unit.p + row + lane / 16 % STRIPS * 64 + thread / 32 * 16 + lane % 16;
    const int q = unit.q + column + (args.one_q || thread >= COLUMNS ? 0 : thread);
    p_ = first(args.p_scales, min(p, args.p - 1), unit.batch);
    q_ = first(args.q_scales, min(q, args.q - 1), unit.batch);
    ptx::prefetch_l1(p_);
    ptx::prefetch_l1(q_);
    // The columns before are the last tile's, which others may still read.
    if (!args.one_q) ptx::barrier_sync(barrier_, 128);
  }

  // A unit of groups waits in shared memory for the end of its products: registers have no room for
  // it beside them. Every warp has a copy.
  template <typename Unit>
  __device__ __forceinline__ void put_by(const Unit& unit) const {
    static_assert(sizeof(Unit) % 4 == 0 && sizeof(Unit) <= UNIT_BYTES);
    const auto& words = reinterpret_cast<const uint32_t (&)[sizeof(Unit) / 4]>(unit);
#pragma unroll
    for (uint32_t i = 0; i < sizeof(Unit) / 4; ++i)
      ptx::store_shared_u32(unit_at() + 4 * i, words[i]);
  }
  template <typename Unit>
  __device__ __forceinline__ void take_back(Unit& unit) const {
    auto& words = reinterpret_cast<uint32_t (&)[sizeof(Unit) / 4]>(unit);
#pragma unroll
    for (uint32_t i = 0; i < sizeof(Unit) / 4; ++i)
      words[i] = ptx::load_shared_u32(unit_at() + 4 * i);
  }

  // Those of block `block` of K, or if there is none of the last; and asks for what comes later.
  // Where no scale changes along K, the totals alone are scaled: fma(1, x, y) is x + y.
  __device__ __forceinline__ Share load(int block, int blocks) const {
    if (!args_.blockwise) return {1, 1};
    return load_block(min(block, blocks - 1));
  }

  // Gives the other threads what they need of this step's; by all threads of the consumer.
  __device__ __forceinline__ void pass_on(Share share, int step) const {
    if (args_.blockwise && !args_.one_q) pass_on_columns(share, step);
  }

  // What a strip's sums are multiplied by, in each of the thread's two rows; of columns that have
  // scales of their own without these.
  struct Factors {
    float rows[2];
  };
  __device__ __forceinline__ Factors factors(Share share, int strip) const {
    const int row = 16 * strip + threadIdx.x % 32 / 4;
    const float p[2] = {__shfl_sync(~0u, share.p, row), __shfl_sync(~0u, share.p, row + 8)};
    const float q = args_.one_q ? share.q : 1;
    return {__fmul_rn(p[0], q), __fmul_rn(p[1], q)};
  }

  // total = fma(scales, sum, total)
  template <int REGISTERS>
  __device__ __forceinline__ void promote(float (&totals)[REGISTERS],
                                          const float (&sums)[REGISTERS], Factors factors,
                                          int step) const {
    if (args_.one_q || !args_.blockwise) {
#pragma unroll
      for (int i = 0; i < REGISTERS; ++i)
        totals[i] = __fmaf_rn(factors.rows[i / 2 % 2], sums[i], totals[i]);
    } else {
      for_each_column(step, [&](int i, float q) {
        totals[i] = __fmaf_rn(__fmul_rn(factors.rows[i / 2 % 2], q), sums[i], totals[i]);
      });
    }
  }

  // Totals that no step has scaled are scaled; and -0, which one may have become by underflow,
  // becomes +0.
  template <int REGISTERS>
  __device__ __forceinline__ void finish(float (&d)[STRIPS][REGISTERS]) const {
    if (args_.blockwise) {
#pragma unroll
      for (int strip = 0; strip < STRIPS; ++strip)
#pragma unroll
        for (int i = 0; i < REGISTERS; ++i) d[strip][i] = __fadd_rn(d[strip][i], 0.f);
      return;
    }
    const Share share = load_block(0);
    if (!args_.one_q) pass_on_columns(share, 0);
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
      const Factors factors = this->factors(share, strip);
      const auto scale = [&](int i, float s) {
        d[strip][i] = __fadd_rn(__fmul_rn(s, d[strip][i]), 0.f);
      };
      if (args_.one_q) {
#pragma unroll
        for (int i = 0; i < REGISTERS; ++i) scale(i, factors.rows[i / 2 % 2]);
      } else {
        for_each_column(0,
                        [&](int i, float q) { scale(i, __fmul_rn(factors.rows[i / 2 % 2], q)); });
      }
    }
  }

 private:
  // By all threads of the consumer.
  __device__ __forceinline__ void pass_on_columns(Share share, int step) const {
    if (static_cast<int>(threadIdx.x) % 128 < COLUMNS)
      ptx::store_shared(columns_of(step) + threadIdx.x % 128 * 4, share.q);
    ptx::barrier_sync(barrier_, 128);
  }
  // visit(i, scale) for every accumulator of a strip: its column's.
  template <typename Visit>
  __device__ __forceinline__ void for_each_column(int step, Visit visit) const {
    const uint32_t at = columns_of(step) + threadIdx.x % 4 * 8;
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; ++j) {
      const float2 q = ptx::load_shared_v2(at + j * 32);
#pragma unroll
      for (int i = 0; i < 4; ++i) visit(4 * j + i, i % 2 ? q.y : q.x);
    }
  }
  static __device__ __forceinline__ const float* first(const OperandScales& s, int row, int entry) {
    return s.data + entry * s.batch_stride + scale_offset(s, row, 0);
  }
  __device__ __forceinline__ Share load_block(int block) const {
    return {p_[block * args_.p_scales.block_stride], q_[block * args_.q_scales.block_stride]};
  }
  __device__ __forceinline__ uint32_t unit_at() const {
    return shared_ + 2 * COLUMNS * 4 + threadIdx.x % 128 / 32 * UNIT_BYTES;
  }
  __device__ __forceinline__ uint32_t columns_of(int step) const {
    return shared_ + step % 2 * (COLUMNS * 4);
  }

  const ScaledArguments& args_;
  const float *p_, *q_;  // of this thread's row and column, in block 0
  uint32_t shared_;
  int barrier_;
};

}  // namespace tiled
