// The functions of tiled_mm.h as a C++ program sees them, on every kind of device that is here.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <thread>

#include "error_of.h"
#include "tiled_mm.h"

namespace {

using tiled::test::error_of;

class Operator : public testing::TestWithParam<at::DeviceType> {
 protected:
  void SetUp() override {
    if (GetParam() == at::kCUDA && !at::hasCUDA()) GTEST_SKIP() << "needs a CUDA GPU";
    at::manual_seed(1);
  }

  at::TensorOptions options(at::ScalarType type) const {
    return at::TensorOptions().device(GetParam()).dtype(type);
  }

  at::Tensor normal(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) const {
    return at::randn(sizes, options(at::kFloat)).to(type);
  }
};

// The bits, not the values: NaN equals NaN, +0 does not equal -0.
bool same_bits(const at::Tensor& x, const at::Tensor& y) {
  return x.sizes() == y.sizes() && x.dtype() == y.dtype() &&
         at::equal(x.contiguous().view(at::kByte), y.contiguous().view(at::kByte));
}

TEST_P(Operator, MultipliesWithinTheBound) {
  for (const auto& [m, n, k] : {std::tuple{1, 1, 1}, {65, 33, 129}, {7, 200, 5000}}) {
    const at::Tensor a = normal({m, k}), b = normal({k, n});
    const at::Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
    const at::Tensor scale = at::mm(a.abs().to(at::kDouble), b.abs().to(at::kDouble));
    const double g = std::min<double>(k, 8 * std::sqrt(k)), u = 0x1p-24;
    const at::Tensor bound = u * exact.abs() + g * u * scale + 0x1p-149;
    const at::Tensor error = (tiled::mm(a, b).to(at::kDouble) - exact).abs();
    EXPECT_TRUE(at::all(error <= bound).item<bool>()) << m << " " << n << " " << k;
  }
}

// Every rung of the fma arithmetic.
TEST_P(Operator, EveryRungHasTheSameBits) {
  tiled::MmOptions exact;
  exact.precision = "ieee";
  for (const int64_t k : {4200, 36868}) {  // one chain, and several
    const at::Tensor a = normal({30, k}), b = normal({k, 40});
    const at::Tensor expected = tiled::mm(a, b);
    const std::vector<std::string> algos = tiled::algos(a, b, exact);
    EXPECT_GE(algos.size(), 2u);
    for (const std::string& algo : algos) {
      tiled::MmOptions request;
      request.algo = algo;
      EXPECT_TRUE(same_bits(tiled::mm(a, b, request), expected)) << algo << " " << k;
    }
  }
}

TEST_P(Operator, EveryPrecisionOfFloat32IsWithinItsBound) {
  const at::Tensor a = normal({70, 300}), b = normal({300, 90});
  const at::Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
  const at::Tensor scale = at::mm(a.abs().to(at::kDouble), b.abs().to(at::kDouble));
  const double g = 8 * std::sqrt(300.);
  for (const char* precision : {"ieee", "tf32", "fp16x3"}) {
    tiled::MmOptions request;
    request.precision = precision;
    try {
      // Rounded to 11 bits, two factors are off by 2^-11 each.
      const double u = precision == std::string("tf32") ? 0x1p-10 : g * 0x1p-24;
      const at::Tensor c = tiled::mm(a, b, request);
      const at::Tensor error = (c.to(at::kDouble) - exact).abs();
      EXPECT_TRUE(at::all(error <= 0x1p-24 * exact.abs() + (u + 0x1p-22) * scale).item<bool>())
          << precision;
      EXPECT_TRUE(same_bits(tiled::mm(a.slice(0, 3, 8), b, request), c.slice(0, 3, 8)))
          << precision;
    } catch (const c10::NotImplementedError& error) {
      EXPECT_TRUE(GetParam() == at::kCUDA && precision != std::string("ieee"))
          << error.what_without_backtrace();
    }
  }
}

TEST_P(Operator, RowsAndBatchesHaveTheBitsOfTheWhole) {
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const at::Tensor a = normal({64, 300}, type), b = normal({300, 40}, type);
    const at::Tensor whole = tiled::mm(a, b);
    EXPECT_TRUE(same_bits(tiled::mm(a.slice(0, 3, 8), b), whole.slice(0, 3, 8))) << type;
    EXPECT_TRUE(same_bits(tiled::mm(a, b.slice(1, 5, 9)), whole.slice(1, 5, 9))) << type;
    const at::Tensor batch = tiled::bmm(a.expand({3, 64, 300}), b.expand({3, 300, 40}));
    for (int64_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(batch[i], whole)) << type;
  }
}

TEST_P(Operator, WritesIntoOut) {
  const at::Tensor a = normal({9, 4}), b = normal({4, 7});
  at::Tensor wide = at::full({9, 20}, NAN, options(at::kFloat));
  at::Tensor view = wide.slice(1, 2, 9);
  EXPECT_EQ(&tiled::mm_out(view, a, b), &view);
  EXPECT_TRUE(same_bits(view, tiled::mm(a, b)));
  EXPECT_TRUE(at::all(at::isnan(wide.slice(1, 9, 20))).item<bool>());
  at::Tensor entries = view.unsqueeze(0).zero_();
  EXPECT_EQ(&tiled::bmm_out(entries, a.unsqueeze(0), b.unsqueeze(0)), &entries);
  EXPECT_TRUE(same_bits(view, tiled::mm(a, b)));
}

TEST_P(Operator, GivesTheUnroundedSum) {
  const at::Tensor a = normal({5, 64}, at::kHalf), b = normal({64, 6}, at::kHalf);
  tiled::MmOptions request;
  request.out_dtype = at::kFloat;
  const at::Tensor sum = tiled::mm(a, b, request);
  EXPECT_EQ(sum.scalar_type(), at::kFloat);
  EXPECT_TRUE(same_bits(sum.to(at::kHalf), tiled::mm(a, b)));
}

TEST_P(Operator, GivesTheWholeSumOfBytes) {
  tiled::MmOptions request;
  request.out_dtype = at::kInt;
  for (const at::ScalarType type : {at::kChar, at::kByte}) {
    const int64_t low = type == at::kChar ? -128 : 0;
    const at::Tensor a = at::randint(low, low + 256, {5, 640}, options(type));
    const at::Tensor b = at::randint(low, low + 256, {640, 6}, options(type));
    const at::Tensor exact = at::mm(a.cpu().to(at::kLong), b.cpu().to(at::kLong));
    const at::Tensor sum = tiled::mm(a, b, request);
    EXPECT_EQ(sum.scalar_type(), at::kInt);
    EXPECT_TRUE(at::equal(sum.cpu().to(at::kLong), exact));
    at::Tensor out = at::empty({0}, options(at::kInt));
    tiled::mm_out(out, a, b, request);
    EXPECT_TRUE(at::equal(out, sum));
    EXPECT_TRUE(at::equal(tiled::bmm(a.unsqueeze(0), b.unsqueeze(0), request)[0], sum));
    EXPECT_TRUE(at::equal(sum.to(type), tiled::mm(a, b)));
  }
}

TEST_P(Operator, HasGradientsOfBothOrders) {
  const auto leaf = [&](at::IntArrayRef sizes) {
    return normal(sizes).to(at::kDouble).requires_grad_();
  };
  const at::Tensor a = leaf({3, 4}), b = leaf({4, 5});
  const at::Tensor loss = tiled::mm(a, b).pow(2).sum(), peer = at::mm(a, b).pow(2).sum();
  const auto first = torch::autograd::grad({loss}, {a, b}, {}, true, true);
  const auto peer_first = torch::autograd::grad({peer}, {a, b}, {}, true, true);
  const auto second = torch::autograd::grad({first[0].sum()}, {b});
  const auto peer_second = torch::autograd::grad({peer_first[0].sum()}, {b});
  for (const auto& [found, expected] :
       {std::pair{first[0], peer_first[0]}, {first[1], peer_first[1]}, {second[0], peer_second[0]}})
    EXPECT_LE((found - expected).abs().max().item<double>(),
              64 * 0x1p-53 * expected.abs().max().item<double>());
}

TEST_P(Operator, AddsAnInputAndActivates) {
  const at::Tensor a = normal({9, 40}), b = normal({40, 7}), input = normal({7});
  EXPECT_TRUE(same_bits(tiled::addmm(input, a, b, {.beta = 0}), tiled::mm(a, b)));
  EXPECT_TRUE(same_bits(tiled::addmm(input, a, b, {.activation = "relu"}),
                        tiled::addmm(input, a, b).relu()));
  const tiled::AddmmOptions scaled = {.beta = 2, .alpha = -0.5};
  const at::Tensor whole = tiled::addmm(input, a, b, scaled);
  EXPECT_TRUE(same_bits(tiled::addmm(input, a.slice(0, 3, 8), b, scaled), whole.slice(0, 3, 8)));
  const at::Tensor batch =
      tiled::baddbmm(input, a.expand({3, 9, 40}), b.expand({3, 40, 7}), scaled);
  for (int64_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(batch[i], whole));
  at::Tensor out = normal({9, 7});
  const at::Tensor right = tiled::addmm(out, a, b);
  EXPECT_EQ(&tiled::addmm_out(out, out, a, b), &out);
  EXPECT_TRUE(same_bits(out, right));
  at::Tensor entries = at::empty({0}, options(at::kFloat));
  tiled::baddbmm_out(entries, input, a.expand({3, 9, 40}), b.expand({3, 40, 7}), scaled);
  EXPECT_TRUE(same_bits(entries, batch));
  at::Tensor sum = at::zeros({9, 7}, options(at::kFloat));
  const at::Tensor half_a = a.to(at::kHalf), half_b = b.to(at::kHalf);
  tiled::addmm_out(sum, sum, half_a, half_b, {.out_dtype = at::kFloat});
  EXPECT_TRUE(same_bits(sum, tiled::mm(half_a, half_b, {.out_dtype = at::kFloat})));
}

TEST_P(Operator, LinearTakesAnyLeadingDimensions) {
  const at::Tensor x = normal({2, 3, 40}), weight = normal({7, 40}), bias = normal({7});
  const at::Tensor y = tiled::linear(x, weight, bias, {.activation = "gelu"});
  EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 3, 7}));
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 3; ++j)
      EXPECT_TRUE(same_bits(tiled::linear(x[i][j], weight, bias, {.activation = "gelu"}), y[i][j]));
  EXPECT_TRUE(same_bits(tiled::linear(x[0], weight), tiled::mm(x[0], weight.t())));
  at::Tensor out = at::empty({0}, options(at::kFloat));
  EXPECT_EQ(&tiled::linear_out(out, x, weight, bias, {.activation = "gelu"}), &out);
  EXPECT_TRUE(same_bits(out, y));
  EXPECT_NE(error_of([&] {
              tiled::linear(x, weight.t(), bias);
            }).find("mat1 and mat2 shapes cannot be multiplied (6x40 and 7x40)"),
            std::string::npos);
}

TEST_P(Operator, LinearHasGradients) {
  const auto leaf = [&](at::IntArrayRef sizes) {
    return normal(sizes).to(at::kDouble).requires_grad_();
  };
  const at::Tensor x = leaf({2, 3, 4}), weight = leaf({5, 4}), bias = leaf({5});
  const at::Tensor loss = tiled::linear(x, weight, bias, {.activation = "gelu"}).pow(2).sum();
  const at::Tensor peer = at::gelu(at::linear(x, weight, bias)).pow(2).sum();
  const auto found = torch::autograd::grad({loss}, {x, weight, bias});
  const auto expected = torch::autograd::grad({peer}, {x, weight, bias});
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found[i].sizes(), expected[i].sizes());
    EXPECT_LE((found[i] - expected[i]).abs().max().item<double>(),
              256 * 0x1p-53 * expected[i].abs().max().item<double>());
  }
}

TEST_P(Operator, RefusesInTorchsWords) {
  const at::Tensor a = normal({2, 3}), b = normal({4, 5});
  EXPECT_NE(error_of([&] {
              tiled::mm(a, b);
            }).find("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"),
            std::string::npos);
  tiled::MmOptions request;
  request.algo = "fastest";
  const std::string unknown = error_of([&] { tiled::mm(a, a.t(), request); });
  EXPECT_NE(unknown.find("algo 'fastest' is unknown"), std::string::npos);
  EXPECT_NE(unknown.find("naive"), std::string::npos);
}

TEST_P(Operator, ExplainsWithoutComputing) {
  const at::Tensor a = normal({64, 64});
  EXPECT_NE(tiled::explain(a, a, {}, "h200").find("NVIDIA H200"), std::string::npos);
  EXPECT_EQ(tiled::plan(a, a).front(), '{');
  const at::Tensor large = at::empty({4096, 4096}, at::device(at::kMeta).dtype(at::kBFloat16));
  EXPECT_GT(tiled::explain(large, large, {}, "h200", /*verbose=*/true).size(),
            tiled::explain(large, large, {}, "h200").size());
}

TEST(Precision, HoldsForAScope) {
  EXPECT_EQ(tiled::get_float32_precision(), std::nullopt);
  {
    const tiled::Float32Precision scope("tf32");
    EXPECT_EQ(tiled::get_float32_precision(), "tf32");
  }
  EXPECT_EQ(tiled::get_float32_precision(), std::nullopt);
  EXPECT_NE(error_of([] { tiled::set_float32_precision("fp8"); }).find("unknown precision 'fp8'"),
            std::string::npos);
}

TEST(Precision, ScopesOfSeveralThreadsMayInterleave) {
  auto first = std::make_unique<tiled::Float32Precision>("tf32");
  auto second = std::make_unique<tiled::Float32Precision>("tf32");
  std::thread([&] { first.reset(); }).join();
  EXPECT_EQ(tiled::get_float32_precision(), "tf32");
  tiled::set_float32_precision("ieee");
  EXPECT_EQ(tiled::get_float32_precision(), "ieee");
  second.reset();
  EXPECT_EQ(tiled::get_float32_precision(), std::nullopt);
}

TEST(SumOrder, IsAskedForOrHoldsForAScope) {
  const at::Tensor a = at::randn({3, 200}), b = at::randn({200, 5});
  const auto leaf = [&](int64_t begin, int64_t end) {
    return tiled::mm(a.slice(1, begin, end), b.slice(0, begin, end));
  };
  const at::Tensor right = leaf(0, 112) + leaf(112, 200);
  tiled::MmOptions asked;
  asked.sum_order = "tree:64";
  EXPECT_TRUE(at::equal(tiled::mm(a, b, asked), right));
  {
    const tiled::SumOrder scope("tree:64");
    EXPECT_EQ(tiled::get_sum_order(), "tree:64");
    EXPECT_TRUE(at::equal(tiled::mm(a, b), right));
  }
  EXPECT_EQ(tiled::get_sum_order(), "chain");
  EXPECT_NE(error_of([] { tiled::set_sum_order("heap"); }).find("unknown sum_order 'heap'"),
            std::string::npos);
}

TEST(Override, ScopesEndQuietlyWhatIsNotOnAnyMore) {
  const auto is_on = [] {
    tiled::override_counts(/*reset=*/true);
    at::mm(at::ones({2, 2}), at::ones({2, 2}));
    return tiled::override_counts().find("\"tiled\": 1") != std::string::npos;
  };
  for (const std::optional<at::DeviceType> device :
       {std::optional<at::DeviceType>(), std::optional(at::kCPU)}) {
    {
      const tiled::Override scope(device);
      EXPECT_TRUE(is_on());
      tiled::disable_override(device);
      EXPECT_FALSE(is_on());
    }
    EXPECT_FALSE(is_on());
    const std::string refusal = error_of([&] { tiled::disable_override(device); });
    EXPECT_NE(refusal.find("override is not enabled for cpu"), std::string::npos) << refusal;
    {
      const tiled::Override scope(device), inner(device);
      EXPECT_TRUE(is_on());
    }
    EXPECT_FALSE(is_on());
  }
}

// An override that is enabled for both devices is taken back from both or from none.
TEST(Override, DisablesBothDevicesOrNone) {
  if (!at::hasCUDA()) GTEST_SKIP() << "needs a CUDA GPU";
  const tiled::Override cpu(at::kCPU);
  EXPECT_NE(error_of([] { tiled::disable_override(); }).find("not enabled for cuda"),
            std::string::npos);
  tiled::override_counts(/*reset=*/true);
  at::mm(at::ones({2, 2}), at::ones({2, 2}));
  EXPECT_NE(tiled::override_counts().find("\"tiled\": 1"), std::string::npos);
}

TEST(Threads, CallsFromSeveralAtOnceAgree) {
  const at::Tensor a = at::randn({40, 300}), b = at::randn({300, 50});
  const at::Tensor expected = tiled::mm(a, b);
  std::vector<at::Tensor> results(4);
  std::vector<std::thread> threads;
  for (at::Tensor& result : results)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) result = tiled::mm(a, b);
    });
  for (std::thread& thread : threads) thread.join();
  for (const at::Tensor& result : results) EXPECT_TRUE(same_bits(result, expected));
}

TEST_P(Operator, GroupsHaveTheBitsOfMm) {
  const at::Tensor ends = at::tensor({3, 3, 10}, options(at::kInt));
  const at::Tensor rows = normal({12, 16}), weights = normal({3, 16, 24}), bias = normal({3, 24});
  tiled::GroupedOptions asked;
  asked.offs = ends;
  const at::Tensor c = tiled::grouped_mm(rows, weights, asked);
  EXPECT_TRUE(same_bits(c.slice(0, 3, 10), tiled::mm(rows.slice(0, 3, 10), weights[2])));
  EXPECT_FALSE(c.slice(0, 10).any().item<bool>());
  const at::Tensor k = tiled::grouped_mm(rows.t(), c, asked);
  EXPECT_TRUE(same_bits(k[0], tiled::mm(rows.slice(0, 0, 3).t(), c.slice(0, 0, 3))));
  EXPECT_FALSE(k[1].any().item<bool>());
  asked.bias = bias, asked.activation = "relu";
  at::Tensor out = at::empty({12, 24}, options(at::kFloat));
  EXPECT_TRUE(tiled::grouped_mm_out(out, rows, weights, asked).is_same(out));
  const at::Tensor first = rows.slice(0, 0, 3);
  EXPECT_TRUE(
      same_bits(out.slice(0, 0, 3), tiled::addmm(bias[0], first, weights[0], {1, 1, "relu"})));
  const at::Tensor batch = normal({3, 5, 16});
  EXPECT_TRUE(same_bits(tiled::grouped_mm(batch, weights), tiled::bmm(batch, weights)));
  EXPECT_NE(error_of([&] { tiled::grouped_mm(rows, weights); }).find("Have to provide offsets"),
            std::string::npos);
}

TEST_P(Operator, ScalesFp8AndInt8) {
  const at::Tensor a = normal({5, 300}).to(at::kFloat8_e4m3fn);
  const at::Tensor b = normal({7, 300}).to(at::kFloat8_e5m2).t();
  const at::Tensor rows = normal({5, 3}), blocks = normal({3, 1}), bias = normal({7});
  tiled::ScaledOptions asked;
  asked.bias = bias, asked.out_dtype = at::kFloat;
  asked.recipe_a = "BlockWise1x128", asked.recipe_b = "BlockWise128x128";
  const at::Tensor c = tiled::scaled_mm(a, b, rows, blocks, asked);
  const auto spread = [](const at::Tensor& t, int64_t dim) {
    return t.repeat_interleave(128, dim).slice(dim, 0, 300);
  };
  const at::Tensor right =
      at::mm(a.to(at::kDouble) * spread(rows, 1), b.to(at::kDouble) * spread(blocks, 0)) + bias;
  EXPECT_LT((c - right).abs().max().item<double>(), 1e-3);
  at::Tensor out = at::empty({5, 7}, options(at::kFloat));
  EXPECT_TRUE(tiled::scaled_mm_out(out, a, b, rows, blocks, asked).is_same(out));
  EXPECT_TRUE(same_bits(out, c));
  const at::Tensor one = at::ones({1}, options(at::kFloat)),
                   bytes = at::ones({4, 6}, options(at::kChar));
  EXPECT_TRUE(same_bits(tiled::scaled_mm(bytes, bytes.t(), one, one).to(at::kFloat),
                        at::full({4, 4}, 6.f, options(at::kFloat))));
  EXPECT_NE(
      error_of([&] { tiled::scaled_mm(a, b, rows, bias.slice(0, 1)); }).find("Invalid scaling"),
      std::string::npos);
}

TEST(OutOfCore, IsPlannedWithoutAGpu) {
  const at::Tensor a = at::empty({65536, 65536}, at::TensorOptions(at::kMeta));
  tiled::OutOfCoreOptions options;
  options.memory = int64_t{8} << 30;
  const std::string text = tiled::explain_out_of_core(a, a, options, "h200");
  EXPECT_NE(text.find("NVIDIA H200"), std::string::npos) << text;
  EXPECT_NE(text.find("bound by       arithmetic"), std::string::npos) << text;
  EXPECT_NE(error_of([&] { tiled::out_of_core(a, a); }).find("streams CPU tensors"),
            std::string::npos);
}

TEST(OutOfCore, HasTheBitsOfMmAndEndsWithItsProgress) {
  if (!at::hasCUDA()) GTEST_SKIP() << "needs a CUDA GPU";
  const at::Tensor a = at::randn({3000, 2000}), b = at::randn({2000, 3000});
  tiled::OutOfCoreOptions options;
  options.memory = 16 << 20;
  int64_t done = 0;
  options.progress = [&](const tiled::OutOfCoreProgress& p) { done = p.tiles_done; };
  const at::Tensor c = tiled::out_of_core(a, b, options);
  EXPECT_GT(done, 1);
  EXPECT_TRUE(same_bits(c, tiled::mm(a.cuda(), b.cuda()).cpu()));
  at::Tensor out = at::empty({3000, 3000});
  options.progress = [](const tiled::OutOfCoreProgress&) { throw std::logic_error("enough"); };
  EXPECT_THROW(tiled::out_of_core_out(out, a, b, options), std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(Devices, Operator, testing::Values(at::kCPU, at::kCUDA),
                         [](const auto& info) {
                           return c10::DeviceTypeName(info.param, /*lower_case=*/true);
                         });

}  // namespace
