// mbarrier in software (block.h). A thread whose barrier is not done yet lets others go on.
#pragma once

#include <map>

#include "software_gpu/block.h"

namespace tiled::ptx {

struct Barrier {
  int64_t arrivals, pending, bytes;  // of a phase; still to come
  uint32_t phase;

  void end_phase_if_complete() {
    if (pending > 0 || bytes != 0) return;
    ++phase, pending = arrivals;
  }
};
inline std::map<uint32_t, Barrier> barriers;  // by address

inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
inline void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
  software_gpu::shared_at<uint64_t>(barrier) = 0;
  barriers[barrier] = {arrivals, arrivals, 0, 0};
}
inline void fence_mbarrier_init() {}

inline void mbarrier_arrive(uint32_t barrier) {
  Barrier& b = barriers.at(barrier);
  if (--b.pending < 0) return software_gpu::block.fail("more arrivals than a barrier expects");
  b.end_phase_if_complete();
}
inline void mbarrier_arrive_if(bool arrives, uint32_t barrier) {
  if (arrives) mbarrier_arrive(barrier);
}
inline void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
  barriers.at(barrier).bytes += bytes;
  mbarrier_arrive(barrier);
}
inline void complete_tx(uint32_t barrier, uint32_t bytes) {
  barriers.at(barrier).bytes -= bytes;
  barriers.at(barrier).end_phase_if_complete();
}

inline bool mbarrier_test_wait(uint32_t barrier, uint32_t parity) {
  return barriers.at(barrier).phase % 2 != parity;
}
inline void mbarrier_wait(uint32_t barrier, uint32_t parity) {
  while (!mbarrier_test_wait(barrier, parity)) software_gpu::block.yield();
}

}  // namespace tiled::ptx
