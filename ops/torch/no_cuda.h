// A library built without CUDA says this where a GPU is asked for.
#pragma once

#define TILED_MM_BUILT_WITHOUT_CUDA \
  "tiled_mm was built without CUDA (tiled_mm.build_info() says why); "
#define TILED_MM_BUILD_AGAIN \
  "build it again where nvcc and a CUDA build of torch of the same CUDA version are"
