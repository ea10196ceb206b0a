// The planner knows this of a GPU, and the two general functions that stand on it: occupancy and
// roofline. No CUDA header: a DeviceInfo comes from the running device (mm_cuda.cpp) or from the
// table of named devices (named_devices.cpp), so plans can be made and tested where there is no
// GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem.h"

namespace tiled {

constexpr int WARP_SIZE = 32;  // threads; the same on every CUDA device

struct DeviceInfo {
  std::string name;
  int capability;       // 90 for compute capability 9.0
  int multiprocessors;  // that products may fill
  int threads_per_sm;
  int threads_per_block;  // the most one block may have
  int blocks_per_sm;
  int registers_per_sm;      // 32-bit
  int register_granularity;  // registers are given out in units of this many, per warp
                             // (0: per thread times threads, as the first devices are taught)
  int register_partitions;   // parts of the register file; a warp lives in one of them
  int64_t shared_bytes_per_sm;
  int64_t shared_bytes_per_block;  // the most one block may ask for (opt-in limit)
  int64_t shared_bytes_reserved;   // taken by the system per block
  int64_t shared_granularity;      // bytes; a block's shared memory is rounded up to this
  int64_t l2_bytes;
  double clock_hz;           // the highest
  double fp32_flops;         // flop/s, a multiply-add counted as two
  double fp64_flops;         // flop/s without tensor cores; 0: the device has no fp64
  double fp64_tensor_flops;  // flop/s of fp64 on tensor cores; 0: no kernel here uses them
  double int32_ops;          // 32-bit integer op/s, a multiply-add counted as two
  double tensor_flops;       // flop/s of 16-bit tensor-core products; 0: no kernel here uses them
  double memory_bandwidth;   // bytes/s
  // Whether there are the kernels that CMake has listed as Hopper's: those on tensor cores, and
  // what else is built for compute capability 9.0 alone. Every choice that needs one asks here.
  bool hopper_kernels;
  int left_free = 0;  // multiprocessors that products leave to other kernels

  int all_multiprocessors() const { return multiprocessors + left_free; }
};

// The same device where products leave so many multiprocessors to other kernels, all but one at
// most. Rates, and the rules of the choice, are the whole device's.
DeviceInfo leaving_free(DeviceInfo device, int multiprocessors);

// Fills in what a device's properties do not tell but its compute capability decides, and for some
// chips its name: the units in which registers and shared memory are given out, the peak rates, the
// limit of power, and which kernels there are. Needs `capability` and `multiprocessors`; a
// capability newer than the table counts as the table's last.
void set_architecture(DeviceInfo& device, double clock_hz);

// The device as a build sees it that leaves out Hopper's kernels; and whether it did.
inline void leave_out_hopper_kernels(DeviceInfo& device) {
  device.hopper_kernels = false;
  device.tensor_flops = device.fp64_tensor_flops = 0;
}
inline bool leaves_out_hopper_kernels(const DeviceInfo& device) {
  return device.capability == 90 && !device.hopper_kernels;
}
constexpr const char* HOPPER_LEFT_OUT =
    "this build leaves out the kernels of compute capability 9.0 (TORCH_CUDA_ARCH_LIST)";

// The named devices, as a library with all kernels runs on them: h200, h100 (SXM), h100-pcie, h20,
// gh200, a100, a10, l40s, rtx3090, rtx4090, rtx5090, b200, t4, and the textbook's g80, gt200,
// fermi and k40. Empty if there is none of this name.
std::optional<DeviceInfo> named_device(std::string_view name);
std::vector<std::string> device_names();

// The peak, in op/s, of chains of multiply-adds in this dtype's accumulator (Arithmetic::Fma):
// fp64 and bytes have tensor cores too; 16-bit floats are summed in fp32; complex numbers are made
// of their real parts; a 64-bit integer multiply-add takes three 32-bit ones.
double peak_flops(const DeviceInfo& device, DType dtype);
// The same in any arithmetic; tf32 runs at half the rate of 16-bit products.
double peak_flops(const DeviceInfo& device, DType dtype, Arithmetic arithmetic);

// One block asks this of a multiprocessor. registers_per_thread 0 means "not known".
struct BlockResources {
  int threads;
  int registers_per_thread;
  int64_t shared_bytes;
};

struct Occupancy {
  int blocks_per_sm;
  int threads_per_sm;           // blocks_per_sm * threads
  int64_t shared_bytes_per_sm;  // blocks_per_sm * shared_bytes
  double fraction;              // of threads_per_sm that are in use
  std::string limit;            // "threads", "blocks", "registers" or "shared memory": the first
                                // of them that allows no more than blocks_per_sm
  // blocks each resource alone would allow; -1 where it sets no limit
  int by_threads, by_blocks, by_registers, by_shared;
};

// blocks_per_sm is 0 for a block that cannot be launched at all.
Occupancy occupancy(const DeviceInfo& device, const BlockResources& block);

struct Roofline {
  double intensity;      // flops per byte; infinite for no bytes
  double flops_bound;    // flop/s: min(peak, intensity * bandwidth)
  double seconds_bound;  // max(flops / peak, bytes / bandwidth)
  std::string bound;     // "memory" or "compute"
};

// `peak` in flop/s; the roofline of Williams, Waterman and Patterson (CACM 52(4), 2009).
Roofline roofline(const DeviceInfo& device, double bytes, double flops, double peak);

}  // namespace tiled
