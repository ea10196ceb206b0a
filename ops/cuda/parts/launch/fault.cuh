// One fault on purpose, for python_tests/faults.py: do the tests notice when a wait is missing, and
// do they pass however late a warp is? Chosen by TILED_MM_FAULT when building; none in a library
// that is for use.
#pragma once

#include <cstdint>

#ifndef TILED_MM_FAULT
#define TILED_MM_FAULT None
#endif

namespace tiled {

enum class Fault {
  None,
  NoEmptyWait,        // a stage, or a unit's place, is filled before all have read it
  NoFullWait,         // and read before it is filled
  NoTurnWait,         // a consumer goes ahead of the other's tile
  NoSliceWait,        // a slice of C is filled before it has been copied out
  NoSliceBarrier,     // and copied out before all warps have filled it
  NoDependencyWait,   // a kernel reads before the one before has written
  NoReadWait,         // or while loads of it wait behind stores
  NoHandOverWait,     // a chain goes on before the accumulators so far have been written
  NoHandOverBarrier,  // or its flag is raised before all warps have written them
  NoClear,            // or it finds the flag of the call before
  NoTailClear,        // the next group's part of K enters a sum
  Delays,             // no fault: every warp stands still now and then, for a while of its own
};
constexpr Fault FAULT = Fault::TILED_MM_FAULT;

// Up to two microseconds, at every fourth call or so.
__device__ __forceinline__ void maybe_delay() {
  if constexpr (FAULT == Fault::Delays) {
    const uint32_t warp = blockIdx.x * 32 + threadIdx.x / 32;
    const uint32_t random =
        (static_cast<uint32_t>(clock64()) ^ warp * 0x9e3779b9u) * 0x85ebca6bu >> 19;
    if (random % 4 == 0) __nanosleep(random / 4);
  }
}

}  // namespace tiled
