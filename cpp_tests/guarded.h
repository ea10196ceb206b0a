// Memory for kernels in software (software_gpu/block.h): operands that end where none follows, and
// the block's shared memory.
#pragma once

#include <sys/mman.h>

#include "software_gpu/block.h"

namespace tiled {

alignas(1024) char shared[software_gpu::SHARED_BYTES];

namespace test {

// Memory that ends at a page without access, or so many bytes before it, and begins after one.
class Guarded {
 public:
  Guarded(size_t bytes, size_t behind) {
    const size_t pages = (bytes + behind + PAGE - 1) / PAGE;
    length_ = (pages + 2) * PAGE;
    void* const found =
        mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) throw std::runtime_error("no memory");
    memory_ = static_cast<char*>(found);
    mprotect(memory_, PAGE, PROT_NONE);
    mprotect(memory_ + length_ - PAGE, PAGE, PROT_NONE);
    data_ = memory_ + length_ - PAGE - behind - bytes;
    software_gpu::block.add_memory(data_, bytes);
  }
  ~Guarded() {
    software_gpu::block.remove_memory(data_);
    munmap(memory_, length_);
  }
  size_t bytes() const { return memory_ + length_ - PAGE - data_; }
  Guarded(const Guarded&) = delete;
  char* data() const { return data_; }

 private:
  static constexpr size_t PAGE = 4096;
  size_t length_;
  char *memory_, *data_;
};

}  // namespace test
}  // namespace tiled
