#include "cuda/plan/build.h"

#include "cuda/plan/architectures.h"
#include "cuda/plan/kernels_of.h"

namespace tiled {
namespace {

// Whether the build has these kernels for the device.
bool has_mma(Mma mma, const DeviceInfo& device, const Build& build) {
  switch (mma) {
    case Mma::None: return true;
    case Mma::Fp16By8: return runs_on(build.by_8_architectures, device.capability);
    case Mma::All: return runs_on(build.mma_architectures, device.capability);
  }
  return false;
}

}  // namespace

DeviceInfo as_built(DeviceInfo device, const Build& build) {
  const double tensor_flops = device.tensor_flops;
  const bool has = has_mma(kernels_of(device).mma, device, build);
  if (!build.hopper) leave_out_hopper_kernels(device);
  // Hopper's are not the only ones on tensor cores: 9.0 runs those for 8.0, by their PTX.
  device.tensor_flops = has ? tensor_flops : 0;
  return device;
}

std::optional<DeviceInfo> planned_as(std::string_view name, const DeviceInfo& running,
                                     const Build& build, std::string& refusal) {
  std::optional<DeviceInfo> planned = named_device(name);
  if (!planned) {
    refusal = "there is no device of this name";
    return std::nullopt;
  }
  const bool kernels = (running.hopper_kernels || !planned->hopper_kernels) &&
                       has_mma(kernels_of(*planned).mma, running, build);
  const bool limits = planned->shared_bytes_per_block <= running.shared_bytes_per_block &&
                      planned->threads_per_block <= running.threads_per_block &&
                      planned->registers_per_sm <= running.registers_per_sm;
  if (!kernels) refusal = "it has kernels that this build does not have for " + running.name;
  if (kernels && !limits) refusal = "its limits are beyond those of " + running.name;
  if (!kernels || !limits) return std::nullopt;
  planned->name += " (on " + running.name + ")";
  return planned;
}

}  // namespace tiled
