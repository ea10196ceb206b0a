// Forward and backward through the functions of tiled_mm.h, on every kind of device that is here;
// and ATen's own functions under Override.
#include <ATen/ATen.h>
#include <tiled_mm.h>

#include <iostream>
#include <string>

static bool equal(const char* what, const at::Tensor& found, const at::Tensor& expected) {
  if (at::equal(found.cpu(), expected)) return true;
  std::cerr << what << " is\n" << found << "\ninstead of\n" << expected << "\n";
  return false;
}

static bool run(at::Device device) {
  const auto tensor = [&](std::vector<float> values) {
    return at::tensor(values).view({2, 2}).to(device).set_requires_grad(true);
  };
  const at::Tensor a = tensor({1, 2, 3, 4});
  const at::Tensor b = tensor({5, 6, 7, 8});
  const at::Tensor c = tiled::mm(a, b);
  c.sum().backward();
  return equal("C", c, at::tensor({19.f, 22.f, 43.f, 50.f}).view({2, 2})) &
         equal("the gradient of A", a.grad(), at::tensor({11.f, 15.f, 11.f, 15.f}).view({2, 2})) &
         equal("the gradient of B", b.grad(), at::tensor({4.f, 4.f, 6.f, 6.f}).view({2, 2}));
}

// ATen's own product inside a scope, and after it.
static bool run_overridden() {
  const at::Tensor a = at::ones({2, 3}), b = at::ones({3, 4});
  at::Tensor c;
  {
    const tiled::Override on(at::kCPU);
    c = at::mm(a, b);
  }
  at::mm(a, b);
  const std::string counts = tiled::override_counts(/*reset=*/true);
  if (counts != R"({"mm": {"tiled": 1, "torch": {"off": 1}}})") {
    std::cerr << "of two products, one inside Override, the counts are " << counts << "\n";
    return false;
  }
  return equal("C under Override", c, at::full({2, 4}, 3.f));
}

int main() {
  bool good = run(at::kCPU) & run_overridden();
  if (WITH_CUDA && at::hasCUDA()) good &= run(at::kCUDA);
  return good ? 0 : 1;
}
