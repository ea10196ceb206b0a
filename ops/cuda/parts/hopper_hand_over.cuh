// Tiles whose chain one cluster begins and another ends (plan/wrap_around.h): the order of a
// cluster's units, and how accumulators go from one to the other, through the workspace.
//
// CUDA does not promise in which order clusters start, nor that all of them are on the chip at once
// (other kernels may hold multiprocessors, under MPS or in another stream), so nobody may wait for
// one that has not started. A word for each cut tile settles that; both clusters set a bit of it:
//
//     first part  "begun", as the cluster's first act, and does not look at what was there
//     rest        "taken", before its last unit. If "begun" was set, it waits for the accumulators:
//                 the other cluster is there, and waits for nothing before it has written them.
//                 If not, it does the tile from its first step; nobody will miss the first part.
//
// So a cluster that waits does so for one that runs and will not wait itself: all of them end, in
// whatever order they start. The bits are the same either way.
#pragma once

#include "cuda/parts/fault.cuh"
#include "cuda/parts/hopper_schedule.cuh"
#include "cuda/ptx/global.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/shared.cuh"

namespace tiled {

// Where a consumer leaves so many accumulators of each thread: this thread's float4 among them.
template <int COUNT>
__device__ __forceinline__ float4* place_of(const HopperArguments& args, uint32_t consumer) {
  return reinterpret_cast<float4*>(args.totals) + int64_t{consumer} * (COUNT / 4 * 128) +
         threadIdx.x % 128;
}

// A cluster's units, in the order in which it does them. Its share is worked out anew each time:
// kept, it would take registers that a producer beside three consumers does not have.
template <typename Schedule>
struct Turns {
  const Schedule& schedule;

  __device__ __forceinline__ explicit Turns(const Schedule& s) : schedule(s) {}

  __device__ __forceinline__ bool has(uint32_t i) const {
    const WrapAround& wrap = schedule.args.wrap_around;
    if (wrap.clusters == 0) return schedule.first + i * schedule.stride < schedule.count;
    return i < wrap.share(schedule.first).turns;
  }
  __device__ __forceinline__ Unit at(uint32_t i) const {
    const WrapAround& wrap = schedule.args.wrap_around;
    if (wrap.clusters == 0) return schedule.at(schedule.first + i * schedule.stride);
    const WrapAround::Turn turn = wrap.turn(schedule.first, wrap.share(schedule.first), i);
    Unit unit = schedule.at(turn.tile);
    unit.first = static_cast<int>(turn.first), unit.last = static_cast<int>(turn.last);
    unit.part = turn.first != 0 ? Part::Rest : turn.last != wrap.steps ? Part::First : Part::Whole;
    return unit;
  }
};

// args.hand_over: a word for each cluster's first part, then a flag for each consumer of each
// block, raised when its accumulators lie in the workspace.
struct HandOver {
  static constexpr unsigned long long BEGUN = 1, TAKEN = 2;

  const HopperArguments& args;
  uint32_t cluster, rank, blocks;
  uint32_t settled;  // a barrier and, after it, a word: at which step this block's rest begins

  __device__ __forceinline__ void initialise() const {
    ptx::mbarrier_init(settled, 1);
    ptx::mbarrier_arrive_expect_tx(settled, 4);
  }

  __device__ __forceinline__ void begin_first_part() const {
    if constexpr (FAULT != Fault::NeverBegun)
      if (rank == 0) atomicOr(args.hand_over + cluster, BEGUN);
  }

  // One thread of the cluster's first block: for all blocks, since they share what they load.
  __device__ __forceinline__ void settle(const Unit& rest) const {
    if (rank != 0) return;
    const bool begun = (atomicOr(args.hand_over + cluster - 1, TAKEN) & BEGUN) != 0;
    for (uint32_t block = 0; block < blocks; ++block)
      ptx::store_async(settled + 8, begun ? rest.first : 0, settled, block);
  }
  __device__ __forceinline__ int first_step() const {
    ptx::mbarrier_wait(settled, 0);
    return static_cast<int>(ptx::load_shared_u32(settled + 8));
  }

  // A consumer's accumulators, to its place in the workspace. Consumers are numbered through the
  // grid; `barrier` is for this one's 128 threads alone.
  template <int STRIPS, int REGISTERS>
  __device__ __forceinline__ void give(const float (&d)[STRIPS][REGISTERS], uint32_t consumer,
                                       int barrier) const {
    static_assert(REGISTERS % 4 == 0, "whole vectors");
    float4* at = place_of<STRIPS * REGISTERS>(args, consumer);
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip)
#pragma unroll
      for (int i = 0; i < REGISTERS; i += 4, at += 128)
        __stcg(at, make_float4(d[strip][i], d[strip][i + 1], d[strip][i + 2], d[strip][i + 3]));
    ptx::barrier_sync(barrier, 128);
    if (threadIdx.x % 128 == 0) ptx::store_release(flag_of(consumer), 1);
  }

  // Before a unit's first step: what its chain begins with, zeros or what consumer `from` gave, and
  // whether it does not begin with zeros. There is no branch around the loads: where accumulators
  // come from two branches, ptxas has wgmma wait for each one.
  template <int STRIPS, int REGISTERS>
  __device__ __forceinline__ bool take(float (&d)[STRIPS][REGISTERS], Unit& unit, uint32_t from,
                                       int barrier) const {
    bool resumes = false;
    if (unit.part == Part::Rest) {
      unit.first = first_step();
      resumes = unit.first != 0;
      if (resumes && FAULT != Fault::NoHandOverWait) {
        if (threadIdx.x % 128 == 0)
          while (ptx::load_acquire(flag_of(from)) == 0) {
          }
        ptx::barrier_sync(barrier, 128);
      }
    }
    const float4* at = place_of<STRIPS * REGISTERS>(args, from);
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip)
#pragma unroll
      for (int i = 0; i < REGISTERS; i += 4, at += 128) {
        const float4 v = ptx::load_or_zero(at, resumes);
        d[strip][i] = v.x, d[strip][i + 1] = v.y, d[strip][i + 2] = v.z, d[strip][i + 3] = v.w;
      }
    return resumes;
  }

 private:
  __device__ __forceinline__ unsigned long long* flag_of(uint32_t consumer) const {
    return args.hand_over + args.wrap_around.clusters + consumer;
  }
};

}  // namespace tiled
