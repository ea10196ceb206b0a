// The launch of rung register_tile, with the copies before it.
#include "cuda/parts/launch_rung.h"
#include "cuda/parts/launch_segments.h"
#include "cuda/parts/repack.h"
#include "cuda/rungs/3_register_tile/kernels.h"

namespace tiled {
namespace {

Kernel<ProblemAndTotals> kernel_of(const Problem& problem, const RegisterTileWay& way) {
  return way.async ? register_tile_async_kernel(way) : register_tile_kernel(problem, way);
}

cudaError_t launch(const Problem& problem, const Plan& plan, void* workspace, cudaStream_t stream) {
  const RegisterTileWay way = plan.way.as<RegisterTileWay>();
  Problem read = problem;  // as the kernel reads it
  Copies copies(problem, workspace);
  if (way.transpose_a) {
    const Side a = copies.add(side_a(problem), transposed(side_a(problem), problem));
    read.a = {a.data, a.row_stride, a.k_stride, a.batch_stride, a.alignment};
  }
  if (way.transpose_b) {
    const Side b = copies.add(side_b(problem), transposed(side_b(problem), problem));
    read.b = {b.data, b.k_stride, b.row_stride, b.batch_stride, b.alignment};
  }
  const cudaError_t error = launch_copies(copies, problem, plan.begin(), stream);
  if (error != cudaSuccess) return error;
  if (way.wraps_around)
    return launch_wrapped(register_tile_wrapped_kernel(way), read, plan, way.blocks, workspace,
                          copies.bytes(), stream);
  return launch_segments(
      read, plan, way.shares_segments, static_cast<char*>(workspace) + copies.bytes(), stream,
      [&](const ProblemAndTotals& args) {
        return launch_kernel(kernel_of(problem, way), plan.main_step(), stream, args);
      });
}

const void* kernel(const Problem& problem, const Plan& plan) {
  const RegisterTileWay way = plan.way.as<RegisterTileWay>();
  if (way.wraps_around) return address_of(register_tile_wrapped_kernel(way));
  return address_of(kernel_of(problem, plan.way.as<RegisterTileWay>()));
}

}  // namespace

extern const RungLaunch RegisterTileLaunch = {&launch, &kernel};

}  // namespace tiled
