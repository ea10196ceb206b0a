// Memory for kernels in software (software_gpu/block.h): operands that end where none follows, and
// the block's shared memory.
#pragma once

#include "guarded_pages.h"
#include "software_gpu/block.h"

namespace tiled {

alignas(1024) char shared[software_gpu::SHARED_BYTES];

namespace test {

// The software knows of these pages, so that they are an operand's.
class Guarded : public GuardedPages {
 public:
  Guarded(size_t bytes, size_t behind) : GuardedPages(bytes, behind) {
    software_gpu::block.add_memory(data(), bytes);
  }
  ~Guarded() { software_gpu::block.remove_memory(data()); }
};

}  // namespace test
}  // namespace tiled
