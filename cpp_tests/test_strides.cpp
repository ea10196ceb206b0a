// Where vectors and TMA's boxes would be, for operands of every small size and of any strides.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "cuda/parts/launch/mapped_matrix.h"
#include "cuda/plan/copies.h"
#include "planned.h"

namespace tiled {
namespace {

using test::access_of;
using test::device;
using test::fp16x3_plans;
using test::plans_of;
using test::register_of;

// Sizes and strides of batch entries, rows and columns.
struct Shape {
  int64_t sizes[3], strides[3];
};

// As the operator has it: the stride of a dimension of size 0 or 1 means nothing and becomes 0.
Operand operand_of(const Shape& x, DType dtype) {
  const auto stride = [&](int i) { return x.sizes[i] > 1 ? x.strides[i] : 0; };
  return {nullptr, stride(1), stride(2), stride(0),
          alignment_of(nullptr, dtype, stride(1), stride(2), stride(0))};
}

Problem problem_of(const Shape& a, const Shape& b, DType dtype, Arithmetic arithmetic) {
  Problem p = test::problem_of(a.sizes[1], b.sizes[2], a.sizes[2], dtype, a.sizes[0]);
  p.arithmetic = arithmetic;
  p.a = operand_of(a, dtype), p.b = operand_of(b, dtype);
  return p;
}

std::string text_of(const Shape& x) {
  std::ostringstream out;
  for (const int64_t* v : {x.sizes, x.strides})
    out << v[0] << " x " << v[1] << " x " << v[2] << "; ";
  return out.str();
}

// TMA takes steps of whole 16 bytes, and nothing of a step of 0.
void expect_mappable(const Side& side, const Problem& p, const std::string& what) {
  const MappedMatrix m = mapped(side, entries_of(side, p.batch));
  const auto expect_step = [&](int64_t count, int64_t stride) {
    if (count <= 1) return;
    EXPECT_GT(stride, 0) << what;
    EXPECT_EQ(stride * size_of(p.dtype) % 16, 0) << what;
  };
  expect_step(m.rows, m.row_stride);
  expect_step(m.batch, m.batch_stride);
  const int64_t along = is_mn_major(side) ? side.row_stride : side.k_stride;
  if (m.columns > 1) EXPECT_EQ(along, 1) << what;
}

// Vectors of so many bytes along one of an operand's own dimensions.
void expect_vectors(const Side& side, const Problem& p, Access access, int64_t bytes,
                    const std::string& what) {
  if (access == Access::Elements) return;
  const bool along_k = access == Access::AlongK;
  if ((along_k ? side.k : side.rows) <= 1) return;  // vectors of one element
  EXPECT_EQ(along_k ? side.k_stride : side.row_stride, 1) << what;
  EXPECT_EQ((along_k ? side.row_stride : side.k_stride) * size_of(p.dtype) % bytes, 0) << what;
  EXPECT_EQ(side.batch_stride * size_of(p.dtype) % bytes, 0) << what;
}

void expect_sound(const Shape& a, const Shape& b) {
  const DeviceInfo h200 = device("h200");
  const std::string what = text_of(a) + text_of(b);
  for (DType dtype : test::TENSOR_DTYPES) {
    const Problem p =
        problem_of(a, b, dtype, dtype == DType::Float32 ? Arithmetic::Tf32 : Arithmetic::Tensor);
    for (const Plan& plan : plans_of(Algo::Hopper, p, h200)) {
      const Sides sides = sides_of(problem_as_read(p, plan), plan.swap_ab);
      expect_mappable(sides.p, p, what + "P");
      expect_mappable(sides.q, p, what + "Q");
    }
    for (Algo algo : {Algo::TmaWgmma, Algo::WarpSpecialized}) {
      if (!supports(algo, p, h200)) continue;
      expect_mappable(side_a(p), p, what + "A");
      expect_mappable(side_b(p), p, what + "B");
    }
  }
  const Problem parts = problem_of(a, b, DType::Float32, Arithmetic::Fp16x3);
  for (const Fp16x3Plan& plan : fp16x3_plans(parts, h200))
    if (plan.kernel == Fp16x3Kernel::Direct)
      expect_mappable(sides_of(parts, plan.swap_ab).p, parts, what + "fp32");
  for (DType dtype : {DType::Float32, DType::Float64, DType::BFloat16}) {
    const Problem p = problem_of(a, b, dtype, Arithmetic::Fma);
    for (const char* name : {"h200", "t4"})  // with cp.async and without
      for (Algo algo : {Algo::RegisterTile, Algo::MmaTile}) {
        const int64_t bytes = dtype == DType::BFloat16 ? 8 : 16;
        const bool is_register_tile = algo == Algo::RegisterTile;
        for (const Plan& plan : plans_of(algo, p, device(name))) {
          if (!is_register_tile || !register_of(plan).transpose_a)
            expect_vectors(side_a(p), p, access_of(plan).a, bytes, what + "A");
          if (!is_register_tile || !register_of(plan).transpose_b)
            expect_vectors(side_b(p), p, access_of(plan).b, bytes, what + "B");
        }
      }
  }
}

TEST(Strides, MatricesOfOneElementStandSideBySide) {
  expect_sound({{16, 1, 1}, {1, 1, 1}}, {{16, 1, 1}, {1, 1, 1}});
  for (int64_t n : {1, 32, 64}) {
    expect_sound({{16, 1, 1}, {1, 1, 1}}, {{16, 1, n}, {n, n, 1}});
    expect_sound({{16, n, 1}, {n, 1, 1}}, {{16, 1, 1}, {1, 1, 1}});
  }
}

TEST(Strides, DrawnOnes) {
  std::mt19937_64 random(2);
  const auto one_of = [&](const std::vector<int64_t>& values) {
    return values[random() % values.size()];
  };
  const auto size = [&] { return one_of({1, 1, 2, 3, 8, 64}); };
  const auto stride = [&] { return one_of({0, 1, 1, 2, 4, 7, 8, 16, 64, 65, 512}); };
  for (int i = 0; i < 3000 && !testing::Test::HasFailure(); ++i) {
    const int64_t batch = size(), m = size(), n = size(), k = size();
    expect_sound({{batch, m, k}, {stride(), stride(), stride()}},
                 {{batch, k, n}, {stride(), stride(), stride()}});
  }
}

}  // namespace
}  // namespace tiled
