// A report of a plan, as figures, as text and as JSON, and where it finds the registers.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <locale>
#include <string>
#include <utility>
#include <vector>

#include "cuda/engine/mma_tile/tiles.h"
#include "explain/kernel_resources.h"
#include "planned.h"

namespace tiled::test {
namespace {

// M = N = 256, K = 64 in tiles of 128 x 128: A (64 KiB) is read by 2 columns of tiles, B by 2 rows
// of them, C (256 KiB) is written once.
TEST(Report, TrafficByHand) {
  const DeviceInfo d = device("h200");
  const Problem p = problem_of(256, 256, 64, DType::Int32);
  const PlanReport r = report(p, d, plan_of_tile(Algo::RegisterTile, "Tile128x128", p, d));
  EXPECT_EQ(r.tile_bytes, 2 * 65536 + 2 * 65536 + 262144);
  EXPECT_EQ(r.compulsory_bytes, 65536 + 65536 + 262144);
  EXPECT_EQ(r.flops, 2. * 256 * 256 * 64);
  EXPECT_DOUBLE_EQ(r.tile_roofline.intensity, 8388608. / 524288);  // 16 op/byte
  EXPECT_EQ(r.tile_roofline.bound, "compute");                     // above 7
  EXPECT_EQ(r.loads_per_step, 2048);                               // (128 + 128) * 8
  EXPECT_EQ(r.flops_per_step, 262144);                             // 2 * 128 * 128 * 8
  EXPECT_EQ(r.flops_per_load, 128);
  EXPECT_EQ(r.about.thread_m, 8);
  EXPECT_EQ(r.about.thread_n, 8);
  EXPECT_EQ(r.about.tile, "Tile128x128");
  EXPECT_EQ(r.steps, 8);
}

// 33 columns are 3 tiles of 16, so A is read 3 times; 20 rows are 2, so B is read twice. 16-bit
// inputs and an fp32 result.
TEST(Report, TrafficAtTheBorderAndOutDtype) {
  Problem p = problem_of(20, 33, 10, DType::Float16);
  p.epilogue.out_dtype = DType::Float32;
  const PlanReport r = report_of("a100", Algo::SharedTile16, p);
  EXPECT_EQ(r.tile_bytes, 20 * 10 * 3 * 2 + 10 * 33 * 2 * 2 + 20 * 33 * 4);
  EXPECT_EQ(r.compulsory_bytes, 20 * 10 * 2 + 10 * 33 * 2 + 20 * 33 * 4);
}

// An int32 C is four times as large as one of bytes.
TEST(Report, Int32SumsOfBytes) {
  Problem p = problem_of(20, 33, 10, DType::Int8);
  p.epilogue.out_dtype = DType::Int32;
  const PlanReport r = report_of("a100", Algo::SharedTile16, p);
  EXPECT_EQ(r.compulsory_bytes, 20 * 10 + 10 * 33 + 20 * 33 * 4);
  const PlanReport chosen = report_of("a100", Algo::AsyncMma, p);
  EXPECT_NE(to_text(chosen).find("int8 to int32"), std::string::npos);
}

// Expanded operands are as large as their memory: A one number, B one matrix for all 5 entries.
TEST(Report, ExpandedOperandsAreSmall) {
  Problem p = problem_of(8, 8, 8, DType::Float32, 5);
  p.a.row_stride = p.a.col_stride = p.a.batch_stride = 0;
  p.b.batch_stride = 0;
  const PlanReport r = report_of("a100", Algo::SharedTile8, p);
  EXPECT_EQ(r.compulsory_bytes, 4 * (1 + 64 + 5 * 64));
}

TEST(Report, ComplexCountsEightFlops) {
  const PlanReport r =
      report_of("h200", Algo::SharedTile16, problem_of(16, 16, 16, DType::Complex64));
  EXPECT_EQ(r.flops, 8. * 16 * 16 * 16);
  EXPECT_EQ(r.flops_per_load, 64);
}

// 132 multiprocessors; 8 blocks of 256 threads each, were it not for registers, hold 1,056 blocks.
// 1584 = 1.5 waves: the second is half full.
TEST(Report, Waves) {
  DeviceInfo d = device("h200");
  d.capability = 10;  // no kernel: registers are not known and do not limit
  const Problem p = problem_of(16 * 1584, 16, 16);
  const PlanReport r = report(p, d, make_plan(p, d, Algo::SharedTile16));
  EXPECT_EQ(r.blocks, 1584);
  EXPECT_EQ(r.occupancy.blocks_per_sm, 8);
  EXPECT_DOUBLE_EQ(r.waves, 1.5);
  EXPECT_DOUBLE_EQ(r.last_wave, 0.5);
}

TEST(Report, AFullWaveIsFull) {
  DeviceInfo d = device("h200");
  d.capability = 10;
  const Problem p = problem_of(16 * 1056, 16, 16);
  EXPECT_DOUBLE_EQ(report(p, d, make_plan(p, d, Algo::SharedTile16)).last_wave, 1);
}

// A default 16-bit product runs the fma arithmetic there, and both reports say why.
TEST(Report, SaysWhatTheBuildLeavesOut) {
  DeviceInfo d = device("h200");
  const Problem p = problem_of(64, 64, 64, DType::BFloat16);
  const PlanReport all = report(p, d, make_plan(p, d));
  EXPECT_EQ(to_text(all).find(HOPPER_LEFT_OUT), std::string::npos);
  EXPECT_NE(to_json(all).find("\"left_out\": null"), std::string::npos);
  leave_out_hopper_kernels(d);
  const PlanReport some = report(p, d, make_plan(p, d));
  EXPECT_NE(to_text(some).find(HOPPER_LEFT_OUT), std::string::npos);
  EXPECT_NE(to_json(some).find(std::string("\"left_out\": \"") + HOPPER_LEFT_OUT),
            std::string::npos);
}

// Each wider tile reads less, and none less than every byte once.
TEST(Report, TrafficFallsWithTheTile) {
  const Problem p = problem_of(4096, 4096, 4096);
  double before = std::numeric_limits<double>::infinity();
  for (Algo algo : {Algo::Naive, Algo::SharedTile8, Algo::SharedTile16, Algo::SharedTile32,
                    Algo::RegisterTile}) {
    const PlanReport r = report_of("h200", algo, p);
    EXPECT_LT(r.tile_bytes, before) << name_of(algo);
    EXPECT_GT(r.tile_bytes, r.compulsory_bytes) << name_of(algo);
    EXPECT_GE(r.tile_roofline.seconds_bound, r.compulsory_roofline.seconds_bound) << name_of(algo);
    before = r.tile_bytes;
  }
}

TEST(Report, Hopper) {
  const Problem p = tensor_problem("nn", 4096, 4096, 4096);
  const PlanReport r = report_of("h200", Algo::Hopper, p);
  EXPECT_EQ(r.about.tile, hopper_tile_name(hopper_of(r.plan).tile));
  EXPECT_EQ(r.peak_flops, r.device.tensor_flops);
  EXPECT_EQ(r.flops, 2. * 4096 * 4096 * 4096);
  EXPECT_EQ(r.steps, 64);
  EXPECT_EQ(r.blocks, hopper_of(r.plan).blocks);
  EXPECT_GE(r.occupancy.blocks_per_sm, 1);
  EXPECT_NE(to_text(r).find("hopper on NVIDIA H200"), std::string::npos);
}

// The plan's own first, then the others by their estimates: of all rungs that may be chosen, or of
// the one that runs by its name alone.
TEST(Report, ListsEveryWay) {
  const DeviceInfo d = device("h200");
  const Problem p = tensor_problem("nn", 512, 768, 1024);
  size_t count = 0;
  for (const Rung* rung : ladder())
    if (rung->use == Use::Chosen) count += plans_of(rung->algo, p, d).size();
  for (const Algo algo : supported_algos(p, d)) {
    const PlanReport r = report_of("h200", algo, p);
    EXPECT_EQ(r.ways.size(), rung_of(algo)->use == Use::Chosen ? count : 1) << name_of(algo);
    EXPECT_EQ(r.ways[0].plan.algo, algo);
    EXPECT_TRUE(name_of_way(p, r.ways[0].plan) == name_of_way(p, r.plan));
    for (size_t i = 2; i < r.ways.size(); ++i) EXPECT_LE(r.ways[i - 1].seconds, r.ways[i].seconds);
    const std::string text = to_text(r), all = to_text(r, /*verbose=*/true);
    const auto lines = [](const std::string& x) { return std::count(x.begin(), x.end(), '\n'); };
    const std::string head = "Chosen of " + std::to_string(r.ways.size()) +
                             (r.ways.size() == 1 ? " way" : " ways") + ", by estimated times\n";
    EXPECT_NE(text.find(head), std::string::npos) << text;
    EXPECT_NE(text.find(" <- chosen\n"), std::string::npos) << text;
    // All of them stand where four and a line that counts the others do else.
    const size_t others = r.ways.size() - std::min<size_t>(r.ways.size(), 4);
    EXPECT_EQ(static_cast<size_t>(lines(all) - lines(text)), others == 0 ? 0 : others - 1);
    EXPECT_NE(to_json(r).find("\"ways\": [{\"algo\": \"" + std::string(name_of(algo))),
              std::string::npos);
  }
}

// A consumer's accumulators are all its thread's: the tile is theirs, without a rest.
TEST(Report, TensorRungsOwnTheirTile) {
  for (DType dtype : TENSOR_DTYPES)
    for (Algo algo : tensor_algos()) {
      const PlanReport r = report_of("h200", algo, tensor_problem("nt", 512, 512, 512, dtype));
      const int64_t tile = int64_t{r.plan.block_m} * r.plan.block_n;
      const int64_t owned = int64_t{r.about.thread_m} * r.about.thread_n;
      EXPECT_EQ(tile % owned, 0) << name_of(algo);
      EXPECT_LE(tile / owned, r.threads) << name_of(algo);
      // A rung's own keys are in its own plans alone.
      EXPECT_EQ(to_json(r).find("\"hopper\": {") != std::string::npos, algo == Algo::Hopper);
    }
}

TEST(Report, Fp16x3) {
  const Problem p = parts_problem("nn", 4096, 4096, 4096);
  const DeviceInfo d = device("h200");
  const PlanReport r = report(p, d, plan_of_tile(Algo::Fp16x3, "X3Tile128x128", p, d));
  EXPECT_EQ(r.about.tile, "X3Tile128x128");
  EXPECT_DOUBLE_EQ(r.peak_flops, r.device.tensor_flops / 3);
  EXPECT_EQ(r.flops, 2. * 4096 * 4096 * 4096);
  EXPECT_EQ(r.steps, 64);
  // A thread of a consumer has two rows and a quarter of the columns.
  const int consumers = r.threads / 128 - 1;
  EXPECT_EQ(r.about.thread_m * r.about.thread_n * 128 * consumers, r.plan.block_m * r.plan.block_n);
  const std::string text = to_text(r);
  for (const char* part :
       {"fp16x3 on NVIDIA H200", "fp16x3<X3Tile128x128, ",
        "split       A and B into two planes of fp16, with", "for every 64 of K",
        "guard       elements whose parts lost more than 2.4e-05 of them", "workspace   1"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST(Report, Fp16x3OfFewRows) {
  const auto expect = [](int64_t m, int64_t n, std::initializer_list<const char*> parts) {
    const DeviceInfo d = device("h200");
    const Problem p = parts_problem("nt", m, n, 4096);
    std::vector<Plan> plans = plans_of(Algo::Fp16x3, p, d);
    const auto few = std::find_if(plans.begin(), plans.end(), [](const Plan& plan) {
      return tile_name_of(fp16x3_of(plan)) == "FewRows512";
    });
    ASSERT_NE(few, plans.end());
    const PlanReport r = report(p, d, *few);
    const std::string text = to_text(r);
    for (const char* part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  };
  expect(16, 4096,
         {"split       A into two planes of fp16, B on its way", "fp16x3_few_rows<0, 0, 0>"});
  expect(4096, 16,
         {"split       B into two planes of fp16, A on its way", "fp16x3_few_rows<1, 0, 0>"});
}

TEST(Report, Fp16x3OfAShortK) {
  const std::string text =
      to_text(report_of("h200", Algo::Fp16x3, parts_problem("nn", 500, 400, 63)));
  EXPECT_NE(text.find("guard       computes all elements in fp64, since K is below 64"),
            std::string::npos)
      << text;
  for (const char* part : {"split", "product", "workspace"})
    EXPECT_EQ(text.find(part), std::string::npos) << part << "\nis in\n" << text;
}

TEST(Report, TextSaysWhatLimits) {
  const std::string text = to_text(report_of("g80", Algo::SharedTile16, problem_of(512, 512, 512)));
  for (const char* part :
       {"shared_tile_16 on GeForce 8800 GTX", "3 blocks: 768 of 768 threads, occupancy 100 %",
        "8,192 flops, 16.0 for each element loaded", "512 elements", "1,536 loads",
        "memory 86.4 GB/s", "registers: not known ("})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  // The mark stands on the line of the threads, and on no other.
  const size_t mark = text.find("<- limit");
  ASSERT_NE(mark, std::string::npos);
  EXPECT_EQ(text.find("<- limit", mark + 1), std::string::npos);
  EXPECT_EQ(text.substr(text.rfind('\n', mark) + 1, 9), "  threads");
}

// ---- registers ------------------------------------------------------------------------------

TEST(Registers, KeysAreTheKernelsNames) {
  const DeviceInfo d = device("h200");
  const auto key = [&](Algo algo, DType dtype, const char* tile = nullptr) {
    const Problem p = problem_of("tn", 4096, 4096, 4096, dtype);
    return report(p, d, tile ? plan_of_tile(algo, tile, p, d) : make_plan(p, d, algo)).about.kernel;
  };
  EXPECT_EQ(key(Algo::Naive, DType::Float16), "naive<__half>");
  EXPECT_EQ(key(Algo::SharedTile8, DType::BFloat16), "shared_tile<__nv_bfloat16, 8>");
  EXPECT_EQ(key(Algo::SharedTile32, DType::Int64), "shared_tile<unsigned long, 32>");
  EXPECT_EQ(key(Algo::RegisterTile, DType::Float16, "Tile128x128"),
            "register_tile<__half, Tile128x128, 1, 1>");
  EXPECT_EQ(key(Algo::RegisterTile, DType::Float32, "AsyncTile128x128"),
            "register_tile_async<AsyncTile128x128, 1, 1, 0>");
  EXPECT_EQ(key(Algo::RegisterTile, DType::Complex64, "Tile64x64WideComplex"),
            "register_tile<Complex<float>, Tile64x64WideComplex, 2, 2>");
  EXPECT_EQ(key(Algo::Naive, DType::Int8), key(Algo::Naive, DType::UInt8));
}

// Signs matter to a sum of bytes that C keeps whole, and to no other.
TEST(Registers, KeysOfBytes) {
  const DeviceInfo d = device("h200");
  const auto keys = [&](Algo algo, DType dtype, DType out) {
    Problem p = problem_of("nt", 512, 512, 512, dtype);
    p.epilogue.out_dtype = out;
    std::vector<std::string> found;
    for (const Plan& plan : plans_of(algo, p, d))
      found.push_back(rung_of(algo)->describe(p, d, plan).kernel);
    return found;
  };
  constexpr DType I8 = DType::Int8, U8 = DType::UInt8, I32 = DType::Int32;
  for (const Algo algo : {Algo::Naive, Algo::SharedTile16, Algo::RegisterTile, Algo::AsyncMma}) {
    const std::vector<std::string> whole = keys(algo, U8, U8), with_sign = keys(algo, I8, I32);
    ASSERT_EQ(with_sign.size(), whole.size());
    EXPECT_EQ(keys(algo, I8, I8), whole);
    EXPECT_EQ(keys(algo, U8, I32), whole);
    for (size_t i = 0; i < whole.size(); ++i) {
      std::string expected = whole[i];
      ASSERT_NE(expected.find("unsigned char"), std::string::npos) << expected;
      expected.replace(expected.find("unsigned char"), 13, "signed char");
      EXPECT_EQ(with_sign[i], expected);
    }
  }
  EXPECT_EQ(keys(Algo::Naive, I8, I32), std::vector<std::string>{"naive<signed char>"});
}

TEST(Registers, KeysOfTensorRungs) {
  const DeviceInfo d = device("h200");
  const auto key = [&](Algo algo, const char* layout, DType dtype, int64_t k = 4096) {
    const Problem p = tensor_problem(layout, 4096, 4096, k, dtype);
    return report(p, d, make_plan(p, d, algo)).about.kernel;
  };
  EXPECT_EQ(key(Algo::MmaTile, "nn", DType::Float32), "mma_tile<MmaTile64x64, float>");
  EXPECT_EQ(key(Algo::MmaTile, "nn", DType::Float16), "mma_tile<MmaTile64x64, __half>");
  EXPECT_EQ(key(Algo::TmaWgmma, "nt", DType::BFloat16), "tma_wgmma<__nv_bfloat16, 0, 0>");
  EXPECT_EQ(key(Algo::TmaWgmma, "tn", DType::BFloat16), "tma_wgmma<__nv_bfloat16, 1, 1>");
  EXPECT_EQ(key(Algo::WarpSpecialized, "nt", DType::Float32), "warp_specialized<ptx::Tf32, 0, 0>");
  // Without an epilogue. Of tf32 the first operand may be contiguous along m or n; the second is
  // copied to be contiguous along K.
  const auto expect = [&](const char* layout, DType dtype, const std::string& arguments) {
    const Problem p = tensor_problem(layout, 512, 512, 512, dtype);
    int found = 0;
    for (const Plan& plan : plans_of(Algo::Hopper, p, d)) {
      const bool reads_any = dtype != DType::Float32 || !copies_p(hopper_of(plan));
      if (hopper_of(plan).swap_ab || !reads_any) continue;
      const std::string kernel = rung_of(Algo::Hopper)->describe(p, d, plan).kernel;
      EXPECT_NE(kernel.find(arguments), std::string::npos) << kernel;
      ++found;
    }
    EXPECT_GT(found, 0);
  };
  for (const std::string layout : {"nn", "nt", "tn", "tt"})
    expect(layout.c_str(), DType::Float32,
           ", ptx::Tf32, " + std::string(layout[0] == 't' ? "1" : "0") + ", 0, 0>");
  expect("tn", DType::Float16, ", __half, 1, 1, 0>");
}

TEST(Registers, KeysOfFp64) {
  const DeviceInfo d = device("h200");
  const auto key = [&](const char* layout, const char* tile) {
    const Problem p = problem_of(layout, 2000, 2000, 2000, DType::Float64);
    return report(p, d, plan_of_tile(Algo::MmaTile, tile, p, d)).about.kernel;
  };
  EXPECT_EQ(key("nn", "Fp64Tile128x128"), "mma_tile_fp64<Fp64Tile128x128, 0, 1>");
  EXPECT_EQ(key("tt", "Fp64Tile128x128 cut"), "mma_tile_fp64_stream_k<Fp64Tile128x128, 1, 0>");
  EXPECT_EQ(key("nt", "Fp64Tile64x64"), "mma_tile_fp64<Fp64Tile64x64, 0, 0>");
  EXPECT_EQ(key("tn", "Fp64Tile32x64"), "mma_tile_fp64<Fp64Tile32x64, 1, 1>");
}

TEST(Registers, KeysOfFp16x3) {
  const DeviceInfo d = device("h200");
  const auto key = [&](const char* layout, bool swap_ab) {
    const Problem p = parts_problem(layout, 4096, 4096, 4096);
    Fp16x3Plan way = fp16x3_of(plan_of_tile(Algo::Fp16x3, "X3Tile128x128", p, d));
    way.swap_ab = swap_ab;
    return report(p, d, plan_with(Algo::Fp16x3, p, d, way)).about.kernel;
  };
  // The planes have the operands' layouts; the second is B's transpose.
  EXPECT_EQ(key("nn", false), "fp16x3<X3Tile128x128, 0, 1>");
  EXPECT_EQ(key("nt", false), "fp16x3<X3Tile128x128, 0, 0>");
  EXPECT_EQ(key("tn", false), "fp16x3<X3Tile128x128, 1, 1>");
  EXPECT_EQ(key("nn", true), "fp16x3<X3Tile128x128, 1, 0>");
}

TEST(Registers, TheNewestCodeThatTheDeviceRuns) {
  const KernelRow rows[] = {{"naive<float>", {75, 20, 0, 0}},
                            {"naive<float>", {90, 24, 0, 0}},
                            {"naive<float>", {80, 22, 0, 0}},
                            {"naive<double>", {120, 99, 0, 0}}};
  EXPECT_FALSE(kernel_resources(rows, 4, "naive<float>", 70));
  EXPECT_EQ(kernel_resources(rows, 4, "naive<float>", 75)->registers, 20);
  EXPECT_EQ(kernel_resources(rows, 4, "naive<float>", 86)->registers, 22);
  EXPECT_EQ(kernel_resources(rows, 4, "naive<float>", 90)->registers, 24);
  EXPECT_EQ(kernel_resources(rows, 4, "naive<float>", 120)->capability, 90);
  EXPECT_FALSE(kernel_resources(rows, 4, "naive<int>", 90));
}

// Every kernel that the planner can ask for on a Hopper device stands in the table, with the shared
// memory that the plan says.
TEST(Registers, EveryPlanHasItsRow) {
  const DeviceInfo d = device("h200");
  if (!has_kernel_resources()) GTEST_SKIP() << "built without CUDA: no kernel has a row";
  if (!kernel_resources("naive<float>", d.capability))
    GTEST_SKIP() << "built for newer devices only: no kernel has a row for 9.0";
  for (DType dtype : ALL_DTYPES)
    for (Algo algo : CUDA_ALGOS)
      for (const std::string layout : {"nn", "nt", "tn", "tt"})
        for (int64_t size : {64, 65, 4096}) {
          const Problem p = problem_of(layout, size, size, size, dtype);
          const PlanReport r = report(p, d, make_plan(p, d, algo));
          ASSERT_TRUE(r.resources) << r.about.kernel;
          EXPECT_EQ(r.resources->shared_bytes, r.plan.main_step().shared_bytes) << r.about.kernel;
          EXPECT_GT(r.resources->registers, 0) << r.about.kernel;
          EXPECT_GE(r.occupancy.blocks_per_sm, 1) << r.about.kernel;
        }
}

TEST(Registers, EveryPlanOfFp64HasItsRow) {
  const DeviceInfo d = device("h200");
  if (!kernel_resources("mma_tile<MmaTile64x64, float>", d.capability))
    GTEST_SKIP() << "built without CUDA, or not for 9.0: no kernel has a row";
  for (const std::string layout : {"nn", "nt", "tn", "tt"})
    for (int64_t size : {64, 1024, 4096}) {
      const Problem p = problem_of(layout, size, size, size, DType::Float64);
      const Plan plan = make_plan(p, d, Algo::MmaTile);
      const PlanReport r = report(p, d, plan);
      ASSERT_TRUE(r.resources) << r.about.kernel;
      const bool is_medium = fp64_tile_of(plan) == "Fp64Tile64x64";
      EXPECT_GE(r.occupancy.blocks_per_sm, is_medium ? Fp64Tile64x64::BLOCKS_PER_SM : 1)
          << r.about.kernel;
      EXPECT_EQ(r.about.thread_m * r.about.thread_n * r.threads, plan.block_m * plan.block_n)
          << r.about.kernel;
      EXPECT_EQ(r.peak_flops, d.fp64_tensor_flops);
    }
}

// Theirs is given at the launch, but for mma_tile's.
TEST(Registers, EveryTensorPlanHasItsRow) {
  const DeviceInfo d = device("h200");
  if (!kernel_resources("mma_tile<MmaTile64x64, float>", d.capability))
    GTEST_SKIP() << "built without CUDA, or not for 9.0: no kernel has a row";
  for (DType dtype : TENSOR_DTYPES)
    for (const std::string layout : {"nn", "nt", "tn", "tt"})
      for (int64_t size : {64, 65, 4096}) {
        const Problem p = tensor_problem(layout, size, size, size, dtype);
        std::vector<Plan> plans;
        for (Algo algo : supported_algos(p, d))
          for (const Plan& plan : plans_of(algo, p, d)) plans.push_back(plan);
        for (const Plan& plan : plans) {
          const PlanReport r = report(p, d, plan);
          ASSERT_TRUE(r.resources) << r.about.kernel;
          EXPECT_GT(r.resources->registers, 0) << r.about.kernel;
          if (plan.algo == Algo::MmaTile) {
            EXPECT_EQ(r.resources->shared_bytes, plan.main_step().shared_bytes);
          }
          const int64_t wanted =
              plan.algo == Algo::Hopper ? hopper_tile(hopper_of(plan).tile).blocks_per_sm : 1;
          EXPECT_GE(r.occupancy.blocks_per_sm, wanted) << r.about.kernel;
        }
      }
}

TEST(Registers, EveryPlanOfFp16x3HasItsRow) {
  const DeviceInfo d = device("h200");
  if (!kernel_resources("mma_tile<MmaTile64x64, float>", d.capability))
    GTEST_SKIP() << "built without CUDA, or not for 9.0: no kernel has a row";
  for (const std::string layout : {"nn", "nt", "tn", "tt"})
    for (int64_t size : {65, 300, 4096}) {
      const Problem p = parts_problem(layout, size, size, size);
      std::vector<std::pair<Problem, Fp16x3Plan>> ways;
      for (const Fp16x3Plan& way : fp16x3_plans(p, d)) ways.emplace_back(p, way);
      for (const Problem& few :
           {parts_problem(layout, 3, size, size), parts_problem(layout, size, 3, size)})
        for (const Plan& plan : plans_of(Algo::Fp16x3, few, d))
          ways.emplace_back(few, fp16x3_of(plan));
      for (const auto& [problem, way] : ways) {
        const PlanReport r = report(problem, d, plan_with(Algo::Fp16x3, problem, d, way));
        ASSERT_TRUE(r.resources) << r.about.kernel;
        EXPECT_GT(r.resources->registers, 0) << r.about.kernel;
        // All sets of accumulators are in registers; by mma.sync an address is not.
        const int stack = way.kernel == Fp16x3Kernel::Async ? 8 : 0;
        if (way.kernel != Fp16x3Kernel::FewRows) {
          EXPECT_LE(r.resources->stack_bytes, stack) << r.about.kernel;
        }
        EXPECT_GE(r.occupancy.blocks_per_sm, tile_of(way).blocks_per_sm) << r.about.kernel;
      }
    }
}

// ---- JSON -----------------------------------------------------------------------------------

// That it is JSON at all is seen by python_tests/test_explain.py, which reads every plan.

TEST(Json, Fp16x3) {
  const DeviceInfo d = device("h200");
  for (const int64_t size : {0, 1, 64, 65, 5000}) {
    const Problem p = parts_problem("tn", size, size, size);
    for (const Plan& plan : plans_of(Algo::Fp16x3, p, d)) {
      const std::string json = to_json(report(p, d, plan));
      const std::string tile = "\"name\": \"" + std::string(tile_name_of(fp16x3_of(plan))) + '"';
      for (const char* part : {"\"algo\": \"fp16x3\"", "\"arithmetic\": \"fp16x3\"", tile.c_str()})
        EXPECT_NE(json.find(part), std::string::npos) << part << "\nis not in\n" << json;
    }
  }
}

TEST(Json, SaysWhatHopperDoes) {
  Problem p = tensor_problem("nn", 4096, 4096, 4096);
  const auto expect = [&](const char* name, Algo algo, std::initializer_list<const char*> parts) {
    const std::string json = to_json(report_of(name, algo, p));
    for (const char* part : parts)
      EXPECT_NE(json.find(part), std::string::npos) << part << "\nis not in\n" << json;
  };
  expect("h200", Algo::Hopper,
         {"\"algo\": \"hopper\"", "\"arithmetic\": \"tensor\"", "\"workspace_bytes\": 0",
          "\"repack_a\": false", "\"store\": \"tma\"", "\"ways\": [{\"algo\": "});
  expect("h200", Algo::TmaWgmma, {"\"arithmetic\": \"tensor\""});
  p.a.alignment = 2;
  expect("h200", Algo::Hopper,
         {"\"repack_a\": true", "\"repack_b\": false", "\"workspace_bytes\": 33554432"});
  p = tensor_problem("nt", 4096, 4096, 4096, DType::Float32);
  expect("h200", Algo::Hopper, {"\"arithmetic\": \"tf32\"", "\"store\": \"tma\""});
  p.arithmetic = Arithmetic::Fma;
  expect("h200", Algo::RegisterTile, {"\"arithmetic\": \"fma\""});
}

TEST(Json, SaysWhatIsTransposed) {
  const DeviceInfo d = device("h200");
  const Problem p = problem_of(4096, 4096, 4096);
  const std::vector<Plan> plans = plans_of(Algo::RegisterTile, p, d);
  const auto whole = std::find_if(plans.begin(), plans.end(), [](const Plan& plan) {
    return register_of(plan).transpose_a && !plan.demand.stream_k;
  });
  ASSERT_NE(whole, plans.end());
  const PlanReport r = report(p, d, *whole);
  const std::string json = to_json(r);
  for (const char* part :
       {"\"access\": {\"a\": \"along_mn\", \"b\": \"along_mn\"}",
        "\"transposes\": {\"a\": true, \"b\": false}", "\"workspace_bytes\": 67108864"})
    EXPECT_NE(json.find(part), std::string::npos) << part << "\nis not in\n" << json;
  EXPECT_NE(to_text(r).find("transposes  A first, to be contiguous along m"), std::string::npos);
}

TEST(Json, SaysWhatTheReportSays) {
  const PlanReport r = report_of("g80", Algo::SharedTile16, problem_of(512, 512, 512));
  const std::string json = to_json(r);
  for (const char* part :
       {"\"algo\": \"shared_tile_16\"", "\"limit\": \"threads\"", "\"by_registers\": null",
        "\"registers\": null", "\"loads\": 512", "\"flops\": 8192", "\"shared_bytes\": 2048",
        "\"memory_bandwidth\": 86400000000"})
    EXPECT_NE(json.find(part), std::string::npos) << part << "\nis not in\n" << json;
}

TEST(Json, Roofline) {
  // 150 GB in one second, and half as many flops.
  EXPECT_EQ(to_json(roofline(device("fermi"), 150e9, 75e9, 1e12)),
            "{\"intensity\": 0.5, \"flops_bound\": 75000000000, \"seconds_bound\": 1, "
            "\"bound\": \"memory\"}");
}

TEST(Json, NamesAreEscaped) {
  PlanReport r = report_of("h200", Algo::Naive, problem_of(8, 8, 8));
  r.device.name = "a \"quoted\" \\ name\n";
  EXPECT_NE(to_json(r).find(R"("a \"quoted\" \\ name ")"), std::string::npos) << to_json(r);
}

// A program whose locale writes 1.234,5 still gets JSON.
TEST(Json, DoesNotFollowTheLocale) {
  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const PlanReport r = report_of("g80", Algo::SharedTile16, problem_of(5000, 5000, 5000));
  const std::string json = to_json(r), text = to_text(r);
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Comma));
  const std::string json_there = to_json(r), text_there = to_text(r);
  std::locale::global(before);
  EXPECT_EQ(json_there, json);
  EXPECT_EQ(text_there, text);
}

}  // namespace
}  // namespace tiled::test
