// A cluster of persistent blocks has these in stream-K (stream_k.h): its number, its work items,
// and how each warp of its consumers hands its accumulators over (hand_over.cuh).
#pragma once

#include "cuda/parts/schedule/hand_over.cuh"
#include "cuda/parts/schedule/hopper_schedule.cuh"
#include "cuda/plan/hand_over.h"
#include "cuda/ptx/cluster_shared.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/shared.cuh"

namespace tiled {

// All threads of a cluster of so many blocks: its number. `word`: of shared memory, for nothing
// else.
__device__ __forceinline__ uint32_t draw_cluster_number(const HandOver& args, uint32_t rank,
                                                        uint32_t blocks, uint32_t word) {
  if (threadIdx.x == 0 && rank == 0) {
    const uint32_t drawn = draw_number(args);
    ptx::store_shared_u32(word, drawn);
    for (uint32_t other = 1; other < blocks; ++other)
      ptx::store_shared_cluster_u32(word, other, drawn);
  }
  if (blocks == 1)
    __syncthreads();
  else
    ptx::cluster_sync();
  return ptx::load_shared_u32(word);
}

// As WholeTurns, of the cluster that drew this number. A block's accumulators go from its consumers
// to those of the block in its place in the next cluster. A warp that does nothing else, the
// hand-off warp, asks for the flag and raises it, so that no consumer waits for the memory's
// answers:
//
//     consumers      ... accumulators -> partial_ready        partial_loaded -> accumulators ...
//     hand-off warp         wait partial_ready, flag        flag, arrive partial_loaded
//
// SHARERS: of a tile, among the consumers; the only one is none in particular.
template <typename Schedule, int SHARERS>
struct StreamKTurns {
  static constexpr bool STREAM_K = true;
  static constexpr uint32_t first = 0, stride = 1;
  const Schedule& schedule;
  const StreamKGrid& stream_k;
  uint32_t number, end;
  uint32_t partial_ready, partial_loaded;  // barriers in shared memory, of one phase

  // By all threads of the cluster, after the kernel before, which clears the ticket. `barriers`:
  // two and a word, of shared memory for nothing else.
  static __device__ __forceinline__ StreamKTurns of(const Schedule& schedule,
                                                    const StreamKGrid& stream_k, uint32_t blocks,
                                                    uint32_t barriers) {
    if (threadIdx.x == 0) {
      ptx::mbarrier_init(barriers, 4 * SHARERS);
      ptx::mbarrier_init(barriers + 8, 1);
    }
    return StreamKTurns(
        schedule, stream_k,
        draw_cluster_number(stream_k.hand_over, schedule.rank, blocks, barriers + 2 * 8), barriers);
  }

  __device__ __forceinline__ Unit at(uint32_t i) const {
    const StreamK::Turn turn = stream_k.rule.turn(number, stream_k.rule.share(number), i);
    Unit unit = schedule.at(turn.tile);
    unit.first = static_cast<int>(turn.first), unit.last = static_cast<int>(turn.last);
    return unit;
  }
  // Before a unit's first step: what its chain begins with, zeros or what the cluster before left,
  // and whether it does not begin with zeros. K has one segment.
  template <typename Chain>
  __device__ __forceinline__ bool take_over(Chain& chain, const Unit& unit, int consumer) const {
    const bool resumes = unit.first != 0;
    if (resumes) ptx::mbarrier_wait(partial_loaded, 0);
    read_accumulators_or_clear<32>(stream_k.hand_over, resumes, group(number - 1, consumer),
                                   in_a_row(chain));
    return resumes;
  }
  // After its last: whether another cluster goes on from here, and is given the chain.
  template <typename Chain>
  __device__ __forceinline__ bool hand_over(Chain& chain, const Unit& unit, int consumer) const {
    if (unit.last == static_cast<int>(stream_k.rule.steps)) return false;
    write_accumulators<32>(stream_k.hand_over, group(number, consumer), in_a_row(chain));
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(partial_ready);
    return true;
  }
  // One lane of the hand-off warp does this.
  __device__ __forceinline__ void carry() const {
    const StreamK::Share share = stream_k.rule.share(number);
    if (share.end.step != 0) {
      if constexpr (FAULT != Fault::NoHandOverBarrier) ptx::mbarrier_wait(partial_ready, 0);
      raise_flag(stream_k.hand_over, block(number));
    }
    if (share.begin.step != 0) {
      await_flag(stream_k.hand_over, block(number - 1));
      ptx::mbarrier_arrive(partial_loaded);
    }
  }

 private:
  __device__ __forceinline__ StreamKTurns(const Schedule& s, const StreamKGrid& c, uint32_t n,
                                          uint32_t barriers)
      : schedule(s),
        stream_k(c),
        number(n),
        end(c.rule.share(n).turns),
        partial_ready(barriers),
        partial_loaded(barriers + 8) {}

  template <typename Chain>
  static __device__ __forceinline__ auto in_a_row(Chain& chain)
      -> float (&)[sizeof(Chain) / sizeof(float)] {
    return reinterpret_cast<float (&)[sizeof(Chain) / sizeof(float)]>(chain);
  }
  // This block, or the one in its place in another cluster; and a warp of theirs.
  __device__ __forceinline__ uint32_t block(uint32_t cluster) const {
    return cluster * schedule.args.cluster_p * schedule.args.cluster_q + schedule.rank;
  }
  __device__ __forceinline__ uint32_t group(uint32_t cluster, int consumer) const {
    const int sharer = SHARERS == 1 ? 0 : consumer;
    return (block(cluster) * SHARERS + sharer) * 4 + threadIdx.x % 128 / 32;
  }
};

}  // namespace tiled
