// The table of named devices, and the arithmetic of occupancy and roofline.
#include "cuda/plan/device.h"

#include <algorithm>
#include <limits>

namespace tiled {
namespace {

constexpr int64_t KIB = 1024;  // bytes
constexpr int64_t MIB = 1024 * KIB;
constexpr double GIGA = 1e9;

// What the compute capability alone decides. Multiply-adds per clock of one multiprocessor and
// allocation units: CUDA C++ Programming Guide, "Arithmetic Instructions" and "Compute
// Capabilities" (editions 2.3, 8.0 and 13), and the occupancy calculators of the same toolkits.
// Only the named devices and those that the kernels are built for have a row. The integer rate of
// 1.x is that of the sequence of 24-bit multiplications; from 10.0 on it is taken to be 9.0's.
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
    {10, 0, 1, 512, 8, 0, 2},  // the register file is taught as threads * registers
    {13, 0, 1, 512, 8, 1, 2},
    {20, 64, 2, 128, 32, 16, 16},
    {35, 256, 4, 256, 192, 64, 32},
    {75, 256, 4, 256, 64, 2, 64},
    {80, 256, 4, 128, 64, 32, 64},
    {86, 256, 4, 128, 128, 2, 64},
    {90, 256, 4, 128, 128, 64, 64, 2048, 128},
    {100, 256, 4, 128, 128, 64, 64},
    {103, 256, 4, 128, 128, 2, 64},
};

// The newest architecture that is not newer than the capability.
const Architecture& architecture_of(int capability) {
  const Architecture* found = &ARCHITECTURES[0];
  for (const Architecture& architecture : ARCHITECTURES)
    if (architecture.capability <= capability) found = &architecture;
  return *found;
}

// A row of the table of named devices. Limits of a multiprocessor: Programming Guide, "Compute
// Capabilities", table of technical specifications per capability (editions as above). The rest:
// the data sheet or white paper named in the row's comment. Where the textbook rounds or differs
// (Kirk and Hwu, "Programming Massively Parallel Processors"), its figure stands, since its
// exercises are what those devices are here for.
struct NamedDevice {
  const char* key;
  const char* name;
  int capability;
  int multiprocessors;
  double clock_hz;
  int threads_per_sm, threads_per_block, blocks_per_sm, registers_per_sm;
  int64_t shared_bytes_per_sm, shared_bytes_per_block, shared_bytes_reserved;
  int64_t l2_bytes;
  double memory_bandwidth;  // bytes/s
};

constexpr NamedDevice NAMED_DEVICES[] = {
    // NVIDIA H200 data sheet: 4.8 TB/s, 67 TF/s fp32, 34 TF/s fp64; GH100 with 132
    // multiprocessors, boost 1.98 GHz; L2 as the device reports it.
    {"h200", "NVIDIA H200", 90, 132, 1.98 * GIGA, 2048, 1024, 32, 65536, 228 * KIB, 227 * KIB,
     1 * KIB, 60 * MIB, 4800 * GIGA},
    // NVIDIA H100 data sheet and white paper (SXM5, 80 GB): 3.35 TB/s, 67 TF/s fp32, L2 50 MB.
    {"h100", "NVIDIA H100 SXM5 80GB", 90, 132, 1.98 * GIGA, 2048, 1024, 32, 65536, 228 * KIB,
     227 * KIB, 1 * KIB, 50 * MIB, 3350 * GIGA},
    // NVIDIA A100 data sheet and white paper (SXM4, 80 GB): 2,039 GB/s, 19.5 TF/s fp32, 9.7 TF/s
    // fp64, boost 1.41 GHz, L2 40 MB.
    {"a100", "NVIDIA A100 SXM4 80GB", 80, 108, 1.41 * GIGA, 2048, 1024, 32, 65536, 164 * KIB,
     163 * KIB, 1 * KIB, 40 * MIB, 2039 * GIGA},
    // NVIDIA T4 data sheet and Turing white paper: 320 GB/s, 8.1 TF/s fp32, boost 1.59 GHz, L2
    // 4 MB.
    {"t4", "NVIDIA T4", 75, 40, 1.59 * GIGA, 1024, 1024, 16, 65536, 64 * KIB, 64 * KIB, 0, 4 * MIB,
     320 * GIGA},
    // GeForce 8800 GTX. The textbook's figures: 86.4 GB/s; 367 GF/s, for which the clock stands
    // (16 multiprocessors of 8 multiply-adds; the card's 1.35 GHz would give 346).
    {"g80", "GeForce 8800 GTX (G80)", 10, 16, 367 * GIGA / (16 * 8 * 2), 768, 512, 8, 8192,
     16 * KIB, 16 * KIB, 0, 0, 86.4 * GIGA},
    // GeForce GTX 280 specification: 141.7 GB/s, 1.296 GHz; 622 GF/s by multiply-adds (the often
    // quoted 933 counts a second multiplication beside each).
    {"gt200", "GeForce GTX 280 (GT200)", 13, 30, 1.296 * GIGA, 1024, 512, 8, 16384, 16 * KIB,
     16 * KIB, 0, 0, 141.7 * GIGA},
    // Tesla C2050 board specification: 1.03 TF/s fp32, 515 GF/s fp64, L2 768 KB; the bandwidth is
    // the 150 GB/s of the course (the card has 144). Shared memory in its 48 KiB configuration.
    {"fermi", "Tesla C2050 (Fermi)", 20, 14, 1.15 * GIGA, 1536, 1024, 8, 32768, 48 * KIB, 48 * KIB,
     0, 768 * KIB, 150 * GIGA},
    // Tesla K40 board specification: 288 GB/s, 4.29 TF/s fp32, 1.43 TF/s fp64 at the base clock of
    // 745 MHz, L2 1.5 MB.
    {"k40", "Tesla K40", 35, 15, 0.745 * GIGA, 2048, 1024, 16, 65536, 48 * KIB, 48 * KIB, 0,
     1536 * KIB, 288 * GIGA},
};

DeviceInfo device_of(const NamedDevice& row) {
  DeviceInfo device{};
  device.name = row.name;
  device.capability = row.capability;
  device.multiprocessors = row.multiprocessors;
  device.threads_per_sm = row.threads_per_sm;
  device.threads_per_block = row.threads_per_block;
  device.blocks_per_sm = row.blocks_per_sm;
  device.registers_per_sm = row.registers_per_sm;
  device.shared_bytes_per_sm = row.shared_bytes_per_sm;
  device.shared_bytes_per_block = row.shared_bytes_per_block;
  device.shared_bytes_reserved = row.shared_bytes_reserved;
  device.l2_bytes = row.l2_bytes;
  device.memory_bandwidth = row.memory_bandwidth;
  set_architecture(device, row.clock_hz);
  return device;
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
  const Architecture& architecture = architecture_of(device.capability);
  device.register_granularity = architecture.register_granularity;
  device.register_partitions = architecture.register_partitions;
  device.shared_granularity = architecture.shared_granularity;
  const double multiprocessor_flops = 2.0 * device.multiprocessors * clock_hz;
  device.fp32_flops = architecture.fp32 * multiprocessor_flops;
  device.fp64_flops = architecture.fp64 * multiprocessor_flops;
  device.fp64_tensor_flops = architecture.fp64_tensor * multiprocessor_flops;
  device.int32_ops = architecture.int32 * multiprocessor_flops;
  device.tensor_flops = architecture.tensor * multiprocessor_flops;
  device.hopper_kernels = device.capability == 90;  // their code runs on no other
}

std::optional<DeviceInfo> named_device(std::string_view name) {
  for (const NamedDevice& row : NAMED_DEVICES)
    if (row.key == name) return device_of(row);
  return std::nullopt;
}

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const NamedDevice& row : NAMED_DEVICES) names.push_back(row.key);
  return names;
}

double peak_flops(const DeviceInfo& device, DType dtype) {
  switch (dtype) {
    case DType::Float32:
    case DType::Float16:
    case DType::BFloat16:
    case DType::Complex64: return device.fp32_flops;
    case DType::Float64: return std::max(device.fp64_flops, device.fp64_tensor_flops);
    case DType::Complex128: return device.fp64_flops;
    case DType::Int8:
    case DType::Int16:
    case DType::Int32:
    case DType::UInt8: return device.int32_ops;
    case DType::Int64: return device.int32_ops / 3;  // low * low, and twice low * high
  }
  return 0;
}

double peak_flops(const DeviceInfo& device, DType dtype, Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::Fma:
    case Arithmetic::Cpu16: break;
    case Arithmetic::Tensor: return device.tensor_flops;
    case Arithmetic::Tf32: return device.tensor_flops / 2;
    case Arithmetic::Fp16x3: return device.tensor_flops / 3;
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
