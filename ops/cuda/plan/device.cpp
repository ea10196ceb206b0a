// The table of compute capabilities and chips, and the arithmetic of occupancy and roofline.
#include "cuda/plan/device.h"

#include <algorithm>
#include <limits>

#include "cuda/plan/kernels_of.h"

namespace tiled {
namespace {

// The compute capability alone decides these. Multiply-adds per clock of one multiprocessor and
// allocation units: CUDA C++ Programming Guide, "Arithmetic Instructions" and "Compute
// Capabilities" (editions 2.3, 8.0 and 13), and the occupancy calculators of the same toolkits.
// Only the named devices and those that the kernels are built for have a row. The integer rate of
// 1.x is that of the sequence of 24-bit multiplications; from 10.0 on it is taken to be 9.0's.
// Tensor cores, 16 bits with fp32 sums: the T4's data sheet and the white papers of GA100, GA102,
// AD102, GH100 and GB202. Those of 10.x the kernels here reach by mma.sync alone, for which no rate
// is published: 8.0's is assumed.
struct Architecture {
  int capability;
  int register_granularity;
  int register_partitions;
  int64_t shared_granularity;  // bytes
  int fp32, fp64, int32;       // multiply-adds per clock and multiprocessor
  int tensor = 0;       // the same of 16-bit tensor-core products, where kernels here use them,
  int fp64_tensor = 0;  // and of fp64 ones
};

constexpr Architecture ARCHITECTURES[] = {
    {10, 0, 1, 512, 8, 0, 2},             // the register file is taught as threads * registers
    {13, 0, 1, 512, 8, 1, 2},             // GT200
    {20, 64, 2, 128, 32, 16, 16},         // Fermi
    {35, 256, 4, 256, 192, 64, 32},       // Kepler
    {75, 256, 4, 256, 64, 2, 64, 512},    // Turing
    {80, 256, 4, 128, 64, 32, 64, 1024},  // Ampere: GA100
    {86, 256, 4, 128, 128, 2, 64, 512},   // and GA102
    {89, 256, 4, 128, 128, 2, 64, 512},   // Ada
    {90, 256, 4, 128, 128, 64, 64, 2048, 128},  // Hopper
    {100, 256, 4, 128, 128, 64, 64, 1024},      // Blackwell: GB100
    {103, 256, 4, 128, 128, 2, 64, 1024},       // GB300
    {120, 256, 4, 128, 128, 2, 64, 512},        // and GB202
};

// The newest architecture that is not newer than the capability.
const Architecture& architecture_of(int capability) {
  const Architecture* found = &ARCHITECTURES[0];
  for (const Architecture& architecture : ARCHITECTURES)
    if (architecture.capability <= capability) found = &architecture;
  return *found;
}

// The chips of a capability have these each for itself, by the beginning of the name that their
// driver gives them; the first row that fits stands.
struct Chip {
  std::string_view name;
  // Multiply-adds per clock and multiprocessor; 0: as the capability has them. H20's data sheet
  // gives 148 TF/s of 16 bits, a quarter of 9.0's rate at 1.85 GHz, and 1 TF/s of fp64 in all.
  // GeForce cards have half of their chips' rate where sums are fp32, but all of it for bytes
  // (white papers of GA102, AD102 and GB202).
  int tensor = 0, fp64 = 0, fp64_tensor = 0;
  int bytes = 0;  // 0: twice that of 16 bits
};

constexpr Chip CHIPS[] = {
    {"NVIDIA H200"},  // which begins as the next does
    {"NVIDIA H20", 512, 4, 4},
    {"NVIDIA GeForce RTX", 256, 0, 0, 1024},
};

// By the driver's name of the device; null where its capability says all.
const Chip* chip_of(std::string_view name) {
  for (const Chip& chip : CHIPS)
    if (name.substr(0, chip.name.size()) == chip.name) return &chip;
  return nullptr;
}

// flop/s of 8-bit integers on tensor cores, whose sums are 32-bit integers: a chip that is slow
// where sums are fp32 is not so here. 0: no kernel here uses them.
double byte_tensor_flops(const DeviceInfo& device) {
  if (kernels_of(device).mma != Mma::All) return 0;
  const Chip* chip = chip_of(device.name);
  if (chip == nullptr || chip->bytes == 0) return 2 * device.tensor_flops;
  return 2.0 * device.all_multiprocessors() * device.clock_hz * chip->bytes;
}

template <typename Int>
Int round_up(Int value, Int unit) {
  return (value + unit - 1) / unit * unit;
}

// Blocks that the register file alone allows; -1 if the kernel's registers are not known.
int blocks_by_registers(const DeviceInfo& device, const BlockResources& block, int warps) {
  if (block.registers_per_thread == 0) return -1;
  if (device.register_granularity == 0)
    return device.registers_per_sm / (block.registers_per_thread * block.threads);
  // A warp's registers are rounded up and stay inside one partition of the register file.
  const int per_warp =
      round_up(block.registers_per_thread * WARP_SIZE, device.register_granularity);
  const int warps_per_partition = device.registers_per_sm / device.register_partitions / per_warp;
  return warps_per_partition * device.register_partitions / warps;
}

// Blocks that shared memory alone allows; -1 if a block takes none of it.
int blocks_by_shared(const DeviceInfo& device, const BlockResources& block) {
  if (block.shared_bytes > device.shared_bytes_per_block) return 0;
  const int64_t taken =
      round_up(block.shared_bytes + device.shared_bytes_reserved, device.shared_granularity);
  return taken == 0 ? -1 : static_cast<int>(device.shared_bytes_per_sm / taken);
}

}  // namespace

void set_architecture(DeviceInfo& device, double clock_hz) {
  Architecture architecture = architecture_of(device.capability);
  if (const Chip* chip = chip_of(device.name)) {
    if (chip->tensor != 0) architecture.tensor = chip->tensor;
    if (chip->fp64 != 0) architecture.fp64 = chip->fp64;
    if (chip->fp64_tensor != 0) architecture.fp64_tensor = chip->fp64_tensor;
  }
  device.clock_hz = clock_hz;
  device.register_granularity = architecture.register_granularity;
  device.register_partitions = architecture.register_partitions;
  device.shared_granularity = architecture.shared_granularity;
  const double multiprocessor_flops = 2.0 * device.multiprocessors * clock_hz;
  device.fp32_flops = architecture.fp32 * multiprocessor_flops;
  device.fp64_flops = architecture.fp64 * multiprocessor_flops;
  device.int32_ops = architecture.int32 * multiprocessor_flops;
  // The rates of what no kernel here uses are none.
  const Kernels kernels = generation_of(device.capability).kernels;
  device.hopper_kernels = kernels.hopper;
  device.tensor_flops = kernels.mma != Mma::None ? architecture.tensor * multiprocessor_flops : 0;
  device.fp64_tensor_flops = kernels.hopper ? architecture.fp64_tensor * multiprocessor_flops : 0;
}

DeviceInfo leaving_free(DeviceInfo device, int multiprocessors) {
  const int all = device.all_multiprocessors();
  device.left_free = std::clamp(multiprocessors, 0, all - 1);
  device.multiprocessors = all - device.left_free;
  return device;
}

double peak_flops(const DeviceInfo& device, DType dtype) {
  const bool wide = accumulator_bytes(dtype) == (is_complex(dtype) ? 16 : 8);  // 64 bits a part
  if (size_of(dtype) == 1) return std::max(device.int32_ops, byte_tensor_flops(device));
  if (is_integer(dtype))
    return wide ? device.int32_ops / 3 : device.int32_ops;  // low * low, and twice low * high
  if (!wide) return device.fp32_flops;
  return is_complex(dtype) ? device.fp64_flops
                           : std::max(device.fp64_flops, device.fp64_tensor_flops);
}

double peak_flops(const DeviceInfo& device, DType dtype, Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::Fma:
    case Arithmetic::Cpu16: break;
    case Arithmetic::Tensor: return device.tensor_flops;
    case Arithmetic::Tf32: return device.tensor_flops / 2;
    case Arithmetic::Fp16x3: return device.tensor_flops / 3;
    case Arithmetic::Fp8: return device.tensor_flops * 2;
  }
  return peak_flops(device, dtype);
}

Occupancy occupancy(const DeviceInfo& device, const BlockResources& block) {
  const int warps = (block.threads + WARP_SIZE - 1) / WARP_SIZE;
  Occupancy result{};
  result.by_threads = block.threads > device.threads_per_block
                          ? 0
                          : device.threads_per_sm / WARP_SIZE / warps;  // given out by warps
  result.by_blocks = device.blocks_per_sm;
  result.by_registers = blocks_by_registers(device, block, warps);
  result.by_shared = blocks_by_shared(device, block);

  struct Limit {
    const char* name;
    int blocks;
  };
  const Limit limits[] = {{"threads", result.by_threads},
                          {"blocks", result.by_blocks},
                          {"registers", result.by_registers},
                          {"shared memory", result.by_shared}};
  result.blocks_per_sm = std::numeric_limits<int>::max();
  for (const Limit& limit : limits) {
    if (limit.blocks < 0 || limit.blocks >= result.blocks_per_sm) continue;
    result.blocks_per_sm = limit.blocks;
    result.limit = limit.name;
  }
  result.threads_per_sm = result.blocks_per_sm * block.threads;
  result.shared_bytes_per_sm = result.blocks_per_sm * block.shared_bytes;
  result.fraction = static_cast<double>(result.threads_per_sm) / device.threads_per_sm;
  return result;
}

Roofline roofline(const DeviceInfo& device, double bytes, double flops, double peak) {
  Roofline result{};
  // No bytes: the memory sets no bound, not even for no flops.
  result.intensity = bytes > 0 ? flops / bytes : std::numeric_limits<double>::infinity();
  const double by_memory = result.intensity * device.memory_bandwidth;
  result.flops_bound = std::min(peak, by_memory);
  result.bound = by_memory < peak ? "memory" : "compute";
  const double seconds_compute = flops > 0 ? flops / peak : 0;
  result.seconds_bound = std::max(seconds_compute, bytes / device.memory_bandwidth);
  return result;
}

}  // namespace tiled
