// The epilogue of a warpgroup's accumulators (cuda/parts/epilogue/finish_accumulators.cuh) on the
// CPU, thread by thread, beside core's text for one element: the way of a bias that is close, and
// the others. And the parts of it that a kernel does apart (cuda/parts/epilogue/finish_slices.cuh).
#include <gtest/gtest.h>

// clang-format off: before all else, what CUDA C++ has by itself
#include "software_gpu/block.h"
// clang-format on

#include <set>
#include <vector>

#include "core/finish.h"
#include "cuda/parts/epilogue/finish_slices.cuh"
#include "guarded.h"

namespace tiled::test {
namespace {

struct Case {
  int rows, columns;  // of C
  int row, column;    // where the tile begins
  Along along;
  int stride;  // of the bias, elements
  int entry, entry_stride;
  double alpha;
  Activation activation;
};

template <typename T>
float value_of(int i) {
  return widen(T((i * 37 % 101 - 50) / 16.f));
}

// A sum that says where it stands.
float sum_at(int row, int column) { return (row * 13 + column * 7) % 255 / 8.f - 15; }

// HELD: registers that a thread keeps beside these. Apart: the sums become the pre-activations,
// and those C's by a brief activation.
template <typename T, int STRIPS, int REGISTERS, int HELD>
void check(const Case& t, bool apart) {
  const bool along_n = t.along == Along::N;
  const int length = along_n ? t.columns : t.rows;
  const int64_t last = int64_t{t.entry} * t.entry_stride + int64_t{length - 1} * t.stride;
  // No memory follows the bias: what is read past it is noticed.
  const Guarded memory((last + 1) * sizeof(T), 0);
  T* const bias = reinterpret_cast<T*>(memory.data());
  for (int64_t i = 0; i <= last; ++i) bias[i] = T(value_of<T>(static_cast<int>(i)));
  Epilogue e{};
  e.out_dtype = e.bias_dtype = DTYPE_OF<T>;
  e.activation = t.activation;
  e.alpha.real = t.alpha, e.alpha.integer = 0;
  if (t.along != Along::Nothing)
    e.bias_along = t.along, e.bias = bias, e.bias_stride = t.stride,
    e.bias_batch_stride = t.entry_stride;

  for (int thread = 0; thread < 128; ++thread) {
    threadIdx.x = thread;
    const auto place = [&](int s, int i) {
      return std::pair(t.row + 64 * s + thread / 32 * 16 + thread % 32 / 4 + i % 4 / 2 * 8,
                       t.column + i / 4 * 8 + thread % 4 * 2 + i % 2);
    };
    float d[STRIPS][REGISTERS];
    for (int s = 0; s < STRIPS; ++s)
      for (int i = 0; i < REGISTERS; ++i) d[s][i] = sum_at(place(s, i).first, place(s, i).second);
    finish_accumulators<T, HELD>(e, {true, !apart}, d, t.row, t.column,
                                 {t.rows, t.columns, t.entry});
    for (int s = 0; apart && s < STRIPS; ++s) activate_briefly(e.activation, d[s]);
    for (int s = 0; s < STRIPS; ++s)
      for (int i = 0; i < REGISTERS; ++i) {
        const auto [row, column] = place(s, i);
        if (row >= t.rows || column >= t.columns) continue;
        const int64_t index =
            int64_t{t.entry} * t.entry_stride + int64_t{along_n ? column : row} * t.stride;
        const float b = t.along == Along::Nothing ? 0 : widen(bias[index]);
        const float pre_activation = pre_activation_of(e, sum_at(row, column), b, 0.f);
        float expected = pre_activation;
        with_activation<float>(e, [&](auto f) { expected = f(pre_activation); });
        ASSERT_EQ(0, std::memcmp(&expected, &d[s][i], sizeof expected))
            << "row " << row << ", column " << column << ": " << d[s][i] << ", not " << expected;
      }
  }
}

template <typename T, int STRIPS, int REGISTERS, int HELD = 0>
void check_all() {
  const int rows = 64 * STRIPS, columns = 2 * REGISTERS;
  const auto check_both = [](const Case& t) {
    check<T, STRIPS, REGISTERS, HELD>(t, false);
    if (sizeof(T) == 2) check<T, STRIPS, REGISTERS, HELD>(t, true);  // C has 16 bits
  };
  for (const Along along : {Along::Nothing, Along::M, Along::N})
    for (const Activation activation :
         {Activation::None, Activation::Relu, Activation::Gelu, Activation::Silu})
      for (const auto& [more_rows, more_columns, row, column] :
           {std::array{0, 0, 0, 0}, std::array{64, 16, 64, 16}, std::array{37, 6, 64, 8},
            std::array{-19, -5, 0, 0}, std::array{-60, -6, 0, 0}})
        for (const auto& [stride, entry, entry_stride] :
             {std::array{1, 0, 0}, std::array{1, 1, 600}, std::array{1, 3, 601},
              std::array{3, 1, 1900}})
          check_both({row + rows + more_rows, column + columns + more_columns, row, column, along,
                      stride, entry, entry_stride, activation == Activation::None ? 1.7 : 1,
                      activation});
}

TEST(FinishAccumulators, OfFp16) { check_all<__half, 1, 32>(), check_all<__half, 2, 64>(); }
TEST(FinishAccumulators, OfBf16) {
  check_all<__nv_bfloat16, 1, 4>(), check_all<__nv_bfloat16, 1, 80>();
  check_all<__nv_bfloat16, 2, 96>();
  check_all<__nv_bfloat16, 1, 64, 128>();
}
TEST(FinishAccumulators, OfFp32) { check_all<float, 1, 48>(), check_all<float, 1, 16>(); }

// Together the threads name every 32 bytes of the bias that the tile reads, and nothing outside of
// it; of a bias of another type nothing.
TEST(FinishSlices, TheBiasIsAskedFor) {
  constexpr int ROWS = 64, COLUMNS = 192, STRIDE = 2, ENTRY = 3, ENTRY_STRIDE = 1000;
  std::vector<__nv_bfloat16> bias(4 * ENTRY_STRIDE);
  Epilogue e{};
  e.bias = bias.data(), e.bias_batch_stride = ENTRY_STRIDE;
  for (const Along along : {Along::Nothing, Along::M, Along::N})
    for (const DType dtype : {DType::BFloat16, DType::Float32})
      for (const int stride : {1, STRIDE})
        for (const auto& [rows, columns] : {std::pair(500, 500), std::pair(100, 90)}) {
          e.bias_along = along, e.bias_dtype = dtype, e.bias_stride = stride;
          const Within c = {rows, columns, ENTRY};
          ptx::prefetched.clear();
          for (int thread = 0; thread < 128; ++thread)
            prefetch_bias<__nv_bfloat16>(e, 64, ROWS, 16, COLUMNS, c, thread);
          std::set<const void*> expected;
          const bool along_n = along == Along::N;
          const int first = along_n ? 16 : 64;
          const int last = along_n ? std::min(16 + COLUMNS, columns) : std::min(64 + ROWS, rows);
          if (along != Along::Nothing && dtype == DType::BFloat16)
            for (int i = first; i < last; i += 16)
              expected.insert(bias.data() + ENTRY * ENTRY_STRIDE + i * stride);
          EXPECT_EQ(expected, ptx::prefetched);
        }
}

}  // namespace
}  // namespace tiled::test
