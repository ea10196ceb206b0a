#include "cuda/kernel_resources.h"

#include <iterator>

#include "cuda/tile_info.h"

namespace tiled {
namespace {

constexpr KernelRow TABLE[] = {
#include "kernel_resources_table.inc"
    {"", {0, 0, 0, 0}},  // no kernel's: an array may not be empty
};
constexpr int64_t ROWS = static_cast<int64_t>(std::size(TABLE)) - 1;

// The kernels' element type. Integers are unsigned there: they wrap modulo 2^bits, so int8 and
// uint8 are one.
const char* element_type(DType dtype) {
  switch (dtype) {
    case DType::Float32: return "float";
    case DType::Float64: return "double";
    case DType::Float16: return "__half";
    case DType::BFloat16: return "__nv_bfloat16";
    case DType::Complex64: return "Complex<float>";
    case DType::Complex128: return "Complex<double>";
    case DType::Int8:
    case DType::UInt8: return "unsigned char";
    case DType::Int16: return "unsigned short";
    case DType::Int32: return "unsigned int";
    case DType::Int64: return "unsigned long";
  }
  return "?";
}

}  // namespace

std::string kernel_key(const Problem& problem, const Plan& plan) {
  const std::string type = element_type(problem.dtype);
  switch (plan.algo) {
    case Algo::Naive: return "naive<" + type + ">";
    case Algo::SharedTile8:
    case Algo::SharedTile16:
    case Algo::SharedTile32:
      return "shared_tile<" + type + ", " + std::to_string(plan.block_n) + ">";
    case Algo::RegisterTile:
      return "register_tile<" + type + ", " +
             std::string(tile_info(problem.dtype, plan.tile).name) + ", " +
             std::to_string(static_cast<int>(plan.access_a)) + ", " +
             std::to_string(static_cast<int>(plan.access_b)) + ">";
    case Algo::Blocked: break;  // a CPU rung
  }
  return "";
}

std::optional<KernelResources> kernel_resources(const KernelRow* rows, int64_t count,
                                                std::string_view key, int capability) {
  const KernelRow* found = nullptr;
  for (const KernelRow* row = rows; row != rows + count; ++row) {
    const int built_for = row->resources.capability;
    if (row->key == key && built_for <= capability &&
        (found == nullptr || built_for > found->resources.capability))
      found = row;
  }
  if (found == nullptr) return std::nullopt;
  return found->resources;
}

std::optional<KernelResources> kernel_resources(std::string_view key, int capability) {
  return kernel_resources(TABLE, ROWS, key, capability);
}

bool has_kernel_resources() { return ROWS > 0; }

}  // namespace tiled
