// Registering the override where memory runs out halfway: a later try must find torch's kernels
// below its own, and not its own below themselves.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "tiled_mm.h"

namespace {

// Allocations that this thread may still make; -1 is no limit.
thread_local int64_t allocations_left = -1;

void* allocate(size_t bytes) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// These stand for the whole program, its libraries too.
void* operator new(size_t bytes) { return allocate(bytes); }
void* operator new[](size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace {

TEST(OverrideRegistration, MayFailHalfwayAndBeTriedAgain) {
  const at::Tensor a = at::randn({5, 6}), b = at::randn({6, 7}), input = at::randn({7});
  const at::Tensor product = at::mm(a, b), sum = at::addmm(input, a, b);
  int failures = 0;
  for (int64_t limit = 0;; limit += 97) {
    allocations_left = limit;
    try {
      tiled::enable_override(at::kCPU);
      allocations_left = -1;
      break;
    } catch (const std::bad_alloc&) {
      allocations_left = -1;
      ++failures;
    }
    // Nothing is on: all calls reach torch's kernels.
    EXPECT_TRUE(at::equal(at::mm(a, b), product));
    EXPECT_TRUE(at::equal(at::addmm(input, a, b), sum));
    EXPECT_ANY_THROW(tiled::disable_override(at::kCPU));
  }
  EXPECT_GT(failures, 3);
  EXPECT_TRUE(at::equal(at::mm(a, b), tiled::mm(a, b)));
  tiled::disable_override(at::kCPU);
  EXPECT_TRUE(at::equal(at::mm(a, b), product));
  EXPECT_TRUE(at::equal(at::addmm(input, a, b), sum));
}

}  // namespace
