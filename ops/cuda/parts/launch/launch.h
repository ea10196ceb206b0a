// Launches of a plan's steps. The compiler sees that a kernel is given the arguments that it takes.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/plan/plan.h"

namespace tiled {

// A kernel of one argument, passed by value.
template <typename Arguments>
using Kernel = void (*)(Arguments);

namespace detail {

cudaError_t launch(const void* kernel, const Step& step, cudaStream_t stream, void* argument,
                   bool early);

}  // namespace detail

// After all that is in the stream.
template <typename Arguments>
cudaError_t launch_kernel(Kernel<Arguments> kernel, const Step& step, cudaStream_t stream,
                          const Arguments& arguments) {
  return detail::launch(reinterpret_cast<const void*>(kernel), step, stream,
                        const_cast<Arguments*>(&arguments), /*early=*/false);
}

// In the shadow of the kernel before: a block may start as soon as all of that one's have, and
// waits by griddepcontrol before it reads or writes (CUDA C++ Programming Guide, "Programmatic
// Dependent Launch and Synchronization"). Where the kernel's code has no such wait, after all that
// is in the stream.
template <typename Arguments>
cudaError_t launch_early(Kernel<Arguments> kernel, const Step& step, cudaStream_t stream,
                         const Arguments& arguments) {
  return detail::launch(reinterpret_cast<const void*>(kernel), step, stream,
                        const_cast<Arguments*>(&arguments), /*early=*/true);
}

}  // namespace tiled
