// tf32 whose P is contiguous along m or n: the consumers load it from the stage into registers,
// transposing it so, and wgmma takes it from there. Q comes from shared memory as everywhere.
//
// A step of 8 k and 64 p is four registers a thread. Lane l wants P of k = l % 4 and l % 4 + 4: the
// upper half of the lanes takes the two in the other order, and no two lanes meet in a bank.
#pragma once

#include "cuda/engine/hopper/hopper.cuh"
#include "cuda/ptx/shared.cuh"

namespace tiled {

// This thread's part of 64 rows of P, as OperandTile lays it out MN-major: [2][32 k][32 p] of fp32.
template <int ATOM_BYTES>
struct TransposedRows {
  uint32_t near, far;  // bytes from the strip's begin to k = l % 4 (far: + 4) for the lower lanes
  bool is_upper;

  __device__ __forceinline__ TransposedRows() {
    const uint32_t warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    const uint32_t k = lane % 4, p = 16 * (warp % 2) + lane / 4;
    is_upper = lane / 16 != 0;
    const auto at = [&](uint32_t row) {
      return warp / 2 * ATOM_BYTES + ptx::swizzled<128>(row * 128 + p * 4);
    };
    near = at(is_upper ? k + 4 : k), far = at(is_upper ? k : k + 4);
  }

  // a: of the 8 k that begin `step` times 8 after those of the stage at `shared`.
  __device__ __forceinline__ void load(uint32_t (&a)[4], uint32_t shared, int step) const {
    const uint32_t at = shared + step * 8 * 128;
    // Eight rows on are two chunks of 16 bytes on, and both swizzle alike.
    const uint32_t v[4] = {ptx::load_shared_u32(at + near), ptx::load_shared_u32(at + (near ^ 32)),
                           ptx::load_shared_u32(at + far), ptx::load_shared_u32(at + (far ^ 32))};
    a[0] = is_upper ? v[2] : v[0], a[1] = is_upper ? v[3] : v[1];
    a[2] = is_upper ? v[0] : v[2], a[3] = is_upper ? v[1] : v[3];
  }
};

template <typename Kernel>
__device__ __forceinline__ void multiply_from_registers(Kernel& kernel,
                                                        typename Kernel::Accumulators& d, int first,
                                                        int last, uint32_t p_at, uint32_t q_at,
                                                        Ring<Kernel::STAGES>& ring) {
  using P = typename Kernel::P;
  using Q = typename Kernel::Q;
  static_assert(Kernel::STRIPS == 1, "see reads_by_registers");
  const TransposedRows<P::ATOM_BYTES> rows;
  const typename Kernel::StageRelease release(kernel);
  uint32_t previous = 0;
  const auto multiply_stage = [&](int step, uint32_t (&a)[P::STEPS][4]) {
    kernel.wait_full(ring.stage, ring.parity);
    const uint32_t p = p_at + ring.stage * P::BYTES;
    const uint64_t q = ptx::descriptor(Q::LAYOUT, q_at + ring.stage * Q::BYTES);
#pragma unroll
    for (int k = 0; k < P::STEPS; ++k) rows.load(a[k], p, k);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < P::STEPS; ++k)
      ptx::Wgmma<typename P::Element, 2 * Kernel::REGISTERS>::run_from_registers(
          d[0], a[k], q + (Q::offset(0, k) >> 4), step != first || k != 0);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<1>();  // all but this group: the previous stage has been read
    release.arrive(previous, step != first);
    previous = ring.stage;
    ring.advance();
  };
  // One stage's registers are read by wgmma while the other's are loaded.
  uint32_t even[P::STEPS][4], odd[P::STEPS][4];
  int step = first;
  for (; step + 1 < last; step += 2) {
    multiply_stage(step, even);
    multiply_stage(step + 1, odd);
  }
  if (step < last) multiply_stage(step, even);
  ptx::wgmma_wait_group<0>();
  release.arrive(previous);
}

}  // namespace tiled
