// Calls the operator by name. Including the header is all that this program does with the library.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <tiled_mm.h>

#include <iostream>

int main() {
  const c10::OperatorHandle mm = c10::Dispatcher::singleton().findSchemaOrThrow("tiled::mm", "");
  torch::jit::Stack stack = {at::ones({2, 3}), at::ones({3, 4}), c10::IValue(),
                             c10::IValue(),    c10::IValue(),    c10::IValue()};
  mm.callBoxed(&stack);
  const at::Tensor c = stack.at(0).toTensor();
  if (at::equal(c, at::full({2, 4}, 3.f))) return 0;
  std::cerr << "C is\n" << c << "\n";
  return 1;
}
