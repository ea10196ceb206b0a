#include "explain/kernel_resources.h"

#include <iterator>

namespace tiled {
namespace {

constexpr KernelRow TABLE[] = {
#include "kernel_resources_table.inc"
    {"", {0, 0, 0, 0}},  // no kernel's: an array may not be empty
};
constexpr int64_t ROWS = static_cast<int64_t>(std::size(TABLE)) - 1;

}  // namespace

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
