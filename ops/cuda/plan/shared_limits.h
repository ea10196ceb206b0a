// The shared memory that a multiprocessor lets one block have, bytes, by compute capability: CUDA
// C++ Programming Guide, "Technical Specifications per Compute Capability". For the asserts of
// tiles; at run time the planner asks the device.
#pragma once

namespace tiled {

constexpr int SHARED_OF_8_0 = 163 * 1024;
constexpr int SHARED_OF_8_6 = 99 * 1024;  // and of 8.9 and 12.0

}  // namespace tiled
