// Tuning and rules files from C++: on a GPU what is measured there, without one the rules of a GPU
// by name.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "error_of.h"
#include "tiled_mm.h"

namespace {

using tiled::test::error_of;

std::optional<std::string> device_with_rules() {
  return at::hasCUDA() ? std::nullopt : std::optional<std::string>("h100");
}

std::string path_of(const char* name) { return testing::TempDir() + "/tiled_mm_" + name; }

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Rules, AreSavedAndLoaded) {
  const std::string path = path_of("saved"), again = path_of("again");
  std::remove(path.c_str()), std::remove(again.c_str());
  tiled::save_rules(path, device_with_rules());
  const std::string text = text_of(path);
  EXPECT_EQ(text.compare(0, 15, "tiled_mm rules "), 0) << text;
  EXPECT_GE(tiled::load_rules(path), 0);
  tiled::save_rules(again, device_with_rules());
  EXPECT_EQ(text_of(again), text);
}

TEST(Rules, OfABadFileAreRefused) {
  const std::string path = path_of("bad"), none = path_of("none");
  std::remove(none.c_str());
  std::ofstream(path) << "notes\n";
  EXPECT_NE(error_of([&] { tiled::load_rules(path); }).find("it is no rules file"),
            std::string::npos);
  EXPECT_NE(error_of([&] { tiled::load_rules(none); }).find("cannot read rules from"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              tiled::save_rules(path, device_with_rules());
            }).find("save_rules would overwrite"),
            std::string::npos);
  EXPECT_EQ(text_of(path), "notes\n");
  EXPECT_NE(error_of([&] { tiled::save_rules(path, "h300"); }).find("unknown device"),
            std::string::npos);
}

TEST(Tuning, OnTheCpuMeasuresNothing) {
  const at::Tensor a = at::randn({33, 65}), b = at::randn({65, 17});
  const at::Tensor expected = tiled::mm(a, b);
  const tiled::Tuning tuning;
  EXPECT_TRUE(at::equal(tiled::mm(a, b), expected));
}

// A block keeps what it measures, which goes to the file and changes no bit.
TEST(Tuning, OnAGpuMeasuresEachClassOnce) {
  if (!at::hasCUDA()) GTEST_SKIP() << "needs a CUDA GPU";
  const at::Tensor a = at::randn({520, 264}, at::kCUDA).to(at::kBFloat16);
  const at::Tensor b = at::randn({264, 136}, at::kCUDA).to(at::kBFloat16);
  const at::Tensor expected = tiled::mm(a, b);
  const std::string path = path_of("tuned");
  std::remove(path.c_str());
  tiled::save_rules(path);
  const int64_t before = tiled::load_rules(path);
  {
    const tiled::Tuning tuning;
    EXPECT_TRUE(at::equal(tiled::mm(a, b), expected));
    EXPECT_TRUE(at::equal(tiled::mm(a, b), expected));
  }
  EXPECT_TRUE(at::equal(tiled::mm(a, b), expected));
  EXPECT_TRUE(at::equal(tiled::mm(b.t(), a.t()), expected.t()));  // a class of its own, not tuned
  tiled::save_rules(path);
  EXPECT_EQ(tiled::load_rules(path), before + 1);
}

}  // namespace
