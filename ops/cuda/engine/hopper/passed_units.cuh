// The units of a block of hopper whose groups the device alone knows (grouped_schedule.cuh).
// Finding one takes some 200 instructions. So one warp finds them, ahead of the others, and passes
// them on through shared memory.
//
//     the finder                               every other warp
//     wait read[place]                         wait found[place]
//     units[place] = the next ... found[place] read units[place] ... read[place]
//
//     shared memory: units[UNIT_PLACES] | found[UNIT_PLACES] | read[UNIT_PLACES] | counted | count
#pragma once

#include "cuda/engine/hopper/tiles.h"
#include "cuda/parts/launch/fault.cuh"
#include "cuda/parts/schedule/grouped_schedule.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/shared.cuh"

namespace tiled {

// Its block's units by number: 0, 1, ... below end. Every warp but the finder reads each of them
// and gives it back.
class PassedUnits {
 public:
  static constexpr uint32_t first = 0, stride = 1;
  uint32_t end;

  // By one thread, before the block's barrier. `readers`: warps, without the finder.
  static __device__ __forceinline__ void initialise(uint32_t shared, uint32_t readers) {
    for (uint32_t place = 0; place < UNIT_PLACES; ++place) {
      ptx::mbarrier_init(found(shared, place), 1);
      ptx::mbarrier_init(read(shared, place), readers);
    }
    ptx::mbarrier_init(counted(shared), 1);
  }

  // The finder's work. The ends of the groups have been written.
  template <typename Turns>
  static __device__ __forceinline__ void find(const Turns& turns, uint32_t shared) {
    const bool writes = threadIdx.x % 32 == 0;
    uint32_t number = 0;
    if (writes) {
      const uint32_t left = max(turns.end, turns.first) - turns.first;
      ptx::store_shared_u32(counted(shared) + 8, (left + turns.stride - 1) / turns.stride);
      ptx::mbarrier_arrive(counted(shared));
    }
    for (uint32_t i = turns.first; i < turns.end; i += turns.stride, ++number) {
      const GroupedUnit unit = turns.at(i);
      const uint32_t place = number % UNIT_PLACES;
      maybe_delay();
      if constexpr (FAULT != Fault::NoEmptyWait)
        ptx::mbarrier_wait(read(shared, place), number / UNIT_PLACES % 2 ^ 1);
      if (!writes) continue;
      write(unit, shared + place * UNIT_BYTES);
      ptx::mbarrier_arrive(found(shared, place));
    }
  }

  // `shared`: where UNITS_BYTES begin.
  __device__ __forceinline__ explicit PassedUnits(uint32_t shared) : shared_(shared) {
    ptx::mbarrier_wait(counted(shared), 0);
    end = ptx::load_shared_u32(counted(shared) + 8);
  }

  __device__ __forceinline__ GroupedUnit at(uint32_t number) const {
    maybe_delay();
    if constexpr (FAULT != Fault::NoFullWait)
      ptx::mbarrier_wait(found(shared_, number % UNIT_PLACES), number / UNIT_PLACES % 2);
    return again(number);
  }

  // A unit that has been read: a warp whose registers have no room for it reads it as often as it
  // needs it.
  __device__ __forceinline__ GroupedUnit again(uint32_t number) const {
    GroupedUnit unit;
    auto& words = reinterpret_cast<uint32_t (&)[UNIT_BYTES / 4]>(unit);
#pragma unroll
    for (uint32_t i = 0; i < UNIT_BYTES / 16; ++i) {
      const uint4 v = ptx::load_shared_v4(shared_ + number % UNIT_PLACES * UNIT_BYTES + 16 * i);
      words[4 * i] = v.x, words[4 * i + 1] = v.y, words[4 * i + 2] = v.z, words[4 * i + 3] = v.w;
    }
    return unit;
  }

  // After the last time that the warp reads it.
  __device__ __forceinline__ void give_back(uint32_t number) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(read(shared_, number % UNIT_PLACES));
  }

 private:
  static_assert(sizeof(GroupedUnit) == UNIT_BYTES);
  static_assert(UNITS_BYTES == UNIT_PLACES * (UNIT_BYTES + 16) + 16);
  uint32_t shared_;

  static __device__ __forceinline__ uint32_t found(uint32_t shared, uint32_t place) {
    return shared + UNIT_PLACES * UNIT_BYTES + place * 8;
  }
  static __device__ __forceinline__ uint32_t read(uint32_t shared, uint32_t place) {
    return found(shared, UNIT_PLACES + place);
  }
  static __device__ __forceinline__ uint32_t counted(uint32_t shared) {
    return read(shared, UNIT_PLACES);
  }

  static __device__ __forceinline__ void write(const GroupedUnit& unit, uint32_t at) {
    const auto& words = reinterpret_cast<const uint32_t (&)[UNIT_BYTES / 4]>(unit);
#pragma unroll
    for (uint32_t i = 0; i < UNIT_BYTES / 16; ++i)
      ptx::store_shared_v4(at + 16 * i, make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2],
                                                   words[4 * i + 3]));
  }
};

}  // namespace tiled
