// The ring of stages of rungs hopper and fp16x3, whose blocks stay and take tile after tile: warps
// of the first warpgroup fill it by TMA, the other warpgroups multiply what it holds. What a stage
// holds and how it is multiplied is the rung's.
//
//     barriers in shared memory: full[STAGES] | empty[STAGES] | turn[2], consumer i may go on
#pragma once

#include "cuda/parts/launch/fault.cuh"
#include "cuda/parts/launch/hopper_arguments.h"
#include "cuda/parts/pipeline/ring.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/opaque.cuh"

namespace tiled {

template <int STAGES>
struct StageRing {
  static constexpr uint32_t BARRIER_BYTES = (2 * STAGES + 2) * 8;
  uint32_t base;      // of memory, in the shared window
  uint32_t barriers;  // where they begin there
  uint32_t blocks;    // of the cluster

  // `at`: of the barriers, bytes from the begin of memory.
  __device__ __forceinline__ StageRing(const HopperArguments& grid, uint8_t* memory, uint32_t at)
      : base(ptx::shared_address(memory)),
        barriers(base + at),
        blocks(grid.cluster_p * grid.cluster_q) {}

  __device__ __forceinline__ uint32_t full(uint32_t stage) const { return barriers + stage * 8; }
  __device__ __forceinline__ uint32_t empty(uint32_t stage) const { return full(STAGES + stage); }
  __device__ __forceinline__ uint32_t turn(uint32_t i) const { return full(2 * STAGES + i); }

  // A consumer's waits: until a stage has been filled, and until the other one lets it go on. (A
  // loop that has asked for the stage ahead, as hopper's, waits by itself.)
  __device__ __forceinline__ void wait_full(uint32_t stage, uint32_t parity) const {
    if constexpr (FAULT != Fault::NoFullWait) ptx::mbarrier_wait(full(stage), parity);
  }
  __device__ __forceinline__ void wait_turn(uint32_t i, uint32_t parity) const {
    if constexpr (FAULT != Fault::NoTurnWait) ptx::mbarrier_wait(turn(i), parity);
  }

  // By all threads. A stage is full after so many arrivals and its bytes, and empty after one
  // arrival of each of so many warps that read it, here and in the cluster's other blocks.
  // others(): one thread initialises the kernel's other barriers.
  template <typename Others>
  __device__ __forceinline__ void initialise(uint32_t arrivals, uint32_t readers,
                                             Others others) const {
    if (threadIdx.x == 0) {
      for (int s = 0; s < STAGES; ++s) {
        ptx::mbarrier_init(full(s), arrivals);
        ptx::mbarrier_init(empty(s), readers * blocks);
      }
      for (int i = 0; i < 2; ++i) ptx::mbarrier_init(turn(i), 4);  // the other consumer's warps
      others();
      ptx::fence_mbarrier_init();
    }
    if (blocks == 1)
      __syncthreads();
    else
      ptx::cluster_sync_relaxed();
  }

  // A warp's release of a stage that it has read, to every block that fills it: one lane arrives at
  // its own block's barrier where that is alone, else lane i at block i's.
  struct StageRelease {
    uint32_t here, there;         // whether the lane's is to one or to the other
    uint32_t empty, empty_there;  // addresses of the first stage's barrier
    __device__ __forceinline__ explicit StageRelease(const StageRing& ring) : empty(ring.empty(0)) {
      const uint32_t lane = threadIdx.x % 32;
      here = ring.blocks == 1 && lane == 0, there = ring.blocks != 1 && lane < ring.blocks;
      empty_there = ptx::cluster_address(empty, there ? lane : 0);
      // Else ptxas computes some of it again in every step.
      ptx::opaque(here, there);
      ptx::opaque(empty, empty_there);
    }
    __device__ __forceinline__ void arrive(uint32_t stage, bool arrives = true) const {
      ptx::mbarrier_arrive_if(arrives && here, empty + stage * 8);
      ptx::mbarrier_arrive_cluster_if(arrives && there, empty_there + stage * 8);
    }
  };
};

// One of PRODUCERS warps that fill stages in turn. An operand's parts come from all blocks of the
// cluster that share it: a stage may be filled only when the readers of all have left it.
//
// The first lap, which waits for no reader, may be producer 0's alone: filled by several, the first
// stages' copies meet on their way, and the one that products begin with comes late. Worth 3 to 5 %
// of some 4 us where one producer is nearly fast enough; where it is not, it costs more
// (docs/decisions/010).
//
//     4 stages, 2 producers:   0 0 0 0 | 0 1 0 1 | 0 1 ...     or  0 1 0 1 | 0 1 0 1 | ...
template <int STAGES, int PRODUCERS = 1>
class StageProducer {
 public:
  // `alone`: so many of the first stages are producer 0's.
  __device__ __forceinline__ explicit StageProducer(const StageRing<STAGES>& stages,
                                                    int producer = 0, int alone = 0)
      : stages_(stages),
        issues_(ptx::elect_sync()),
        alone_(producer == 0 ? alone : 0),
        ahead_(producer == 0 ? 0 : alone + producer) {
    ring_.skip(ahead_);
  }

  // Its own of the steps that begin with `first` and end before `last`. load(stage, step): one
  // thread begins a step's copies, of so many bytes from all blocks.
  template <typename Load>
  __device__ __forceinline__ void fill(int first, int last, uint32_t bytes, Load load) {
    int step = first + ahead_;
    for (int next; step < last; step += next, ring_.skip(next)) {
      const uint32_t stage = ring_.stage;
      next = next_one();
      maybe_delay();
      if constexpr (FAULT != Fault::NoEmptyWait)
        ptx::mbarrier_wait(stages_.empty(stage), ring_.parity ^ 1);
      if (!issues_) continue;
      ptx::mbarrier_arrive_expect_tx(stages_.full(stage), bytes);
      load(stage, step);
    }
    ahead_ = step - last;
  }

  // The readers' last arrivals must find these barriers: where a block of a cluster had ended,
  // those of the others would end the kernel with an error (docs/decisions/039).
  __device__ __forceinline__ void wait_for_readers() {
    for (int step = ahead_, next; step < STAGES; step += next, ring_.skip(next)) {
      next = next_one();
      ptx::mbarrier_wait(stages_.empty(ring_.stage), ring_.parity ^ 1);
    }
  }

 private:
  // From the stage that it fills now to its next one.
  __device__ __forceinline__ int next_one() {
    if (PRODUCERS == 1 || alone_ == 0) return PRODUCERS;
    --alone_;
    return 1;
  }

  const StageRing<STAGES> stages_;
  bool issues_;
  int alone_;  // stages yet that it fills one after the other
  int ahead_;  // of the steps to come those before its next one
  Ring<STAGES> ring_;
};

}  // namespace tiled
