// Which instruction level runs, and on how many threads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "matrices.h"

namespace tiled::test {
namespace {

// The first use decides, so all of it is one test.
TEST(Level, IsTheHighestOrTheOneAskedFor) {
  const char* asked = std::getenv("TILED_MM_CPU_LEVEL");
  const std::string expected = asked != nullptr ? asked : cpu::available_levels().back()->name;
  setenv("TILED_MM_CPU_LEVEL", "abacus", 1);
  EXPECT_THROW(cpu::chosen_level(), std::invalid_argument);
  setenv("TILED_MM_CPU_LEVEL", expected.c_str(), 1);
  EXPECT_EQ(cpu::chosen_level().name, expected);
  unsetenv("TILED_MM_CPU_LEVEL");
  EXPECT_EQ(cpu::chosen_level().name, expected);
}

int regions = 0;

TEST(Blocked, UsesThreadsOnlyWhereTheyPay) {
  const cpu::ParallelFor parallel = {[](int64_t count, cpu::Body body, void* state) {
                                       ++regions;
                                       body(state, 0, count);
                                     },
                                     8};
  for (const bool large : {false, true}) {
    const int64_t size = large ? 512 : 32;
    Matrix a(DType::Float32, 1, size, size, Layout::Rows), b = a;
    Matrix c(DType::Float32, 1, size, size, Layout::Rows);
    regions = 0;
    cpu::mm_blocked(problem_of(a, b, c), parallel, *cpu::available_levels().back());
    EXPECT_EQ(regions, large ? 1 : 0);
  }
}

}  // namespace
}  // namespace tiled::test
