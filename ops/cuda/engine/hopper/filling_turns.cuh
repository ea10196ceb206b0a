// Which stages of a ring a producer fills where several take turns.
//
// The first lap, which waits for no reader, may be producer 0's alone: filled by several, the first
// stages' copies meet on their way, and the one that products begin with comes late. Worth 3 to 5 %
// of some 4 us where one producer is nearly fast enough; where it is not, it costs more
// (docs/decisions/010).
//
//     4 stages, 2 producers:   0 0 0 0 | 0 1 0 1 | 0 1 ...     or  0 1 0 1 | 0 1 0 1 | ...
#pragma once

#include <cuda_runtime_api.h>

namespace tiled {

// Stages are counted from the first of all, lap after lap; `alone`: so many are producer 0's.
template <int PRODUCERS>
class FillingTurns {
 public:
  __device__ __forceinline__ FillingTurns(int producer, int alone)
      : first_(producer == 0 ? 0 : alone + producer), alone_(producer == 0 ? alone : 0) {}
  // The producer's first stage.
  __device__ __forceinline__ int first() const { return first_; }
  // From the stage that it fills now to its next one.
  __device__ __forceinline__ int next() {
    if (PRODUCERS == 1 || alone_ == 0) return PRODUCERS;
    --alone_;
    return 1;
  }

 private:
  int first_, alone_;
};

}  // namespace tiled
