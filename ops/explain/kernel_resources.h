// The compiler reported this of each kernel it built: a table generated at build by
// cmake/kernel_resources.cmake, empty in a build without CUDA. Only reports read it; it works where
// there is no GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tiled {

struct KernelResources {
  int capability;        // that the kernel was compiled for, as 90 for 9.0
  int registers;         // of one thread
  int64_t shared_bytes;  // static, of one block
  int64_t stack_bytes;   // of one thread: spilled registers and arrays that are not in registers
};

struct KernelRow {
  const char* key;  // its name: "register_tile<float, Tile64x64, 0, 1>"
  KernelResources resources;
};

// The code that a device of this capability runs: the newest that is not newer than the device.
// Empty if the kernel was not built for it.
std::optional<KernelResources> kernel_resources(std::string_view key, int capability);

// The same in a given table.
std::optional<KernelResources> kernel_resources(const KernelRow* rows, int64_t count,
                                                std::string_view key, int capability);

// Whether kernels were built at all.
bool has_kernel_resources();

}  // namespace tiled
