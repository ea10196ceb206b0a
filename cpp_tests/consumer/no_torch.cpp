// Names functions of the library alone, and none of torch's.
#include <tiled_mm.h>

#include <iostream>

int main() {
  const tiled::Float32Precision tf32("tf32");
  const std::string counts = tiled::override_counts();
  if (tiled::get_float32_precision() == "tf32" && counts == "{}") return 0;
  std::cerr << "the precision or the counts are wrong: " << counts << "\n";
  return 1;
}
