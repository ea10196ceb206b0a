// The table of named devices.
#include "cuda/plan/device.h"
#include "cuda/plan/named_memory.h"

namespace tiled {
namespace {

constexpr int64_t KIB = 1024;  // bytes
constexpr int64_t MIB = 1024 * KIB;
constexpr int64_t GIB = 1024 * MIB;
constexpr int64_t GB = 1'000'000'000;  // as data sheets count memory
constexpr double GIGA = 1e9;

// A row of the table of named devices. Limits of a multiprocessor: Programming Guide, "Compute
// Capabilities", table of technical specifications per capability (the editions of device.cpp). The
// rest: the data sheet or white paper named in the row's comment. Where the textbook rounds or
// differs (Kirk and Hwu, "Programming Massively Parallel Processors"), its figure stands, since its
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
  int64_t memory_bytes;
};

constexpr NamedDevice NAMED_DEVICES[] = {
    // NVIDIA H200 data sheet: 4.8 TB/s, 67 TF/s fp32, 34 TF/s fp64; GH100 with 132
    // multiprocessors, boost 1.98 GHz; L2 as the device reports it.
    {"h200", "NVIDIA H200", 90, 132, 1.98 * GIGA, 2048, 1024, 32, 65536, 228 * KIB, 227 * KIB,
     1 * KIB, 60 * MIB, 4800 * GIGA, 141 * GB},
    // NVIDIA H100 data sheet and white paper (SXM5, 80 GB): 3.35 TB/s, 67 TF/s fp32, L2 50 MB.
    {"h100", "NVIDIA H100 SXM5 80GB", 90, 132, 1.98 * GIGA, 2048, 1024, 32, 65536, 228 * KIB,
     227 * KIB, 1 * KIB, 50 * MIB, 3350 * GIGA, 80 * GB},
    // NVIDIA H100 product brief and data sheet (PCIe, 80 GB): 2.0 TB/s, 51 TF/s fp32 with 114
    // multiprocessors at 1.755 GHz, L2 50 MB, 350 W.
    {"h100-pcie", "NVIDIA H100 PCIe", 90, 114, 1.755 * GIGA, 2048, 1024, 32, 65536, 228 * KIB,
     227 * KIB, 1 * KIB, 50 * MIB, 2000 * GIGA, 80 * GB},
    // NVIDIA H20 data sheet: 4.0 TB/s from six stacks of memory, hence all of GH100's L2, 400 W;
    // its tensor cores and fp64 units are device.cpp's CHIPS. 78 multiprocessors at 1.98 GHz, as
    // devices report them, have 39.5 TF/s of fp32 (the sheet has 44).
    {"h20", "NVIDIA H20", 90, 78, 1.98 * GIGA, 2048, 1024, 32, 65536, 228 * KIB, 227 * KIB, 1 * KIB,
     60 * MIB, 4000 * GIGA, 96 * GB},
    // NVIDIA GH200 Grace Hopper Superchip data sheet (96 GB HBM3): 4 TB/s from six stacks, 67 TF/s
    // fp32; the GPU is an H100's, with all of GH100's L2.
    {"gh200", "NVIDIA GH200 480GB", 90, 132, 1.98 * GIGA, 2048, 1024, 32, 65536, 228 * KIB,
     227 * KIB, 1 * KIB, 60 * MIB, 4000 * GIGA, 96 * GB},
    // NVIDIA A100 data sheet and white paper (SXM4, 80 GB): 2,039 GB/s, 19.5 TF/s fp32, 9.7 TF/s
    // fp64, boost 1.41 GHz, L2 40 MB.
    {"a100", "NVIDIA A100 SXM4 80GB", 80, 108, 1.41 * GIGA, 2048, 1024, 32, 65536, 164 * KIB,
     163 * KIB, 1 * KIB, 40 * MIB, 2039 * GIGA, 80 * GB},
    // NVIDIA A10 data sheet and GA102 white paper: 600 GB/s, 31.2 TF/s fp32, 125 TF/s of 16 bits
    // with 72 multiprocessors at 1.695 GHz, L2 6 MB.
    {"a10", "NVIDIA A10", 86, 72, 1.695 * GIGA, 1536, 1024, 16, 65536, 100 * KIB, 99 * KIB, 1 * KIB,
     6 * MIB, 600 * GIGA, 24 * GB},
    // NVIDIA L40S data sheet and Ada white paper: 864 GB/s, 91.6 TF/s fp32, 362 TF/s of 16 bits
    // with 142 multiprocessors at 2.52 GHz, L2 96 MB.
    {"l40s", "NVIDIA L40S", 89, 142, 2.52 * GIGA, 1536, 1024, 24, 65536, 100 * KIB, 99 * KIB,
     1 * KIB, 96 * MIB, 864 * GIGA, 48 * GB},
    // GA102 white paper, GeForce RTX 3090: 936 GB/s, 35.6 TF/s fp32, 71 TF/s of fp16 with fp32
    // sums, 82 multiprocessors at 1.695 GHz, L2 6 MB.
    {"rtx3090", "NVIDIA GeForce RTX 3090", 86, 82, 1.695 * GIGA, 1536, 1024, 16, 65536, 100 * KIB,
     99 * KIB, 1 * KIB, 6 * MIB, 936 * GIGA, 24 * GB},
    // Ada white paper, GeForce RTX 4090: 1008 GB/s, 82.6 TF/s fp32, 165.2 TF/s of fp16 with fp32
    // sums, 128 multiprocessors at 2.52 GHz, L2 72 MB.
    {"rtx4090", "NVIDIA GeForce RTX 4090", 89, 128, 2.52 * GIGA, 1536, 1024, 24, 65536, 100 * KIB,
     99 * KIB, 1 * KIB, 72 * MIB, 1008 * GIGA, 24 * GB},
    // RTX Blackwell white paper, GeForce RTX 5090: 1792 GB/s, 104.8 TF/s fp32, 209.5 TF/s of fp16
    // with fp32 sums, 170 multiprocessors at 2.407 GHz, L2 96 MB.
    {"rtx5090", "NVIDIA GeForce RTX 5090", 120, 170, 2.407 * GIGA, 1536, 1024, 24, 65536, 100 * KIB,
     99 * KIB, 1 * KIB, 96 * MIB, 1792 * GIGA, 32 * GB},
    // NVIDIA HGX B200 data sheet, one of its eight GPUs: 7.7 TB/s, 180 GB, 75 TF/s fp32, which its
    // multiprocessors have at 1.98 GHz; 148 of them, and 126 MB of L2, as devices report them
    // (Chips
    // and Cheese, "Nvidia's B200: Keeping the CUDA Juggernaut Rolling").
    {"b200", "NVIDIA B200", 100, 148, 1.98 * GIGA, 2048, 1024, 32, 65536, 228 * KIB, 227 * KIB,
     1 * KIB, 126 * MIB, 7700 * GIGA, 180 * GB},
    // NVIDIA T4 data sheet and Turing white paper: 320 GB/s, 8.1 TF/s fp32, boost 1.59 GHz, L2
    // 4 MB.
    {"t4", "NVIDIA T4", 75, 40, 1.59 * GIGA, 1024, 1024, 16, 65536, 64 * KIB, 64 * KIB, 0, 4 * MIB,
     320 * GIGA, 16 * GB},
    // GeForce 8800 GTX. The textbook's figures: 86.4 GB/s; 367 GF/s, for which the clock stands
    // (16 multiprocessors of 8 multiply-adds; the card's 1.35 GHz would give 346).
    {"g80", "GeForce 8800 GTX (G80)", 10, 16, 367 * GIGA / (16 * 8 * 2), 768, 512, 8, 8192,
     16 * KIB, 16 * KIB, 0, 0, 86.4 * GIGA, 768 * MIB},
    // GeForce GTX 280 specification: 141.7 GB/s, 1.296 GHz; 622 GF/s by multiply-adds (the often
    // quoted 933 counts a second multiplication beside each).
    {"gt200", "GeForce GTX 280 (GT200)", 13, 30, 1.296 * GIGA, 1024, 512, 8, 16384, 16 * KIB,
     16 * KIB, 0, 0, 141.7 * GIGA, 1 * GIB},
    // Tesla C2050 board specification: 1.03 TF/s fp32, 515 GF/s fp64, L2 768 KB; the bandwidth is
    // the 150 GB/s of the course (the card has 144). Shared memory in its 48 KiB configuration.
    {"fermi", "Tesla C2050 (Fermi)", 20, 14, 1.15 * GIGA, 1536, 1024, 8, 32768, 48 * KIB, 48 * KIB,
     0, 768 * KIB, 150 * GIGA, 3 * GIB},
    // Tesla K40 board specification: 288 GB/s, 4.29 TF/s fp32, 1.43 TF/s fp64 at the base clock of
    // 745 MHz, L2 1.5 MB.
    {"k40", "Tesla K40", 35, 15, 0.745 * GIGA, 2048, 1024, 16, 65536, 48 * KIB, 48 * KIB, 0,
     1536 * KIB, 288 * GIGA, 12 * GIB},
};

// A row whose last members are missing would have none: aggregates fill up with zeros.
constexpr bool all_have_memory() {
  for (const NamedDevice& row : NAMED_DEVICES)
    if (row.memory_bytes <= 0) return false;
  return true;
}
static_assert(all_have_memory());

const NamedDevice* row_of(std::string_view name) {
  for (const NamedDevice& row : NAMED_DEVICES)
    if (row.key == name) return &row;
  return nullptr;
}

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

}  // namespace

std::optional<DeviceInfo> named_device(std::string_view name) {
  if (const NamedDevice* row = row_of(name)) return device_of(*row);
  return std::nullopt;
}

std::optional<int64_t> named_memory(std::string_view name) {
  if (const NamedDevice* row = row_of(name)) return row->memory_bytes;
  return std::nullopt;
}

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const NamedDevice& row : NAMED_DEVICES) names.push_back(row.key);
  return names;
}

}  // namespace tiled
