#include "explain/kernel_resources.h"

#include <iterator>

#include "cuda/plan/fp16x3_layout.h"
#include "cuda/plan/repack_layout.h"
#include "cuda/plan/tile_info.h"

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

// The operands' type of wgmma: fp32 is tf32 there.
std::string wgmma_type(const Problem& problem) {
  return problem.dtype == DType::Float32 ? "ptx::Tf32" : element_type(problem.dtype);
}

std::string major_names(const Side& first, const Side& second) {
  return std::string(is_mn_major(first) ? "1" : "0") + ", " + (is_mn_major(second) ? "1" : "0");
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
      return (plan.async ? "register_tile_async<" : "register_tile<" + type + ", ") +
             std::string(tile_info(problem.dtype, plan).name) + ", " +
             std::to_string(static_cast<int>(plan.access_a)) + ", " +
             std::to_string(static_cast<int>(plan.access_b)) + ">";
    case Algo::MmaTile:
      if (is_fp64_mma(problem, plan))
        return "mma_tile_fp64<" + std::string(tile_info(problem.dtype, plan).name) + ", " +
               major_names(side_a(problem), side_b(problem)) + ">";
      return "mma_tile<" + type + ">";
    case Algo::TmaWgmma:
    case Algo::WarpSpecialized:
      return std::string(name_of(plan.algo)) + "<" + wgmma_type(problem) + ", " +
             major_names(side_a(problem), side_b(problem)) + ">";
    case Algo::Hopper: {
      const Sides sides = sides_read(problem, plan.hopper);
      return "hopper<" + std::string(hopper_tile_name(plan.hopper.tile)) + ", " +
             wgmma_type(problem) + ", " + major_names(sides.p, sides.q) + ">";
    }
    case Algo::Fp16x3: {
      const Sides sides = sides_of(problem, plan.hopper.exchanged);
      if (plan.hopper.tile == FEW_ROWS_INDEX)
        return std::string("fp16x3_few_rows<") + (plan.hopper.exchanged ? "0, " : "1, ") +
               (is_mn_major(sides.p) ? "1>" : "0>");
      if (is_direct(plan.hopper.tile))
        return "fp16x3_direct<" + std::string(fp16x3_tile_name(plan.hopper.tile)) +
               (is_mn_major(sides.p) ? ", 1, " : ", 0, ") + (plan.hopper.exchanged ? "1>" : "0>");
      return "fp16x3<" + std::string(fp16x3_tile_name(plan.hopper.tile)) + ", " +
             major_names(split_planes(sides.p, nullptr), split_planes(sides.q, nullptr)) + ">";
    }
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
